"""Which acceptance was measured, and which law fits it?"""

import os
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np

from specroof.acceptance.law_fits import FITTED_LAWS, AcceptanceFit, fit_acceptance
from specroof.acceptance.published import AcceptanceProfile, load_profiles
from specroof.acceptance.published.profile import DRAFT_COUNTS, profile_names
from specroof.arrays import Array, fields_of
from specroof.catalog.files import is_file
from specroof.catalog.profiles import load_profile, load_profiles_file
from specroof.questions.answer import Charted
from specroof.questions.request import Command, Parameter, as_list, question
from specroof.questions.simulate import COMMAND as SIMULATE
from specroof.report.layout import format_table

ProfileName = str | os.PathLike[str]


@dataclass(frozen=True)
class FindRequest:
    """Ask which acceptance was published."""

    text: Annotated[str, Parameter("Only names that hold this text.", "--find", metavar="TEXT")] = (
        ""
    )


@dataclass(frozen=True)
class ProfilesRequest:
    """Ask for measured acceptance."""

    names: Annotated[
        ProfileName | Sequence[ProfileName],
        Parameter(
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
        Parameter(
            f"Drafts per round, where a file does not say. COUNT: {', '.join(DRAFT_COUNTS)}; the "
            "last two count the token before the drafts.",
            metavar="[COUNT=]N",
        ),
    ] = None

    def profiles(self) -> list[AcceptanceProfile]:
        """Return the profiles of names and files; one file may hold several."""
        profiles: list[AcceptanceProfile] = []
        for name in as_list(self.names):
            if is_file(Path(name)):
                profiles += load_profiles_file(name, drafts=self.drafts)
            else:
                profiles.append(load_profile(name))
        return profiles


@dataclass(frozen=True, kw_only=True)
class FitRequest(ProfilesRequest):
    """Ask which law fits measured acceptance."""

    law: Annotated[str, Parameter("Law to fit.", metavar="|".join((*FITTED_LAWS, "all")))] = "all"


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

    def text(self) -> str:
        """Return each profile over a few lines."""
        return profiles_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of survival and tokens per round, beside the laws fitted."""
        return {"": acceptance_chart(self)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """Each profile as the object that ``--json`` prints."""
        return [profile_row(profile) for profile in self.profiles]

    def to_dict(self) -> dict[str, Any]:
        """Return the profiles by name."""
        return {row["name"]: row for row in self.records}


@dataclass(frozen=True, repr=False)
class FittedProfiles(Profiles):
    """Measured acceptance, and laws fitted to it: `Profiles` that print their fits."""

    def text(self) -> str:
        """Return the laws as a table, with what they miss."""
        return fits_text(self)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Each fit as the object that ``--json`` prints."""
        return [{"profile": profile.name} | fit_row(fit) for profile, fit in self.fits]

    def to_dict(self) -> dict[str, Any]:
        """Return the fits by profile."""
        fits: dict[str, Any] = {profile.name: [] for profile in self.profiles}
        for row in self.records:
            fits[row["profile"]].append(row)
        return fits


@question(FindRequest)
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


@question(ProfilesRequest)
def show_profiles(request: ProfilesRequest) -> Profiles:
    """Show profiles: the survival curve, the counts, the source."""
    return Profiles(tuple(request.profiles()))


@question(FitRequest)
def fit_profiles(request: FitRequest) -> FittedProfiles:
    """Fit laws with few numbers to measured acceptance, and show their residuals."""
    profiles = request.profiles()
    fits = [(profile, fit) for profile in profiles for fit in _fits(profile, request.law)]
    return FittedProfiles(tuple(profiles), fits=tuple(fits))


def _fits(profile: AcceptanceProfile, law: str) -> list[AcceptanceFit]:
    """Return the fits that were asked for; of all laws those with few enough numbers."""
    survival = _survival(profile)
    if law != "all":
        return [fit_acceptance(survival, law)]
    fitting = [
        name for name, law_fit in FITTED_LAWS.items() if len(law_fit.bounds) <= profile.n_measured
    ]
    return [fit_acceptance(survival, name) for name in fitting]


def profile_row(profile: AcceptanceProfile) -> dict[str, Any]:
    """Return a profile as the object that ``--json`` prints."""
    measured = ("name", "model", "drafter", "task", "temperature", "engine", "draft_len")
    return {
        **fields_of(profile, *measured, "tokens_per_round"),
        "survival": _survival(profile).tolist(),
        "lengths": dict(profile.lengths),
        **fields_of(profile, "counted", "n_rounds", "source", "note"),
    }


def _survival(profile: AcceptanceProfile) -> Array:
    """Return the survival of each draft that was measured."""
    return profile.acceptance().survival(np.arange(1, profile.draft_len + 1))


def fit_row(fit: AcceptanceFit) -> dict[str, Any]:
    """Return a fit as the object that ``--json`` prints."""
    key = {"constant": "accept"}.get(fit.law, fit.law)
    return {
        "law": fit.law,
        "parameters": list(fit.parameters),
        "draft_len": fit.depth,
        **fields_of(fit, "rms_residual", "worst_residual", "length_residual"),
        "spec": f"{key}={'/'.join(f'{value:.5g}' for value in fit.parameters)}",
    }


# --- Measured acceptance as text: a list, a page for each profile, and fitted laws ---------------


def profiles_table(answer: Profiles) -> str:
    """Return a list of profiles, or the nearest names where there are none."""
    if not answer.profiles:
        return "\n".join(answer.notes)
    header = ["profile", "drafts", "tokens/round", "temperature", "measured"]
    table = format_table(header, [_cells(profile) for profile in answer.profiles], left=[0, 4])
    usage = "tokens per round include the bonus token. Use: profile=NAME in a SPEC."
    return f"{table}\n\nProfiles: {len(answer.profiles)}; {usage}"


def _cells(profile: AcceptanceProfile) -> list[str]:
    temperature = "" if profile.temperature is None else f"{profile.temperature:g}"
    lengths = len(profile.lengths)
    counted = f"{lengths} length" + "s" * (lengths != 1)
    measured = "by position" if profile.survival else counted
    return [
        profile.name,
        str(profile.draft_len),
        f"{profile.tokens_per_round:.2f}",
        temperature,
        measured,
    ]


def profiles_text(answer: Profiles) -> str:
    """Return each profile over a few lines."""
    return "\n\n".join(_text(profile) for profile in answer.profiles)


def _text(profile: AcceptanceProfile) -> str:
    row = profile_row(profile)
    survival = " ".join(f"{share:.3f}" for share in row.pop("survival"))
    lengths = ", ".join(f"{length:g} at {drafts}" for drafts, length in profile.lengths)
    row |= {"lengths": lengths, "tokens_per_round": f"{profile.tokens_per_round:.4g} (bonus in)"}
    lines = [f"{key:17}{value}" for key, value in row.items() if value not in ("", None)]
    return "\n".join([*lines, f"{'survival':17}{survival}"])


def fits_text(answer: FittedProfiles) -> str:
    """Return fitted laws as a table, with what they miss."""
    header = ["profile", "law", "rms", "worst", "tokens/round off", "SPEC"]
    rows = [
        [
            profile.name,
            fit.law,
            f"{fit.rms_residual:.4f}",
            f"{fit.worst_residual:.4f}",
            f"{fit.length_residual:+.3f}",
            fit_row(fit)["spec"],
        ]
        for profile, fit in answer.fits
    ]
    legend = "rms and worst: fitted less measured share of rounds, over the depths measured"
    return f"{format_table(header, rows, left=[0, 1, 5])}\n\n{legend}"


# --- The chart ------------------------------------------------------------------------------------


def acceptance_chart(answer: Profiles) -> Any:
    """Draw survival and tokens per round of profiles, beside the laws fitted to them."""
    from specroof.plot.curves import plot_acceptance  # noqa: PLC0415 - matplotlib is slow to import

    measured = [(profile.name, profile.acceptance()) for profile in answer.profiles]
    fits = [(f"{fit.law} fitted to {profile.name}", fit.acceptance) for profile, fit in answer.fits]
    return plot_acceptance(measured, fits=fits)


_LIST: Final = Command(
    question=find_profiles, text=profiles_table, json=lambda found: found.records, csv=False
)
_CHART: Final = "Draw survival and tokens per round."
COMMAND: Final = replace(
    _LIST,
    commands={
        "list": _LIST,
        "show": Command(
            question=show_profiles, json=lambda found: found.records, csv=False, chart=_CHART
        ),
        "fit": Command(
            question=fit_profiles, json=lambda found: found.records, csv=False, chart=_CHART
        ),
        "simulate": SIMULATE,
    },
)
