"""How every question is asked: a request of parameters, a function of it, and a row for the shell.

The parameters of a request are its fields (`specroof.questions.parameters`). The docstring of the
question in Python, the flag and the help of the shell, completion and the schema of studies all
derive from them. Nothing here knows Typer: `specroof.cli` turns the row `Command` of a question
into a command.
"""

import inspect
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar, get_args, get_origin

import numpy as np

from specroof.architecture.model import Architecture
from specroof.arrays import fields_of, whole_within
from specroof.cost import state_bytes
from specroof.drafters import SERVED_KINDS, Drafter
from specroof.errors import OptionError, Urgent, not_modelled, refuse, reject
from specroof.frameworks import (
    BOUND_TO,
    KERNELS_FROM,
    LEAST_CAPABILITY,
    NO_PLATFORM,
    RUNS,
    SERVERS,
    release,
    release_of,
)
from specroof.hardware.engine import IDEAL_ENGINE
from specroof.hardware.profile import GENERIC, HardwareProfile, Placement
from specroof.latency.setup import Deployment, Setup, check_placement, engine_setup
from specroof.parsers.model_config import MTP_NOTE
from specroof.questions import parameters as p
from specroof.questions.objects import (
    DrafterLike,
    accepts,
    as_list,
    borrowed_engine,
    changed_options,
    chips_of,
    drafter_of,
    engine_name,
    framework_of,
    hardware_of,
    model_of,
    options_of,
    published_drafters,
    resampled_drafter,
    server_of,
    unique_list,
    usual_kinds,
)
from specroof.reading.words import in_seconds
from specroof.serving.capacity import expect_spreads, in_server, served_room

if TYPE_CHECKING:
    from specroof.serving.launch import Speculation
    from specroof.serving.split import Split

# --- A question as a command ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Output:
    """How ``--output`` writes an answer: a file, or a folder of files.

    Parameters
    ----------
    about, metavar
        What help says of the flag.
    content
        The text of the file.
    required
        Whether the flag must be given.
    is_edited
        Whether people edit the file, so that none is written over.
    parameters
        Parameters of the question that change the file alone.
    suffixes
        Endings of names of files; any other place is a folder. Without them every place is a file.
    folder
        The names and contents of the files of a folder. It calls its second argument after each
        step.
    steps, step
        How many steps those are and their name, for a progress bar.
    """

    about: str
    metavar: str
    content: Callable[[Any], str]
    required: bool = False
    is_edited: bool = False
    parameters: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    folder: Callable[[Any, Callable[[], None]], Iterable[tuple[str, bytes]]] | None = None
    steps: Callable[[Any], int] = lambda _: 1
    step: str = ""


@dataclass(frozen=True, kw_only=True)
class Command:
    """How the shell asks a question: a row of data that `specroof.cli` turns into a command.

    Parameters
    ----------
    question
        Its parameters are the flags; its docstring is the help.
    text
        The answer as people read it; by default what ``print`` shows.
    example
        A call, which help ends with.
    about
        What help says below the first sentence of the docstring.
    options
        Fields of `specroof.Options` that are flags of the command.
    csv
        Whether ``--csv`` writes the answer's rows.
    points
        Whether ``--points`` writes every draft length of every load.
    grid
        Whether ``--grid`` prints them, as the answer's ``grid``.
    chart
        The help of ``--plot``, which draws the answer; without it there is no ``--plot``.
    to_paste
        Whether the lines of the text stay whole, since they hold commands.
    commands
        Commands below this one by their names, such as ``show`` of ``models show``. The command
        itself runs where none of them is called.
    output
        What ``--output`` writes; without it there is no ``--output``.
    prints
        Whether the answer is printed, as text or as JSON; else it is only written.
    """

    question: Callable[..., Any]
    text: Callable[[Any], str] = str
    example: str = ""
    about: str = ""
    options: tuple[str, ...] = ()
    csv: bool = True
    points: bool = False
    grid: bool = False
    chart: str = ""
    to_paste: bool = False
    commands: Mapping[str, "Command"] = field(default_factory=dict)
    output: Output | None = None
    prints: bool = True


# --- A question as a function --------------------------------------------------------------------

_P = ParamSpec("_P")
_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


def question(
    request: Callable[_P, _Request],
    /,
    command: str = "",
    on_chips: Callable[..., Any] | None = None,
) -> Callable[[Callable[[_Request], _Answer]], Callable[_P, _Answer]]:
    """Turn a function of a request into a function of the request's fields.

    A request documents its own fields; the function's help shows them all.

    Parameters
    ----------
    request
        Makes a request of its fields.
    command
        What JSON calls the question, and the schema of its answers: ``models-show`` of the command
        ``models show``. Empty where that is the name of the function.
    on_chips
        Makes one answer of `answers` on several chips, where the question is asked of each chip.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class SumRequest:
    ...     first: int
    ...     second: int = 2
    >>> @question(SumRequest)
    ... def added(request: SumRequest) -> int:
    ...     return request.first + request.second
    >>> added(1), added(first=1, second=1), str(inspect.signature(added))
    (3, 2, '(first: int, second: int = 2) -> int')

    The spellings of the shell are keywords, too: see `by_field`.
    """

    def asked(answer: Callable[[_Request], _Answer]) -> Callable[_P, _Answer]:
        @wraps(answer)
        def ask(*args: _P.args, **kwargs: _P.kwargs) -> _Answer:
            if not kwargs.keys() <= signature.parameters.keys():
                kwargs = by_field(kwargs, rows)  # type: ignore[assignment]  # a dict of them
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as mistake:  # of the caller: named after the question, not the request
                known = [*signature.parameters]
                allowed = ", ".join(known)
                unknown = [word for word in kwargs if word not in signature.parameters]
                left_out = [said for word in unknown if (said := not_modelled(word))]
                why = f" ({'; '.join(left_out)})" if left_out else ""
                near = [one for word in unknown for one in get_close_matches(word, known, n=1)]
                meant = f"; did you mean {' or '.join(near)}?" if near else ""
                message = f"{answer.__name__}(): {mistake}{why}{meant}; allowed: {allowed}"
                raise TypeError(message) from None
            chips = given.get("hardware")
            _refuse_stray_prices(given)
            if on_chips is None or not isinstance(chips, list | tuple):
                return answered(given)
            chips_of(chips)  # refuses one that is unknown or given twice
            answers = [answered({**given, "hardware": chips[0]})]
            if len(chips) == 1:
                return answers[0]
            first: Any = answers[0]
            first.refuse_many(len(chips), "")
            answers += [answered({**given, "hardware": chip}) for chip in chips[1:]]
            asked = {**first.asked, "hardware": _plain(chips)}
            return on_chips(answers=tuple(answers), question=first.question, asked=asked)  # type: ignore[no-any-return]  # as its answers

        def answered(given: Mapping[str, Any]) -> _Answer:
            asked = request(**given)  # type: ignore[call-arg]  # bound by its signature
            found: Any = answer(asked)
            # A curve or a list of operations is no answer that says what was asked.
            if hasattr(found, "asked"):
                found = replace(found, question=command or answer.__name__, asked=told(asked))
            return found  # type: ignore[no-any-return]  # of the same kind

        rows, fields_signature = p.parameters_of(request), inspect.signature(request)
        taken = dict(fields_signature.parameters)
        if on_chips is not None:
            rows = rows | {"hardware": p.like(p.Chips)}
            taken["hardware"] = taken["hardware"].replace(annotation=p.Chips)
        signature = fields_signature.replace(
            parameters=[
                field.replace(
                    annotation=get_args(field.annotation)[0]  # without what is told of it
                    if get_origin(field.annotation) is Annotated
                    else field.annotation
                )
                for field in taken.values()
            ],
            return_annotation=inspect.signature(answer).return_annotation,
        )
        ask.__signature__ = signature  # type: ignore[attr-defined]  # functions take it
        ask.__doc__ = f"{inspect.getdoc(answer)}\n\n{_about(request, rows)}"
        ask.parameters = rows  # type: ignore[attr-defined]  # as above
        return ask

    return asked


def _refuse_stray_prices(given: Mapping[str, Any]) -> None:
    """Refuse prices by chip that name other chips than are asked about."""
    prices = given.get("price_per_hour")
    if not isinstance(prices, Mapping):
        return
    workers = {name: given[name] for name in ("prefill", "decode") if given.get(name)}
    chips = [*as_list(given["hardware"]), *(workers_of(*one)[2] for one in workers.items())]
    names = {hardware_of(chip).name for chip in chips if chip is not None}
    if not names.issuperset(hardware_of(chip).name for chip in prices):
        told = ",".join(f"{name}={price}" for name, price in prices.items())
        refuse("price_per_hour", told, f"prices of {' and '.join(sorted(names))}")


def told(request: Any) -> dict[str, Any]:
    """Return what was asked as JSON has it: what differs from the defaults, objects by name.

    Secrets, which no representation shows, are left out.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class SumRequest:
    ...     first: int
    ...     second: int = 2
    >>> told(SumRequest(1))
    {'first': 1}
    """
    given = {one.name: getattr(request, one.name) for one in fields(request) if one.repr}
    usual = {one.name: one.default for one in fields(request)}
    differs = {name: value for name, value in given.items() if value is not usual[name]}
    if isinstance(differs.get("options"), Mapping):  # the shell hands all of them on
        options = differs.pop("options")
        known = {name: one.default for name, one in p.OPTION_FIELDS.items()}
        differs |= {name: one for name, one in options.items() if one != known.get(name)}
    return {name: _plain(value) for name, value in differs.items()}


#: Values of one parameter that an answer repeats, and lists in lists.
_MOST_TOLD: Final = 1000
_MOST_NESTED: Final = 3


def _plain(value: Any, nested: int = 0) -> Any:
    """Return a value as JSON has it: the same of one thing and of a list of it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return int(value) if float(value).is_integer() else float(value)
    if not isinstance(value, Mapping | list | tuple | range | np.ndarray):
        # The name of a path is its last part alone.
        return str(value if isinstance(value, os.PathLike) else getattr(value, "name", value))
    count = value.size if isinstance(value, np.ndarray) else len(value)
    if count > _MOST_TOLD or nested == _MOST_NESTED:
        return "many values"
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(one, nested + 1) for name, one in value.items()}
    several = [_plain(one, nested + 1) for one in value]
    return several[0] if len(several) == 1 else several


def by_field(given: Mapping[str, Any], rows: Mapping[str, p.Parameter]) -> dict[str, Any]:
    """Return keywords by the names of fields; unknown ones stay as they are.

    Known are the flags of the shell, with the units that they have there, and what `Options` holds
    by its names and its flags: ``tp=2``, ``tpot=20`` (milliseconds), ``kv_dtype="fp8"``.

    Parameters
    ----------
    given, rows
        What was given, and the parameters of the question.

    Raises
    ------
    OptionError
        For two words of the same field.

    Examples
    --------
    >>> from specroof import predict
    >>> by_field({"tpot": 20, "tp": 2}, p.parameters_of(predict))
    {'tpot_s': 0.02, 'tensor_parallel': 2}
    """

    def spelt(table: Mapping[str, p.Parameter]) -> dict[str, str]:
        flags = {
            flag[2:].replace("-", "_"): name
            for name, row in table.items()
            for flag in [*row.flag.split(), row.former]
            if flag.startswith("--")
        }
        return flags | {name: name for name in table}

    fields_by_word = spelt(rows)
    options_by_word = spelt(p.OPTIONS) if "options" in rows else {}
    found, options, words = dict[str, Any](), dict[str, Any](), dict[str, str]()
    for word, value in given.items():
        is_option = word not in fields_by_word and word in options_by_word
        kept = options if is_option else found
        name = options_by_word[word] if is_option else fields_by_word.get(word, word)
        if name in kept:
            refuse(word, value, f"left out, since {words[name]} is given")
        words[name] = word
        read = rows[name].read if word != name and not is_option and name in rows else None
        is_text = isinstance(value, str)
        kept[name] = read(word, value) if read and (is_text or read is in_seconds) else value
    if options:
        stated = changed_options(options_of(found.get("options")))
        if isinstance(found.get("options"), Mapping):  # what it has of the defaults is stated, too
            stated = found["options"]
        for name, value in options.items():
            if name in stated:
                refuse(words[name], value, "left out, since options has it")
        found["options"] = {**stated, **options}
    return found


def _about(request: Callable[..., object], rows: Mapping[str, p.Parameter]) -> str:
    """Return the parameters of a request, and its docstring below its first line."""
    entries = list[str]()
    for name, row in rows.items():
        default = f"Default: {row.shown}." if isinstance(row.shown, str) else ""
        sentences = " ".join(filter(None, [row.about, row.in_python, default]))
        lines = textwrap.wrap(sentences, 95, break_on_hyphens=False)
        entries.append("\n".join([name, *(f"    {line}" for line in lines)]))
    rest = inspect.cleandoc(request.__doc__ or "").partition("\n\n")[2]
    return "\n".join(["Parameters", "----------", *entries, "", rest]) if entries else ""


# --- What is served, and where -------------------------------------------------------------------

#: The parameters that say how devices share a model.
PLACED: Final = tuple(field.name for field in fields(Placement))


def missing_code_notes(setup: Setup) -> Iterator[str]:
    """Yield that a server has no code for a chip, and which engines the chip has instead."""
    chip, server = setup.hardware, setup.engine.rules
    if setup.engine.name in chip.engines:
        return
    local = chip.generic.local_engines if chip.generic is not None else {}
    others = " or ".join(one for one in SERVERS if one in local)
    name, _, _ = setup.release.name.rpartition(" ")
    instead = f"; --framework {others} has an engine for it, and may answer otherwise" * bool(
        others
    )
    if chip.vendor in NO_PLATFORM.get(server, ()):
        yield Urgent(
            f"{name} has no code for {chip.name} in the releases that were read: it runs there by a "
            f"plugin at most{instead}"
        )
    capability, least = chip.compute_capability, KERNELS_FROM.get(server, 0.0)
    if capability is not None and capability < least:
        yield Urgent(
            f"published builds of {name} that were read have kernels from compute capability {least:g} "
            f"on, and {chip.name} has {capability:g}: it needs a build of your own at least{instead}"
        )


def expect_runs_on(name: str, server: str | None, hardware: HardwareProfile) -> None:
    """Refuse a server that runs on chips of another vendor alone, or on newer ones.

    Raises
    ------
    OptionError
        If it does; `name` is how the caller asks for it.
    """
    vendor = BOUND_TO.get(server or "", hardware.vendor)
    is_known = hardware.vendor is not None or hardware.architecture is not None
    if vendor != hardware.vendor and is_known:
        refuse(name, server, f"on {hardware.name} any other: it runs on {vendor} alone")
    least, capability = LEAST_CAPABILITY.get(server or "", 0.0), hardware.compute_capability
    if capability is not None and capability < least:
        newer = f"it runs from compute capability {least:g} on, and this has {capability:g}"
        refuse(name, server, f"on {hardware.name} any other: {newer}")


@dataclass(frozen=True)
class DeploymentRequest(p.SamplingParameters, p.DeploymentParameters):
    """What is served, and where."""

    @cached_property
    def architecture(self) -> Architecture:
        """The model that is asked about, read once."""
        model = model_of(self.model, self.family)
        has_state = state_bytes(model) > 0
        parts = {
            "experts": ("experts", model.has_experts),
            "state_dtype": ("recurrent state", has_state),
            "recurrent_state": ("recurrent state", has_state),
        }
        idle = []  # options for what the model lacks
        for name in changed_options(options_of(self.options)):
            part, has_part = parts.get(name, ("", True))
            if not has_part:
                flag = name.replace("_", "-")
                told = f"{model.name} has no {part}: --{flag} changes nothing in its passes"
                idle.append(Urgent(told))
        return replace(model, notes=(*model.notes, *idle)) if idle else model

    def resolved(self) -> Deployment:
        """Return the model and the setup in which it runs, each built once.

        Raises
        ------
        SpecroofError
            For a name that is unknown or a value that is not allowed.
        """
        placement = Placement(**fields_of(self, *PLACED))
        options, model = options_of(self.options), self.architecture
        setup = engine_setup(*self.engine_on(hardware_of(self.hardware)), placement, options)
        framework, version = framework_of(self.framework)
        setup = in_server(model, setup, server_of(self.server), version)
        # Software that runs another's files has flags of its own.
        if framework in RUNS and (facts := release_of(str(framework))) is not None:
            expect_spreads(facts, setup.placement)
        notes = tuple(missing_code_notes(setup))
        return Deployment(replace(model, notes=model.notes + notes) if notes else model, setup)

    def sampled(self, drafter: DrafterLike) -> Drafter:
        """Return a drafter, its acceptance moved to how it is sampled, and accepted by the server.

        Raises
        ------
        OptionError
            As `resampled_drafter` does, and for a rule that the framework has not.
        """
        name = self._server
        sampled = resampled_drafter(drafter_of(drafter), self.temperature, self.rule, name)
        if not accepts(name, self.rule):
            refuse("rule", self.rule, f"{', '.join(release(name).accepts)}, with {name}")
        return sampled

    def sampled_drafters(
        self, given: DrafterLike | Sequence[DrafterLike], weights: str | None = None
    ) -> list[Drafter]:
        """Return drafters by their SPECs, each name once, with their acceptance as asked for.

        Parameters
        ----------
        given
            The drafters.
        weights
            What they draft with where a checkpoint has no layers for it; what the question names
            (``draft_model``) if None.

        Raises
        ------
        OptionError
            As `sampled` and `unique_list` do, and where the framework that is named runs none.
        """
        drafters = unique_list("drafters", given, self.sampled, key=lambda drafter: drafter.name)
        named = weights or getattr(self, "draft_model", None)
        refusals = [self.refusal(drafter, named).partition("; allowed: ") for drafter in drafters]
        if drafters and all(problem for problem, *_ in refusals):
            problems, _, allowed = zip(*refusals, strict=True)
            reject("; ".join(dict.fromkeys(problems)), "; ".join(dict.fromkeys(allowed)))
        return drafters

    def drafters_with_acceptance(
        self, given: DrafterLike | Sequence[DrafterLike] | None
    ) -> list[Drafter]:
        """Return drafters as `sampled_drafters` does, with published acceptance where none is told.

        Raises
        ------
        OptionError
            As `sampled_drafters` and `published_drafters` do.
        """
        found = published_drafters(given, self.architecture, self._server)
        return self.sampled_drafters(found)

    def without_unserved(self, drafters: Sequence[Drafter]) -> tuple[list[Drafter], list[str]]:
        """Return drafters that the framework runs, if one is named, and why others are left out."""
        refused = {one.name: self.refusal(one).partition("; allowed: ")[0] for one in drafters}
        said = [f"{name} is left out: {why}" for name, why in refused.items() if why]
        return [one for one in drafters if not refused[one.name]], said

    def drafter_or_usual(self, given: DrafterLike | None) -> DrafterLike:
        """Return the drafter of a question about one; the first of the usual kinds for None."""
        if given is None:
            return usual_kinds(self.architecture, self._server)[0]
        if len(as_list(given)) != 1:
            refuse("drafter", given, "one SPEC, or one Drafter")
        return given

    def speculation(
        self,
        drafter: Drafter,
        schedule: Sequence[tuple[int, int, int]],
        weights: str | None = None,
        **more: Any,
    ) -> "Speculation":
        """Return what a server is told of a drafter, whose name is its SPEC."""
        # Flags are for those who name a server.
        from specroof.questions.speculation import speculation_of  # noqa: PLC0415
        from specroof.serving.launch import YOUR_DRAFT_MODEL  # noqa: PLC0415

        pairs = (pair.partition("=") for pair in drafter.name.split(",")[1:])
        spec = {key.strip(): value.strip() for key, _, value in pairs}
        own, model = spec.get("config", ""), self.architecture
        is_file = own.casefold().endswith(".gguf") or (":" in own and own.count("/") == 1)
        if is_file and own != str(self.model):
            weights = weights or own
        if own and drafter.kind == "mtp" and MTP_NOTE not in model.notes:
            weights = weights or YOUR_DRAFT_MODEL
        options = options_of(self.options)
        is_stored = options.weight_dtype == model.weight_format
        axes = ("attention_data_parallel", "pipeline_parallel", "decode_context_parallel")
        groups, stages, caches = (
            whole_within(name, getattr(self, name), "devices") for name in axes
        )
        # A drafter that runs as flags have it: on the target's devices, or on the CPU, and once.
        usual = {"tp": str(self.tensor_parallel or 1), "device": "cpu", "overlap": "", "steps": "1"}
        return speculation_of(
            drafter,
            model,
            schedule,
            weights,
            top_k=int(spec.get("top-k", 1)),
            data_parallel=groups,
            pipeline_parallel=stages,
            decode_context_parallel=caches,
            kv_cache=options.kv_dtype,
            weight_dtype=None if is_stored else options.weight_dtype,
            p_min=float(spec.get("p-min", 0)),
            n_min=int(float(spec.get("n-min", 0))),
            n_cpu_moe=options.n_cpu_moe,
            on_host=spec.get("device") == "cpu",
            untold=tuple(
                f"{key}={spec[key]}" for key, one in usual.items() if spec.get(key, one) != one
            ),
            **more,
        )

    def refusal(self, drafter: Drafter, weights: str | None = None) -> str:
        """Return why the framework that is named does not run a drafter; empty where it does."""
        # Drafters that are a share of time stand for any.
        if self.framework is None or drafter.kind not in SERVED_KINDS:
            return ""
        from specroof.serving.launch import launch  # noqa: PLC0415 - for those who name a server

        # A whole block; modules for mtp refuse single lengths alone.
        drafts = 1 if drafter.kind == "mtp" else drafter.max_draft_len or 1
        schedule = [(1, 1, drafts)]
        try:
            framework = "@".join(filter(None, framework_of(self.framework)))
            launch(self.speculation(drafter, schedule, weights), framework)
        except OptionError as refusal:
            return str(refusal)
        return ""

    @cached_property
    def _server(self) -> str:
        """The server that is asked about, and its release; empty where neither is named."""
        framework, version = framework_of(self.framework)
        engine = (framework or engine_name(self.engine) or "").partition("@")[0]
        return "@".join(filter(None, (RUNS.get(engine, engine), version)))

    def engine_on(self, hardware: HardwareProfile) -> tuple[HardwareProfile, str | None]:
        """Return a chip with the engine that predicts there, and its name; None for the default.

        Raises
        ------
        OptionError
            For a framework that is unknown, has no engine on the chip, or is another than that of
            the engine that is named, and as `borrowed_engine` does.
        """
        if self.power_cap is not None:
            hardware = hardware.capped(self.power_cap)
        engine, framework = engine_name(self.engine), framework_of(self.framework)[0]
        for name, server in {"framework": framework, "engine": engine}.items():
            expect_runs_on(name, server, hardware)
        if self.engine_from is not None:
            hardware, engine = borrowed_engine(hardware, self.engine_from, engine)
        if framework is None:
            return hardware, engine
        framework = RUNS.get(framework, framework)
        if engine is None and hardware.owns(framework):
            return hardware, None
        if engine is None or (engine == GENERIC and framework not in hardware.engines):
            if framework not in hardware.engine_names:
                runs = [
                    one
                    for one in SERVERS
                    if RUNS.get(one, one) in hardware.engine_names
                    and BOUND_TO.get(one) in {None, hardware.vendor}
                ]
                allowed = f"on {hardware.name} {', '.join(runs)}{hardware.more_engines(framework)}"
                refuse("framework", self.framework, allowed)
            return hardware, framework
        rules = hardware.engine(engine).rules
        if rules not in {framework, IDEAL_ENGINE.rules}:
            refuse("framework", self.framework, f"{rules}, whose rules engine {engine} has")
        return hardware, engine


@dataclass(frozen=True)
class ChipsRequest(DeploymentRequest):
    """What is served, on which chips, with which drafters: each chip is asked about."""

    hardware: p.Chips  # type: ignore[assignment]  # several of them
    _: KW_ONLY
    drafters: p.Drafters = None


@dataclass(frozen=True, kw_only=True)
class PlayedRequest(p.PlayedParameters, DeploymentRequest):
    """What is served, where, and to which requests, which may be played through one by one."""


#: What is allowed where prefill and decoding have workers of their own.
PLAYED_ON_ONE: Final = "one server, or concurrency alone: workers are predicted in a steady state"


def refuse_played_workers(request: "WorkerRequest") -> None:
    """Refuse the workers of a request, or devices for any, beside requests that are played."""
    asked = ((name, getattr(request, name, None)) for name in ("devices", "prefill", "decode"))
    name, value = next((name, value) for name, value in asked if value is not None)
    refuse(name, value, PLAYED_ON_ONE)


@dataclass(frozen=True, kw_only=True)
class WorkerRequest(p.WorkerParameters, DeploymentRequest):
    """What is served, and where: on one server, or on workers of prefill and of decoding."""

    def resolved_workers(self) -> "tuple[Deployment, Split | None]":
        """Return the model and its setup, of one decode worker beside others, and all workers.

        Degrees of parallelism are those of decode workers; a prefill worker splits every layer over
        its devices.

        Raises
        ------
        SpecroofError
            As `resolved` and `workers_on` do; for devices that are told besides workers, for a link
            alone, for requests that are played through, and for prefill workers that do not hold
            the model.
        """
        if self.prefill is None and self.decode is None and self.link is None:
            return self.resolved(), None
        if self.prefill is None and self.decode is None:
            refuse("link", self.link, "none where one server does both")
        if self.tensor_parallel != 1:
            refuse("tensor_parallel", self.tensor_parallel, "none beside workers, which say theirs")
        if isinstance(self, p.PlayedParameters) and self.is_played:
            refuse_played_workers(self)
        model = self.architecture
        setup, split = self.workers_on(hardware_of(self.hardware))
        prefill = Deployment(model, split.prefill)
        has_end = split.prefill.engine != IDEAL_ENGINE  # whose memory has none
        if has_end and served_room(prefill, context_len=1.0).largest_batch < 1:
            refuse("prefill", self.prefill, f"workers that hold {model.name}")
        return Deployment(model, setup), split

    def workers_on(self, chip: HardwareProfile) -> "tuple[Setup, Split]":
        """Return where one decode worker runs on a chip, and the workers.

        Raises
        ------
        OptionError
            For workers that are not understood, or missing, or that do not divide the model.
        """
        from specroof.serving.split import Split  # noqa: PLC0415 - asked for seldom

        if self.prefill is None or self.decode is None:
            missing = "prefill" if self.prefill is None else "decode"
            reject(f"{missing} is missing", "workers of both kinds, as in 2x4 and 1x8")
        n_prefill, prefill_devices, named = workers_of("prefill", self.prefill)
        n_decode, decode_devices, other = workers_of("decode", self.decode)
        if other is not None:
            refuse("decode", self.decode, "no chip: decode workers run on that of --hardware")
        stages = whole_within("pipeline_parallel", self.pipeline_parallel, "devices")
        if decode_devices % stages:
            allowed = f"workers of a multiple of pipeline_parallel, which is {stages}, devices"
            refuse("decode", self.decode, allowed)

        def worker(name: str, where: HardwareProfile, devices: int) -> Setup:
            try:
                return self.worker(where, devices, name == "prefill")
            except OptionError as refusal:
                message = f"{name} is {getattr(self, name)!r}: {refusal}"
                raise OptionError(message) from refusal

        lent = chip if named is None else hardware_of(named)
        prefill = worker("prefill", lent, prefill_devices)
        decode = replace(worker("decode", chip, decode_devices // stages), decodes_only=True)
        return decode, Split(prefill, n_prefill, n_decode, self.link)

    def worker(self, chip: HardwareProfile, devices: int, is_prefill: bool = False) -> Setup:
        """Return where a server or a worker runs, of so many devices in each stage of its pipeline.

        One of prefill splits every layer, and no more.

        Raises
        ------
        OptionError
            For a placement that does not divide the model.
        """
        model = self.architecture
        place = {**(asdict(Placement()) if is_prefill else {}), "tensor_parallel": devices}
        here = replace(self, model=model, family=None, hardware=chip, **place).resolved()
        check_placement(model, here.setup.placement)
        return here.setup


@dataclass(frozen=True, kw_only=True)
class LoadsRequest(WorkerRequest, PlayedRequest):
    """What is served, where, and under which loads."""

    batch_size: p.BatchSize = None
    context_len: p.ContextLens = None
    concurrency: p.Concurrency = None
    capacity: p.Capacity = None

    @property
    def has_clients(self) -> bool:
        """Whether requests of clients are asked about, on one server."""
        has_lengths = self.input_len is not None and self.output_len is not None
        return has_lengths and self.prefill is None and self.decode is None


_WORKERS: Final = re.compile(r"(\d{1,9})x(\d{1,9})(?:@(.+))?")


def workers_of(name: str, text: object) -> tuple[int, int, str | None]:
    """Return workers, the devices of each, and the chip that is named.

    Raises
    ------
    OptionError
        For text that is not understood.

    Examples
    --------
    >>> workers_of("prefill", "2x4@h100"), workers_of("decode", "1x8")
    ((2, 4, 'h100'), (1, 8, None))
    """
    match = _WORKERS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        refuse(name, text, "workers x devices of each, as in 2x4, with @CHIP after --prefill")
    counts = [whole_within(name, int(count), "devices") for count in match.groups()[:2]]
    return counts[0], counts[1], match[3]
