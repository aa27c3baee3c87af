"""The page: grids that Python timed, and one script that recombines them."""

from specroof.page.page import single_page, site_files

__all__ = [
    "single_page",
    "site_files",
]
