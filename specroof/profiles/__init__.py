"""Acceptance as it is measured: published profiles, and what engines and labs write."""

from specroof.profiles.base import DRAFT_COUNTS, AcceptanceProfile, draft_count
from specroof.profiles.library import bundled_profile, load_profiles, profile_names
from specroof.profiles.reading import parse_profiles

__all__ = [
    "DRAFT_COUNTS",
    "AcceptanceProfile",
    "bundled_profile",
    "draft_count",
    "load_profiles",
    "parse_profiles",
    "profile_names",
]
