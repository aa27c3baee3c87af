"""The register of parameters: what each is called, means, takes and defaults to, told once.

A parameter is an `Annotated` type that holds a `Parameter`: one sentence, and how the shell spells
it. Those that several questions have are here, and one that a single question has stands in its
request. A request lists them as the fields of a dataclass, which type checkers see too, one by one
or as a group; the default is the field's own. Where a question means something else by a name, its
field says what differs: ``Annotated[int, like(DraftLen, shown="the best")]``.

Signatures and docstrings in Python, flags, help and completion of the shell, schemas of studies and
of MCP derive from the fields. Nothing here knows Typer, pydantic or JSON Schema.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Final, TypeAlias, cast, get_args

from specroof.acceptance import RULES
from specroof.catalog import ACCEPTANCE_KEYS, hardware_names, model_names
from specroof.cost import CHOICES, Options
from specroof.drafters.kinds import KINDS
from specroof.errors import expect_word, refuse, reject
from specroof.frameworks import SERVERS
from specroof.hardware.engine import SERVER_KEYS
from specroof.parsers import PARSERS
from specroof.questions.objects import (
    DrafterLike,
    HardwareLike,
    ModelLike,
    OptionsLike,
    ServerLike,
    Values,
    framework_names,
)
from specroof.reading.words import Prices, in_seconds, numbers, prices, rates, words
from specroof.serving.workload import Workload

# --- What is told of a parameter -----------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """What people read of one parameter of a question, and how the shell spells it.

    Parameters
    ----------
    about
        A sentence, for Python's help and the shell's.
    in_python
        What Python's help says besides, such as the objects that it takes.
    flag
        The flag and its other spellings; ``--name-of-the-parameter`` if empty. A word without
        hyphens is the title of an argument.
    metavar, shown
        What help shows for the value and for the default, where Typer's own words will not do.
    former
        A flag of old, which goes on working with a note.
    names
        What a shell completes.
    read
        From the flag and its value to the parameter, where that is not handed on as it is.
    kind, default
        The type and the default in the shell, where those of the field will not do.
    panel
        The title in the shell's help, which its group has; None for those of the command itself.
    in_shell
        False for a parameter of Python alone.
    about_flag
        The sentence in the shell's help, where the flag says another thing than the parameter.
    """

    about: str
    flag: str = ""
    _: KW_ONLY
    in_python: str = ""
    metavar: str | None = None
    shown: str | bool | None = None
    former: str = ""
    names: Callable[[], Iterable[str]] | None = None
    read: Callable[[str, Any], Any] | None = None
    kind: Any = None
    default: Any = inspect.Parameter.empty
    panel: str | None = None
    in_shell: bool = True
    about_flag: str = ""

    def word(self, name: str) -> str:
        """Return the flag in the shell of a parameter; an argument has none but its name."""
        first = self.flag.partition(" ")[0]
        return first if first[:2] == "--" else name if first else f"--{name.replace('_', '-')}"


def like(shared: Any, /, **changes: Any) -> Parameter:
    """Return what is told of a parameter of the register, with what is different in a question.

    Examples
    --------
    >>> like(DraftLen, shown="the best").about
    'Drafts per round.'
    """
    row: Parameter = get_args(shared)[1]
    return replace(row, **changes)


def parameters_of(question: Callable[..., object]) -> dict[str, Parameter]:
    """Return what is told of each parameter of a question or a request, in their order.

    The panel is that of the group: of the class that lists the parameter. A default that says
    nothing itself, such as None, is shown as the register says.
    """
    told: dict[str, Parameter] | None = getattr(question, "parameters", None)
    if told is not None:
        return told
    groups = reversed(inspect.getmro(cast("type", question)))
    panels = {
        name: vars(group).get("panel")
        for group in groups
        for name in inspect.get_annotations(group)
    }
    found: dict[str, Parameter] = {}
    for name, field in inspect.signature(question).parameters.items():
        for row in get_args(field.annotation)[1:]:
            shown = row.shown
            if field.default not in (inspect.Parameter.empty, None, ()):
                # Only of one that the shell does not hand on: Typer shows the others itself.
                shown = str(field.default) if row.default is None else None
            found[name] = replace(row, panel=panels[name], shown=shown)
    return found


# --- What is served, and where -------------------------------------------------------------------

PLACEMENT: Final = "Placement and server"

Model = Annotated[
    ModelLike,
    Parameter(
        "A config.json, a bundled model or a Hub name (ORG/NAME).",
        "MODEL",
        in_python="Or an `Architecture`.",
        names=model_names,
    ),
]
Hardware = Annotated[
    HardwareLike,
    Parameter(
        "A YAML file, or a name or alias that `specroof hardware` lists.",
        "--hardware -H",
        in_python="Or a `HardwareProfile`.",
        names=hardware_names,
    ),
]


#: Chips to compare, of which each is asked about.
Chips = Annotated[
    HardwareLike | Sequence[HardwareLike],
    Parameter(
        "YAML files, or names or aliases that `specroof hardware` lists.",
        "--hardware -H",
        in_python="Or `HardwareProfile` objects; in Python a list.",
        metavar="NAME[,NAME…]",
        names=hardware_names,
        read=words,
    ),
]
TensorParallel = Annotated[
    int, Parameter("Devices (tensor parallelism).", "--tp --tensor-parallel-size")
]
Family = Annotated[
    str | None,
    Parameter(
        "Read the config as this model_type: for an unknown type that is built like a known one.",
        metavar="NAME",
        names=lambda: PARSERS,
    ),
]
ExpertParallel = Annotated[
    int, Parameter("Expert parallelism: devices that share the experts.", "--ep")
]
AttentionDataParallel = Annotated[
    int,
    Parameter(
        "Data-parallel attention: groups of devices with separate sequences.", "--dp-attention"
    ),
]
PipelineParallel = Annotated[
    int,
    Parameter(
        "Pipeline parallelism: stages of layers, each on tensor_parallel devices.",
        "--pp",
        about_flag="Pipeline parallelism: stages of layers, each on --tp devices.",
    ),
]
Engine = Annotated[
    str | None,
    Parameter(
        "Engine profile: one of the chip's, as vllm or sglang; `generic`, for any chip; or "
        "`ideal`, a plain roofline. A framework that was not fitted on the chip is generic "
        "with that server's rules.",
        metavar="NAME",
        shown="the profile's default",
    ),
]
Framework = Annotated[
    str | None,
    Parameter(
        f"Server software, of {', '.join(SERVERS)}: the chip's engine profile of it predicts, "
        "else the generic one with its rules. vllm@0.24 has the rules and flags of that release; "
        "a name alone those of the newest.",
        metavar="NAME[@VERSION]",
        names=framework_names,
        shown="that of the engine",
    ),
]
Server = Annotated[
    ServerLike | None,
    Parameter(
        f"Settings of the server: {', '.join(SERVER_KEYS)}. overlap=plain: plain steps overlap "
        "with the host's work, rounds do not.",
        in_python="Text, a mapping, or `ServerSettings`.",
        metavar="KEY=VALUE,…",
        shown="the framework's defaults",
    ),
]
EngineName = Annotated[
    str, Parameter("Name of the engine in the written file.", metavar="NAME", default=None)
]
OptionsGiven = Annotated[
    OptionsLike | None, Parameter("`Options`, or a mapping of their names.", in_shell=False)
]


@dataclass(frozen=True)
class ServedParameters:
    """What is served, on which chip."""

    model: Model
    hardware: Hardware


@dataclass(frozen=True, kw_only=True)
class DeploymentParameters(ServedParameters):
    """How the chips are used."""

    panel: ClassVar = PLACEMENT

    tensor_parallel: TensorParallel = 1
    family: Family = None
    expert_parallel: ExpertParallel = 1
    attention_data_parallel: AttentionDataParallel = 1
    decode_context_parallel: Annotated[
        int,
        Parameter(
            "Decode context parallelism: devices that each cache a part of the context.", "--dcp"
        ),
    ] = 1
    pipeline_parallel: PipelineParallel = 1
    nodes: Annotated[
        int | None,
        Parameter(
            "Nodes that the devices are spread over.",
            shown="as few as the chip's links allow",
        ),
    ] = None
    power_cap: Annotated[
        float | None,
        Parameter("Watts that each device is capped to.", metavar="WATTS", shown="none"),
    ] = None
    engine: Engine = None
    framework: Framework = None
    server: Server = None
    engine_from: Annotated[
        str | None,
        Parameter(
            "Engine that was fitted on another chip, as in h100-sxm:vllm.", metavar="CHIP:ENGINE"
        ),
    ] = None
    options: OptionsGiven = None


@dataclass(frozen=True, kw_only=True)
class WorkerParameters:
    """Workers that compute prompts for others that decode; one server does both where none are."""

    panel: ClassVar = PLACEMENT

    prefill: Annotated[
        str | None,
        Parameter(
            "Workers for prefill alone, and the devices of each, as in 2x4 or 2x4@h100.",
            in_python="With `decode`.",
            metavar="NxDEVICES[@CHIP]",
        ),
    ] = None
    decode: Annotated[
        str | None,
        Parameter(
            "Workers for decoding alone, and the devices of each, all stages of a pipeline together, "
            "as in 1x8.",
            in_python="With `prefill`.",
            metavar="NxDEVICES",
        ),
    ] = None
    link: Annotated[
        float | None,
        Parameter(
            "Bytes/s from each device of a prefill worker to decode workers.",
            metavar="BYTES/S",
            shown="the link between nodes of the hardware files",
        ),
    ] = None


# --- Drafters ------------------------------------------------------------------------------------

#: A drafter, of which a question says what it must know of its acceptance.
OneDrafter = Annotated[
    DrafterLike,
    Parameter(
        "KIND[,key=value…].",
        "--drafter",
        in_python="Or a `Drafter`.",
        metavar="SPEC",
        names=lambda: KINDS,
    ),
]
#: The drafter of a question about one.
AnyDrafter = Annotated[
    DrafterLike | None,
    like(
        OneDrafter,
        about="KIND[,key=value…], as in predict.",
        shown="the kind published with the model, its MTP layer, or eagle3",
    ),
]
#: Drafters that are compared, with their acceptance.
Drafters = Annotated[
    DrafterLike | Sequence[DrafterLike] | None,
    like(
        OneDrafter,
        about=f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}. Acceptance: "
        f"{', '.join(f'{key}=' for key in ACCEPTANCE_KEYS)}.",
        in_python="Or `Drafter` objects.",
        kind=list[str],
        shown="those whose acceptance is published with the model, or else with other models",
    ),
]
ChainDrafter = Annotated[
    DrafterLike, like(OneDrafter, about="KIND[,key=value…], as in predict: a chain or a block.")
]
DraftLen = Annotated[int | None, Parameter("Drafts per round.", shown="the best")]
MeasuredDraftLen = Annotated[
    int | None,
    Parameter(
        "Drafts that acceptance lengths are measured with.",
        "--measured-draft-len",
        shown="as in the drafter's accept-length, else all that it makes, up to 16",
    ),
]
MaxDraftLen = Annotated[
    int | None, Parameter("Longest draft tried.", shown="the drafter's depth, up to 16")
]
DraftModel = Annotated[
    str | None,
    Parameter(
        "Hub name or folder of the drafter's weights, for the flags.",
        metavar="NAME",
        shown="a placeholder",
    ),
]
#: The default share that confidence knows: it gives the gains that Finn 2026 simulates with the
#: confidences of an MTP layer (`tests/test_golden_adaptive.py`).
USUAL_CONFIDENCE: Final = 0.55


@dataclass(frozen=True, kw_only=True)
class SamplingParameters:
    """How the target samples, where acceptance was measured otherwise."""

    panel: ClassVar = "Sampling"

    temperature: Annotated[
        float | None,
        Parameter(
            "Temperature of sampling. Acceptance that states another (a profile, or temperature= in "
            "a SPEC) is moved to it, with a band.",
            shown="as measured",
        ),
    ] = None
    rule: Annotated[
        str | None,
        Parameter(
            f"How drafts are accepted: {', '.join(RULES)}.",
            metavar="WORD",
            names=lambda: RULES,
            shown="as measured, else greedy",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PolicyParameters:
    """How draft lengths are simulated that follow the drafter's confidence."""

    panel: ClassVar = "Policies that follow the drafter's confidence"

    confidence: Annotated[
        float,
        Parameter(
            "Share of the variance of acceptance that the drafter's confidence explains, 0 to 1."
        ),
    ] = USUAL_CONFIDENCE
    n_rounds: Annotated[int, Parameter("Simulated rounds of single sequences.", "--rounds")] = (
        20_000
    )


# --- Loads: sequences of one context, or requests ------------------------------------------------

REQUESTS: Final = "Requests"


BatchSize = Annotated[
    Values | None,
    Parameter(
        "Sequences or requests in flight, a number or a list.",
        "--batch",
        about_flag="Sequences in flight, comma-separated; 1..128 doubles.",
        shown="1",
        read=numbers,
    ),
]
#: Requests in flight, where a batch size is another load.
Concurrency = Annotated[
    Values | None,
    Parameter(
        "Requests in flight, a number or a list; those beyond the server's memory wait. In place "
        "of a batch size.",
        about_flag="Requests in flight, comma-separated. Replaces --batch.",
        read=numbers,
    ),
]
ContextLens = Annotated[
    Values | None,
    Parameter(
        "Cached tokens of each sequence, a number or a list.",
        "--context",
        about_flag="Cached tokens of each sequence, comma-separated.",
        shown="4096",
        read=numbers,
    ),
]
ContextLen = Annotated[
    float | None, Parameter("Cached tokens of each sequence.", "--context", shown="4096")
]
#: What memory does.
Capacity = Annotated[
    bool | None,
    Parameter(
        "Whether memory limits what runs: batches that have no room have no figures; requests "
        "wait, where the question is about them. False prices all as if memory had no end, as "
        "the ideal engine does.",
        "--no-capacity",
        about_flag="Ignore memory limits. The ideal engine always does.",
        default=False,
        read=lambda _, given: False if given else None,
    ),
]
InputLen = Annotated[
    float | None,
    Parameter(
        "Tokens of a prompt. Replaces the context, and counts prefills.",
        "--input-len --isl",
        about_flag="Tokens of a prompt. Replaces --context, and counts prefills.",
    ),
]
OutputLen = Annotated[
    float | None,
    Parameter(
        "Tokens of an answer, with the length of a prompt.",
        "--output-len --osl",
        about_flag="Tokens of an answer, with --input-len.",
    ),
]
PrefixHitRate = Annotated[
    float | None,
    Parameter(
        "Share of a prompt's tokens that the server has cached, 0 to 1.",
        about_flag="Share of a prompt's tokens that the server has cached, 0 to 1. With "
        "--input-len.",
        metavar="SHARE",
        shown="0",
    ),
]
RequestCount = Annotated[
    int | str | None,
    Parameter(
        "Requests to simulate one by one: a number, or 10x for ten of each client.",
        metavar="N|Nx",
        shown="10x; 1000 of --rate",
    ),
]
LengthRange = Annotated[
    str | Sequence[float] | None,
    Parameter(
        "Shares of both lengths between which those of each request are drawn, as 0.8..1.0.",
        in_python="Or two numbers.",
        metavar="LOW..HIGH",
    ),
]
Seed = Annotated[int, Parameter("Seed of all that is drawn: lengths, arrivals, dice.")]
#: Requests that are known one by one: a file, or columns as `specroof.serving.workload.trace` has
#: them.
TraceLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LengthParameters:
    """The lengths of requests."""

    panel: ClassVar = REQUESTS

    input_len: InputLen = None
    output_len: OutputLen = None
    prefix_hit_rate: PrefixHitRate = None

    @property
    def workload(self) -> Workload | None:
        """The requests; None where a context is asked about.

        Raises
        ------
        OptionError
            For half of a request, or a part of it without its lengths.
        """
        prompt, answer, cached = self.input_len, self.output_len, self.prefix_hit_rate
        if prompt is None and answer is None:
            if cached is not None:
                refuse("prefix_hit_rate", cached, "with the lengths of a request")
            return None
        if prompt is None or answer is None:
            missing = "input_len" if prompt is None else "output_len"
            reject(
                f"{missing} is missing",
                "both lengths of a request (tokens in and out), or neither",
            )
        return Workload(prompt, answer, 0.0 if cached is None else cached)


@dataclass(frozen=True, kw_only=True)
class PlayedParameters(LengthParameters):
    """How requests come that are played through one by one."""

    panel: ClassVar = REQUESTS

    rate: Annotated[
        Values | None,
        Parameter(
            "Requests that arrive in a second, a number or a list, whatever the server does.",
            about_flag="Requests that arrive in a second, as 4/s, 90/min or 1..64/s, whatever the "
            "server does. With --input-len.",
            metavar="N/s",
            read=rates,
        ),
    ] = None
    arrivals: Annotated[
        str,
        Parameter(
            "Gaps between arrivals at a rate: `poisson`, or `even`.",
            metavar="poisson|even",
            names=lambda: ("poisson", "even"),
        ),
    ] = "poisson"
    requests: RequestCount = None
    length_range: LengthRange = None
    trace: Annotated[
        TraceLike | None,
        Parameter(
            "Requests with their times: a CSV of arrival_s, input_len, output_len (cached_len), "
            "Mooncake's JSON Lines, Azure's CSV, or a result of the clients of vLLM and SGLang.",
            in_python="Or a mapping of these columns.",
            metavar="FILE",
        ),
    ] = None
    lengths: Annotated[
        TraceLike | None,
        Parameter(
            "Requests that all come at once: a file with the tokens of an answer on each line, or "
            "a CSV of input_len, output_len.",
            in_python="Or a mapping of these columns.",
            metavar="FILE",
        ),
    ] = None
    seed: Seed = 0
    steady: Annotated[
        bool,
        Parameter(
            "Requests in flight in their steady state, in closed form: no request is simulated."
        ),
    ] = False

    @property
    def is_played(self) -> bool:
        """Whether requests are played through one by one.

        Raises
        ------
        OptionError
            For what says how requests come, in a steady state, and for gaps between arrivals
            that come at no rate.
        """
        names = ("rate", "requests", "length_range", "trace", "lengths")
        given = [name for name in names if getattr(self, name) is not None]
        expect_word("arrivals", self.arrivals, ("poisson", "even"))
        if self.rate is None and self.arrivals == "even":
            refuse("arrivals", self.arrivals, "with rate")
        if given and self.steady:
            refuse(given[0], getattr(self, given[0]), "none in a steady state")
        return bool(given) or (not self.steady and self.has_clients)

    @property
    def has_clients(self) -> bool:
        """Whether lengths alone are requests of clients, and not of a steady state."""
        return False


# --- Targets and prices --------------------------------------------------------------------------

#: What users may wait for a token after the first.
TpotS = Annotated[
    float | None,
    Parameter(
        "Seconds per output token that users may wait.",
        "--tpot",
        about_flag="Target: milliseconds per token.",
        metavar="MS",
        read=in_seconds,
    ),
]
#: What users may wait for the first token.
TtftS = Annotated[
    float | None,
    Parameter(
        "Seconds to the first token of a request that a user may wait.",
        "--ttft",
        about_flag="Target: milliseconds to the first token of a request.",
        metavar="MS",
        read=in_seconds,
    ),
]
#: The price of one device.
PricePerHour = Annotated[
    Prices | None,
    Parameter(
        "Price of one device for an hour, in US dollars; of several chips by their names.",
        in_python='As in `{"h100": 2.0, "mi300x": 1.6}`.',
        about_flag="Price of one device for an hour, in US dollars, or of each chip: h100=2,b200=4.",
        metavar="USD",
        shown="the hardware file's",
        read=prices,
    ),
]

# --- Fields of `specroof.Options`, which the shell takes as flags --------------------------------

#: Characters of choices that stand beside a flag; more of them stand in its help.
_SHORT_CHOICE: Final = 13


def _choice(name: str, about: str, flag: str = "", *, shown: str | None = None) -> Parameter:
    """Return a parameter that takes one of the `CHOICES` of `Options`."""
    choices = "|".join(CHOICES[name])
    if len(choices) > _SHORT_CHOICE:
        about += f" One of {', '.join(CHOICES[name])}."
        choices = "WORD"
    return Parameter(about, flag, metavar=choices, names=lambda: CHOICES[name], shown=shown)


#: Fields of `specroof.Options`, which the shell takes as flags.
OPTIONS: Final = {
    "kv_dtype": _choice("kv_dtype", "Format of cached keys and values.", "--kv-cache"),
    "weight_dtype": Parameter(
        "Format of the weights (bf16, fp8, nvfp4, int4 and others), or of a file of llama.cpp or MLX "
        "(q4_k_m, q8_0, mxfp4_moe, mlx-4bit and others). An unknown word lists all.",
        "--weights",
        metavar="WORD",
        names=lambda: CHOICES["weight_dtype"],
    ),
    "granularity": _choice("granularity", "Take max(compute, memory) over each of these."),
    "experts": _choice(
        "experts",
        "How to count distinct experts.",
        shown="exact, with the locality that the engine profile measured",
    ),
    "count": _choice("count", "Operations to count."),
    "recurrent_state": _choice(
        "recurrent_state",
        "How a verification keeps the state of linear attention recoverable.",
        shown="as the engine does, else snapshot",
    ),
    "state_dtype": _choice("state_dtype", "Format of recurrent state."),
    "v4_attention": _choice("v4_attention", "How DeepSeek-V4's attention counts."),
    "verify_attention": _choice(
        "verify_attention",
        "How a verification reads the cache of the target.",
        shown="as the server's kernel does by default",
    ),
    "strict_dtype": Parameter("Refuse a chip that lacks a dtype of the model."),
    "n_cpu_moe": Parameter(
        "First layers whose experts the CPU computes from its memory (llama.cpp), with -H CHIP+CPU.",
        shown="none",
    ),
    "cost_of": _choice("cost_of", "What the cost of a drafter is a share of."),
}


#: Their types and defaults.
OPTION_FIELDS: Final = inspect.signature(Options).parameters


#: Formats that replace the checkpoint's.
FORMATS: Final = ("kv_dtype", "weight_dtype")
#: The same, and which formulas.
FORMULAS: Final = tuple(name for name in OPTIONS if name != "cost_of")
