"""Acceptance as it is measured: published profiles, and what engines and labs write."""

from specroof.acceptance.published.formats import parse_profiles
from specroof.acceptance.published.profile import (
    DRAFT_COUNTS,
    AcceptanceProfile,
    bundled_profile,
    draft_count,
    load_profiles,
    profile_names,
)

__all__ = [
    "DRAFT_COUNTS",
    "AcceptanceProfile",
    "bundled_profile",
    "draft_count",
    "load_profiles",
    "parse_profiles",
    "profile_names",
]
