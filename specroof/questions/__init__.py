"""One file a question: a request in, an answer with notes out; no printing, no files.

This file is the one list of questions, which Python asks as ``specroof.NAME`` and the shell as
``specroof NAME``. Both are in `specroof.questions.NAME`: the function, and `COMMAND`, the row that
`specroof.cli` turns into a command. The door, help, the documentation and tests follow this list.
"""

from typing import Final

#: In the order in which help lists them, with the first sentence of their help: help imports no
#: question, since a cold start is felt.
QUESTIONS: Final = {
    "predict": "Predict the speedup of speculative decoding and the best draft length.",
    "advise": "Say whether speculative decoding pays, with which drafter and which server flags.",
    "sweep": "Run a study: several models x hardware x drafters.",
    "explain": "Show where one pass spends its time: FLOP, bytes, bound and seconds per operation.",
    "capacity": "Show the memory of a server line by line, and the largest batch that it runs.",
    "breakeven": "Find the acceptance, cost, batch or context at which speculation starts or stops paying.",
    "doctor": "Read a server's metrics, compare them with a prediction, and say what to change.",
    "explore": "Make an interactive page of models, chips, loads and drafters.",
    "frontier": "Find the best speeds per user and per device, with speculation and without.",
    "worth": "Show the speedup, price and users of better drafters, by acceptance length.",
    "train": "Show what a drafter costs to train, what it would bring, and when it has paid for itself.",
    "rollout": "Predict the time of a batch of prompts with long-tailed answers, with drafts and without.",
    "validate": "Compare predictions with your own results, or with every bundled measurement.",
    "calibrate": "Fit an engine profile to your own benchmark, and write a hardware file with it.",
    "measure": "Time passes on this machine, write a hardware file with them, and say what changed.",
}
