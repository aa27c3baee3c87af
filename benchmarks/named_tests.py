"""A plugin of pytest that has coverage note which test reaches a line: `-p benchmarks.named_tests`.

What coverage's own `dynamic_context = test_function` calls a test is the first function of the
stack whose name begins so, and of every test that Hypothesis draws values for that is Hypothesis'
own `test_function`.
"""

from collections.abc import Generator

import pytest
from coverage import Coverage


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Name a test by its file and its function, as `mutants.py` looks for it."""
    measuring = Coverage.current()
    if measuring is not None:
        measuring.switch_context(f"{item.path.stem}.{getattr(item, 'originalname', item.name)}")
    return (yield)
