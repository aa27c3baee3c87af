"""Files of published numbers: each says where it comes from, and each is read by a test."""

from pathlib import Path

import pytest

from published_models import GOLDEN, published

FILES = sorted(path.name for path in GOLDEN.glob("*.yaml"))
TESTS = sorted(Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_names_source_options_tolerance_and_reason(name: str) -> None:
    file = published(name)
    assert set(file) == {"source", "options", "tolerance", "why", "vectors"}
    assert all(len(file[key].split()) >= 5 for key in ("source", "why"))
    assert file["vectors"]
    assert all(isinstance(vector, dict) for vector in file["vectors"])


def test_every_golden_file_is_read_by_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS)
    assert [name for name in FILES if f'"{name}"' not in tests] == []
