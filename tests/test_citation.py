"""What CITATION.cff says of the package."""

from importlib.metadata import metadata
from pathlib import Path

import yaml

CITATION = Path(__file__).parents[1] / "CITATION.cff"


def test_the_citation_is_of_this_package_and_version() -> None:
    citation = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    package = metadata("specroof")
    assert citation["title"] == package["Name"]
    assert citation["version"] == package["Version"]
    assert citation["license"] == package["License-Expression"]
    assert [author["name"] for author in citation["authors"]] == [package["Author"]]
    assert set(citation["keywords"]) == set(package["Keywords"].split(","))
