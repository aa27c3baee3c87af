"""Acceptance as it is measured: the published profiles.

`specroof.acceptance.published.formats` reads what engines and labs write.
"""

from specroof.acceptance.published.profile import (
    AcceptanceProfile,
    borrowed_profiles,
    bundled_profile,
    draft_count,
    load_profiles,
    profile_names,
    published_with,
    typical_profiles,
)
