"""Acceptance as it is measured: published profiles, and what engines and labs write."""

from specroof.acceptance.published.library import bundled_profile, load_profiles, profile_names
from specroof.acceptance.published.profile import DRAFT_COUNTS, AcceptanceProfile, draft_count
from specroof.acceptance.published.profile_files import parse_profiles

__all__ = [
    "DRAFT_COUNTS",
    "AcceptanceProfile",
    "bundled_profile",
    "draft_count",
    "load_profiles",
    "parse_profiles",
    "profile_names",
]
