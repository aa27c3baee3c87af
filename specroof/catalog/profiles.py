"""Acceptance profiles: published ones by name, measured ones by file."""

import os
from pathlib import Path

from specroof.acceptance.published import AcceptanceProfile, bundled_profile, draft_count
from specroof.catalog.files import is_file, name_text, read_text
from specroof.errors import CatalogError, expect, reject


def load_profile(name: str | os.PathLike[str], *, drafts: str | None = None) -> AcceptanceProfile:
    """Return a measured acceptance: a file that holds one, or a bundled profile by its name.

    Parameters
    ----------
    name
        An existing path wins; else a name that ``specroof acceptance`` lists.
    drafts
        Drafts per round, where a file does not say, as in ``num_draft_tokens=8``.

    Raises
    ------
    CatalogError
        If there is neither, or the file holds several.
    OptionError
        If the file cannot be understood, or contradicts itself.

    Examples
    --------
    >>> load_profile("qwen3.6-35b-a3b/mtp/speed-bench").draft_len
    8
    """
    text = name_text("name", name)
    path = Path(text)
    if not is_file(path):
        return bundled_profile(text)
    profiles = load_profiles_file(path, drafts=drafts)
    if len(profiles) > 1:
        names = [*[profile.name for profile in profiles[:4]], *["…"] * (len(profiles) > 4)]
        holds = f"{path}: holds {len(profiles)} profiles ({', '.join(names)})"
        reject(holds, "a file with one", CatalogError)
    return profiles[0]


def load_profiles_file(
    name: str | os.PathLike[str], *, drafts: str | None = None
) -> list[AcceptanceProfile]:
    """Return every measured acceptance of a file, in any format of `parse_profiles`.

    Raises
    ------
    CatalogError
        If the file cannot be read.
    OptionError
        If it cannot be understood, or contradicts itself.
    """
    # Imported here: pydantic would slow the start of those who name a bundled profile.
    from specroof.acceptance.published.formats import parse_profiles  # noqa: PLC0415

    place = name_text("name", name)
    expect("drafts", drafts, str | None, "drafts per round, as in 'num_draft_tokens=8', or None")
    text = read_text(Path(place), CatalogError)
    if drafts is None:
        return parse_profiles(text, place, None)
    count = draft_count(drafts)
    found = parse_profiles(text, place, count)
    said = {profile.draft_len for profile in found}
    if count not in said:
        reject(f"drafts is {drafts}, and {place} says {min(said)}", "what the file says, or none")
    return found
