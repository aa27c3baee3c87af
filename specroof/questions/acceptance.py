"""Which acceptance was measured, and which law fits it?"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance.law_fits import FITTED_LAWS, AcceptanceFit, fit_acceptance
from specroof.acceptance.published import AcceptanceProfile, load_profiles
from specroof.acceptance.published.profile import DRAFT_COUNTS, profile_names
from specroof.arrays import Array, fields_of
from specroof.catalog.files import is_file
from specroof.catalog.profiles import load_profile, load_profiles_file
from specroof.errors import Urgent, refuse
from specroof.questions import parameters as p
from specroof.questions.answer import Charted, rows_table
from specroof.questions.objects import as_list
from specroof.questions.request import Command, question
from specroof.questions.simulate import COMMAND as SIMULATE
from specroof.report.layout import note_lines

ProfileName = str | os.PathLike[str]


@dataclass(frozen=True)
class FindRequest:
    """Ask which acceptance was published."""

    text: Annotated[
        str, p.Parameter("Only names that hold this text.", "--find", metavar="TEXT")
    ] = ""


@dataclass(frozen=True)
class ProfilesRequest:
    """Ask for measured acceptance."""

    names: Annotated[
        ProfileName | Sequence[ProfileName],
        p.Parameter(
            "Profiles by name, or files: vLLM's counters, histograms and log, SGLang's log, "
            "speculation_profile.json, golden acceptance lengths, a trace bank.",
            "NAME|FILE…",
            names=profile_names,
            kind=list[str],
        ),
    ]
    _: KW_ONLY
    drafts: Annotated[
        str | None,
        p.Parameter(
            f"Drafts per round, where a file does not say. COUNT: {', '.join(DRAFT_COUNTS)}; the "
            "last two count the token before the drafts.",
            metavar="[COUNT=]N",
        ),
    ] = None

    def profiles(self) -> list[AcceptanceProfile]:
        """Return the profiles of names and files; one file may hold several."""
        profiles: list[AcceptanceProfile] = []
        names = as_list(self.names)
        if self.drafts is not None and not any(is_file(Path(name)) for name in names):
            refuse("drafts", self.drafts, "beside a file that does not say them")
        for name in names:
            if is_file(Path(name)):
                profiles += load_profiles_file(name, drafts=self.drafts)
            else:
                profiles.append(load_profile(name))
        return profiles


@dataclass(frozen=True, kw_only=True)
class FitRequest(ProfilesRequest):
    """Ask which law fits measured acceptance."""

    law: Annotated[str, p.Parameter("Law to fit.", metavar="|".join((*FITTED_LAWS, "all")))] = "all"


@dataclass(frozen=True, kw_only=True)
class ProfileRow(q.Row):
    """A measured acceptance; `lengths` holds tokens per round by drafts, where these are known."""

    name: str
    model: str
    drafter: str
    task: str
    temperature: float | None
    rule: str
    engine: str
    draft_len: int
    tokens_per_round: float
    measurement: str
    survival: tuple[float, ...]
    lengths: Mapping[int, float]
    counted: str
    n_rounds: int | None
    accuracy: str
    source: str
    note: str


@dataclass(frozen=True, kw_only=True)
class FitRow(q.Row):
    """A law fitted to a measured acceptance, and what it misses."""

    profile: str
    law: str
    parameters: tuple[float, ...]
    draft_len: int
    rms_residual: float
    worst_residual: float
    length_residual: float
    spec: str


@dataclass(frozen=True, repr=False)
class Profiles(Charted):
    """Measured acceptance.

    Attributes
    ----------
    profiles
        What was found.
    fits
        Each law fitted to them, with the profile; none where no fit was asked for.
    notes, warnings
        Sentences for the reader.
    """

    profiles: tuple[AcceptanceProfile, ...]
    fits: tuple[tuple[AcceptanceProfile, AcceptanceFit], ...] = ()

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{len(self.profiles)} profiles"

    @property
    def rows(self) -> tuple[q.Row, ...]:
        """The profiles."""
        return tuple(map(profile_row, self.profiles))

    def text(self) -> str:
        """Return each profile over a few lines, and the notes."""
        return "\n\n".join(filter(None, [*map(_text, self.profiles), note_lines(self.notes)]))

    def figures(self) -> dict[str, Any]:
        """Return the chart of survival and tokens per round, beside the laws fitted."""
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        measured = [(profile.name, profile.acceptance()) for profile in self.profiles]
        fits = [
            (f"{fit.law} fitted to {profile.name}", fit.acceptance) for profile, fit in self.fits
        ]
        return {"": plot.plot_acceptance(measured, fits=fits)}


@dataclass(frozen=True, repr=False)
class FittedProfiles(Profiles):
    """Measured acceptance, and laws fitted to it: `Profiles` whose rows are their fits."""

    @property
    def rows(self) -> tuple[q.Row, ...]:
        """The fits."""
        rows = []
        for profile, fit in self.fits:
            key = "accept" if fit.law == "constant" else fit.law
            numbers = ("law", "parameters", "rms_residual", "worst_residual", "length_residual")
            row = FitRow(
                profile=profile.name,
                draft_len=fit.depth,
                **fields_of(fit, *numbers),
                # The SPEC that the fit stands for.
                spec=f"{key}={'/'.join(f'{value:.5g}' for value in fit.parameters)}",
            )
            rows.append(row)
        return tuple(rows)

    def text(self) -> str:
        """Return the laws as a table, with what they miss."""
        shown = ("profile", "law", "rms_residual", "worst_residual", "length_residual", "spec")
        legend = "rms and worst: fitted less measured share of rounds, over the depths measured"
        return f"{rows_table(self.rows, shown)}\n\n{legend}"


@question(FindRequest, "acceptance-list")
def find_profiles(request: FindRequest) -> Profiles:
    """List the bundled profiles: model, drafter, task, drafts, tokens per round.

    Where no name holds the text, a note has the nearest ones.
    """
    text, known = request.text, load_profiles()
    matches = tuple(profile for profile in known if text.casefold() in profile.name)
    if matches:
        return Profiles(matches)
    near = nearest_models(text, sorted({profile.model for profile in known}))
    nearest = f"; nearest: {', '.join(near)}" if near else ""
    return Profiles((), notes=(f"nothing published for {text}{nearest}",))


def nearest_models(text: str, models: Sequence[str]) -> list[str]:
    """Return up to three models that share words with a text, the most alike first.

    Examples
    --------
    >>> nearest_models("V3.2", ["DeepSeek-V3", "DeepSeek-V3.1", "Qwen3-8B"])  # a V, and 3
    ['DeepSeek-V3.1', 'DeepSeek-V3']
    """

    def words(name: str) -> set[str]:
        return {*re.findall("[a-z]+", name.casefold())}

    def likeness(model: str) -> float:
        parts = (model, *re.split("[-/ ]", model))
        return max(
            SequenceMatcher(None, text.casefold(), part.casefold()).ratio() for part in parts
        )

    shared = {model: len(words(text) & words(model)) for model in models}
    ranked = sorted(models, key=lambda model: (-shared[model], -likeness(model)))
    return [model for model in ranked if shared[model]][:3]


@question(ProfilesRequest, "acceptance-show")
def show_profiles(request: ProfilesRequest) -> Profiles:
    """Show profiles: the survival curve, the counts, the source."""
    profiles = tuple(request.profiles())
    notes = [Urgent(f"{one.name}: {said}") for one in profiles for said in one.acceptance().caveats]
    return Profiles(profiles, notes=tuple(notes))


@question(FitRequest, "acceptance-fit")
def fit_profiles(request: FitRequest) -> FittedProfiles:
    """Fit laws with few numbers to measured acceptance, and show their residuals."""
    profiles = request.profiles()
    fits = []
    for profile in profiles:
        # A law with more numbers than were measured says nothing.
        n_measured = len(profile.survival) or len(profile.lengths)
        fitting = [name for name, one in FITTED_LAWS.items() if len(one.bounds) <= n_measured]
        laws = fitting if request.law == "all" else [request.law]
        fits += [(profile, fit_acceptance(_survival(profile), law)) for law in laws]
    return FittedProfiles(tuple(profiles), fits=tuple(fits))


def profile_row(profile: AcceptanceProfile) -> ProfileRow:
    """Return a profile as a row."""
    lengths = len(profile.lengths)
    measured = "by position" if profile.survival else f"{lengths} length{'s' * (lengths != 1)}"
    names = {*ProfileRow.quantities()} - {"measurement", "survival", "lengths"}
    return ProfileRow(
        **fields_of(profile, *names),
        measurement=measured,
        survival=tuple(_survival(profile).tolist()),
        lengths=dict(profile.lengths),
    )


def _survival(profile: AcceptanceProfile) -> Array:
    """Return the survival of each draft that was measured."""
    return profile.acceptance().survival(np.arange(1, profile.draft_len + 1))


# --- Measured acceptance as text: a list, and a page for each profile ----------------------------


def profiles_table(answer: Profiles) -> str:
    """Return a list of profiles, or the nearest names where there are none."""
    if not answer.profiles:
        return "\n".join(answer.notes)
    shown = ("name", "draft_len", "tokens_per_round", "temperature", "measurement")
    table = rows_table(answer.rows, shown, name="profile", draft_len="drafts")
    usage = "tokens per round include the bonus token. Use: profile=NAME in a SPEC."
    return f"{table}\n\nProfiles: {len(answer.profiles)}; {usage}"


def _text(profile: AcceptanceProfile) -> str:
    row = profile_row(profile).record
    survival = q.SURVIVAL.spelt(row.pop("survival"))
    row |= {"tokens_per_round": f"{profile.tokens_per_round:.4g} (bonus in)", "measurement": ""}
    row["lengths"] = q.LENGTHS.spelt(row["lengths"])
    lines = [f"{key:17}{value}" for key, value in row.items() if value not in ("", None)]
    return "\n".join([*lines, f"{'survival':17}{survival}"])


_LIST: Final = Command(question=find_profiles, text=profiles_table)
_CHART: Final = "Draw survival and tokens per round."
COMMAND: Final = replace(
    _LIST,
    commands={
        "list": _LIST,
        "show": Command(question=show_profiles, chart=_CHART),
        "fit": Command(question=fit_profiles, chart=_CHART),
        "simulate": SIMULATE,
    },
)
