"""Time what a server's host takes to make tokens of a prompt: `fitting.parameters.TOKENIZE_S`.

    python benchmarks/tokenizing.py TOKENIZER.json... [--tokens 1024 8192] [--prompts 7]

Needs ``pip install tokenizers``, and `tokenizer.json` files of models. Prompts are drawn tokens
turned into text, as the random prompts of `vllm bench serve` and SGLang's `bench_serving` are.
Seconds are those of the processor, so that others may use the machine.
"""

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
from tokenizers import Tokenizer  # type: ignore[import-not-found]  # installed for this script


def token_us(tokenizer: Tokenizer, tokens: int, prompts: int) -> float:
    """Return microseconds of the processor for a token, the median over prompts."""
    rng, size = np.random.default_rng(0), tokenizer.get_vocab_size()
    found = []
    for _ in range(prompts):
        text = tokenizer.decode(rng.integers(size, size=tokens).tolist())
        began = time.process_time()
        read = tokenizer.encode(text)
        found.append((time.process_time() - began) / len(read.ids) * 1e6)
    return median(found)


def main() -> None:
    """Print a row for each tokenizer, and the median over all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="TOKENIZER.json")
    parser.add_argument("--tokens", nargs="+", type=int, default=[1024, 8192])
    parser.add_argument("--prompts", type=int, default=7)
    args = parser.parse_args()
    rows = []
    for file in args.files:
        tokenizer = Tokenizer.from_file(str(file))
        rows.append([token_us(tokenizer, tokens, args.prompts) for tokens in args.tokens])
        print(*(f"{us:6.2f}" for us in rows[-1]), file, sep="  ")
    print(*(f"{median(column):6.2f}" for column in zip(*rows, strict=True)), "median", sep="  ")


if __name__ == "__main__":
    main()
