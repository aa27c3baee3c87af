"""Which commands measure a predicted point on a real engine, without trained weights?"""

import os
import shlex
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

from specroof.arrays import fields_of, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import Deployment, engine_setup
from specroof.questions.advise import speculation_of
from specroof.questions.answer import Noted
from specroof.questions.request import (
    DRAFTER,
    FORMATS,
    SHARED,
    Command,
    DrafterLike,
    HardwareLike,
    OptionsLike,
    Parameter,
    drafter_of,
    engine_of_tool,
    hardware_of,
    model_of,
    options_of,
    question,
)
from specroof.serving.benchmark_commands import FRAMEWORKS, MockPoint, mock_commands
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.launch import DRAFT_MODEL, LOOKUPS
from specroof.serving.prefills import end_to_end
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import acceptance_of, longest_draft
from specroof.speedup.result import SpeedupCurve


@dataclass(frozen=True)
class MockRequest:
    """Ask how to measure a predicted point.

    Examples
    --------
    >>> from specroof import mock
    >>> answer = mock("Qwen/Qwen3.5-27B", "b200", drafter="mtp,accept=0.8", draft_len=3)
    >>> len(answer.commands)
    4
    """

    model: Annotated[
        str | os.PathLike[str],
        replace(SHARED["model"], in_python="The commands repeat it."),
    ]
    hardware: Annotated[HardwareLike, SHARED["hardware"]]
    _: KW_ONLY
    drafter: Annotated[
        DrafterLike,
        replace(DRAFTER, about="Drafter and its acceptance, as in predict."),
    ]
    draft_len: Annotated[int, Parameter("Drafts per round.")]
    draft_model: Annotated[
        str | None,
        Parameter("Hub name or folder with the drafter's config; n-grams and mtp need none."),
    ] = None
    framework: Annotated[
        str, Parameter("Print the commands of this server.", metavar="|".join(FRAMEWORKS))
    ] = "sglang"
    concurrency: Annotated[int, Parameter("Requests in flight.")] = 1
    input_len: Annotated[int, Parameter("Tokens of each prompt.")] = 1024
    output_len: Annotated[int, Parameter("Tokens of each answer.")] = 1024
    tensor_parallel: Annotated[int, replace(SHARED["tensor_parallel"], panel=None)] = 1
    engine: Annotated[
        str | None,
        Parameter(
            "Engine of the hardware profile.",
            metavar="NAME",
            shown="named like --framework, else the profile's default",
        ),
    ] = None
    options: Annotated[OptionsLike | None, SHARED["options"]] = None
    family: Annotated[str | None, replace(SHARED["family"], panel=None)] = None


@dataclass(frozen=True, repr=False, eq=False)
class Mock(Noted):
    """How to measure a predicted point.

    Attributes
    ----------
    request
        The point.
    commands
        Pairs of a title and a command.
    curve
        The prediction of decoding alone.
    end_to_end
        The prediction with prefills, as the benchmark counts them.
    notes, warnings
        Sentences for the reader.
    """

    request: MockRequest
    commands: tuple[tuple[str, str], ...]
    curve: SpeedupCurve
    end_to_end: EndToEnd

    @property
    def counted(self) -> EndToEnd:
        """The name of old of `end_to_end`."""
        return self.end_to_end

    @property
    def title(self) -> str:
        """What is measured, in one line."""
        curve = self.curve
        return (
            f"{curve.drafter} with {curve.draft_len[-1]} drafts, {curve.model} on {curve.hardware}"
        )

    def text(self) -> str:
        """Return the commands, the prediction and what to do with the results."""
        return mock_text(self)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each command."""
        return [{"title": title, "command": command} for title, command in self.commands]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            "commands": self.records,
            "predicted": {
                "speedup": float(self.curve.speedup[0, 0, -1]),
                "engine": self.curve.engine,
                "end_to_end": {
                    "speedup": float(self.end_to_end.speedup[0, 0, -1]),
                    "baseline_tokens_per_s": float(self.end_to_end.tokens_per_s[0, 0, 0]),
                    "tokens_per_s": float(self.end_to_end.tokens_per_s[0, 0, -1]),
                },
            },
            "notes": list(self.notes),
        }


@question(MockRequest)
def mock(request: MockRequest) -> Mock:
    """Print the commands that measure a predicted point without trained weights."""
    expect("model", request.model, str | os.PathLike, "a name or a path, which commands repeat")
    whole_within("draft_len", request.draft_len, "draft_len")
    whole_within("concurrency", request.concurrency, "batch_size")
    expect("framework", request.framework, str, "sglang or vllm")
    expect("draft_model", request.draft_model, str | None, DRAFT_MODEL)
    drafter = drafter_of(request.drafter)
    if drafter.acceptance is None:
        message = f"drafter {drafter.name!r} has no acceptance to force; give one, as in accept=0.8"
        raise OptionError(message)
    model, hardware = model_of(request.model, request.family), hardware_of(request.hardware)
    workload = Workload(request.input_len, request.output_len)
    options = options_of(request.options)
    engine, notes = request.engine, list[str]()
    if engine is None:
        engine, notes = engine_of_tool(request.framework, hardware)
    setup = engine_setup(hardware, engine, Placement(request.tensor_parallel), options)
    max_draft_len = longest_draft(
        drafter, acceptance_of(drafter), request.draft_len, name="draft_len"
    )
    load = Load([request.concurrency], [workload.mean_context_len])
    deployment = Deployment(model, setup)
    served = served_curve(deployment, drafter, load, "ignore", max_draft_len=max_draft_len)
    curve = served.decoding
    drafts, verified = curve.draft_len[-1], curve.verify_len[-1]
    if verified != drafts + 1:
        message = (
            f"drafter {drafter.name!r} has {verified:g} positions verified at {drafts} drafts; "
            f"allowed: a chain or block, which engines can be told to accept"
        )
        raise OptionError(message)
    point = MockPoint(
        model=os.fspath(request.model),
        speculation=speculation_of(
            drafter,
            model,
            [(1, request.concurrency, request.draft_len)],
            request.draft_model,
        ),
        **fields_of(request, "input_len", "output_len", "tensor_parallel"),
        tokens_per_round=round(float(curve.tokens_per_round[0, 0, -1]), 4),
        batch_size=request.concurrency,
        weights=options.weight_dtype,
        kv_cache=options.kv_dtype,
    )
    return Mock(
        request=request,
        commands=tuple(mock_commands(point, request.framework)),
        curve=curve,
        end_to_end=end_to_end(curve, deployment, workload),
        notes=(*notes, *([_MATCHES] if drafter.kind in LOOKUPS else [])),
    )


#: What look-ups need besides a forced acceptance.
_MATCHES: Final = "random prompts repeat little: vLLM verifies drafts just where an n-gram is found, SGLang always"


# --- The commands as text ------------------------------------------------------------------------


def mock_text(answer: Mock) -> str:
    """Return the commands, the notes, the prediction and the commands that read the results.

    All but the commands that measure are comments of a shell script.
    """
    curve, requests, request = answer.curve, answer.end_to_end, answer.request
    options = options_of(request.options)
    chip = _in_words(request.hardware)
    words = {
        "-H": chip,
        "--model": request.model,
        "--drafter": _in_words(request.drafter),
        "--draft-len": request.draft_len,
        "--tp": request.tensor_parallel,
        "--family": request.family,
        "--engine": request.engine,
        "--kv-cache": options.kv_dtype,
        "--weights": options.weight_dtype,
    }
    pairs = [(flag, str(word)) for flag, word in words.items() if word is not None]
    results = shlex.join(["bench.jsonl", *chain.from_iterable(pairs)])
    mine = shlex.quote(f"my-{Path(chip).stem}.yaml")
    return "\n".join(
        [
            *(f"# {title}\n{command}\n" for title, command in answer.commands),
            *(f"# note: {note}" for note in answer.notes),
            f"# predicted by engine {curve.engine}, prefills counted as the benchmark does: "
            f"{requests.tokens_per_s[0, 0, 0]:.0f} tok/s without drafts, "
            f"{requests.tokens_per_s[0, 0, -1]:.0f} with, {requests.speedup[0, 0, -1]:.2f}x "
            f"({curve.speedup[0, 0, -1]:.2f}x while decoding)",
            f"# then compare: specroof validate {results}",
            f"# and fit, with results at several loads: specroof calibrate {results} -o {mine}",
        ]
    )


def _in_words(given: HardwareLike | DrafterLike) -> str:
    """Return a chip or drafter as a command takes it."""
    return given.name if isinstance(given, HardwareProfile | Drafter) else os.fspath(given)


COMMAND: Final = Command(
    question=mock,
    about="The server runs with random weights and a forced acceptance length. Compare its results "
    "with\npredictions by `specroof validate`, and fit a profile to them by `specroof calibrate`.",
    options=FORMATS,
    csv=False,
    to_paste=True,
    example="specroof mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3",
)
