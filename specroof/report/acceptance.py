"""Measured acceptance as text: a list, a page for each profile, and fitted laws."""

from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.questions.acceptance import FittedProfiles, Profiles, fit_row, profile_row
from specroof.report.layout import format_table


def profiles_table(found: Profiles) -> str:
    """Return a list of profiles, or the nearest names where there are none."""
    if not found.profiles:
        return "\n".join(found.notes)
    header = ["profile", "drafts", "tokens/round", "temperature", "measured"]
    table = format_table(header, [_cells(one) for one in found.profiles], left=[0, 4])
    told = "tokens per round include the bonus token. Use: profile=NAME in a SPEC."
    return f"{table}\n\nProfiles: {len(found.profiles)}; {told}"


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


def profiles_text(found: Profiles) -> str:
    """Return each profile over a few lines."""
    return "\n\n".join(_text(one) for one in found.profiles)


def _text(profile: AcceptanceProfile) -> str:
    row = profile_row(profile)
    survival = " ".join(f"{share:.3f}" for share in row.pop("survival"))
    lengths = ", ".join(f"{length:g} at {drafts}" for drafts, length in profile.lengths)
    row |= {"lengths": lengths, "tokens_per_round": f"{profile.tokens_per_round:.4g} (bonus in)"}
    lines = [f"{key:17}{value}" for key, value in row.items() if value not in ("", None)]
    return "\n".join([*lines, f"{'survival':17}{survival}"])


def fits_text(found: FittedProfiles) -> str:
    """Return fitted laws as a table, with what they miss."""
    header = ["profile", "law", "rms", "worst", "tokens/round off", "SPEC"]
    rows = [
        [
            one.name,
            fit.law,
            f"{fit.rms_residual:.4f}",
            f"{fit.worst_residual:.4f}",
            f"{fit.length_residual:+.3f}",
            fit_row(fit)["spec"],
        ]
        for one, fit in found.fits
    ]
    told = "rms and worst: fitted less measured share of rounds, over the depths measured"
    return f"{format_table(header, rows, left=[0, 1, 5])}\n\n{told}"
