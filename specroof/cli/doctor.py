"""`specroof doctor`: a running server, read, and what it should change."""

from specroof.catalog import model_names
from specroof.cli.flags import FORMATS, SETUP, Flag, command, drafter_flag, shared
from specroof.drafters.kinds import KINDS
from specroof.questions.doctor import doctor as asked
from specroof.questions.doctor import doctor_text

doctor = command(
    asked,
    {
        "pages": Flag(
            "A server, as in http://localhost:8000 or localhost:8000/v1; or one or two saved metrics "
            "pages, the older first.",
            "URL|PAGE…",
            kind=list[str],
        ),
        "model": Flag(
            "A config.json, a bundled model or a Hub name (ORG/NAME).", names=model_names
        ),
        **shared("hardware"),
        "drafter": drafter_flag(
            f"What drafts: KIND[,key=value…]. Kinds: {', '.join(KINDS)}. The prediction uses the "
            f"acceptance that the server counts; one given here is compared with it."
        ),
        "wait_s": Flag(
            "Seconds between the two reads, 0 for one read; or between two saved pages.",
            "--wait",
            metavar="SECONDS",
            shown="10 for a server",
        ),
        "served_name": Flag(
            "The model's name on the server, if it serves several.", metavar="NAME"
        ),
        "context_len": Flag(
            "Cached tokens of each request.",
            "--context",
            shown="the mean of the finished requests, else 4096",
        ),
        "header": Flag(
            "NAME: VALUE for a server that wants a key; again for more. The token in SPECROOF_TOKEN "
            "is sent as Authorization: Bearer, and stands in no list of processes.",
            metavar="NAME: VALUE",
            kind=list[str],
            shown=False,
        ),
        "draft_model": Flag("The drafter's weights, for the flags.", metavar="NAME"),
    },
    SETUP,
    FORMATS,
    example="specroof doctor http://localhost:8000 --model Qwen/Qwen3-8B -H h100 --drafter eagle3",
    text=doctor_text,
    csv=False,
)
