"""Hostile files and SPECs: every reader returns a value or refuses in one printable line, soon.

Good texts are broken here and there (a piece lost, doubled, moved, or replaced by something
nasty), which reaches deeper than noise does; noise is drawn too.
"""

import json
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from effort import cpu_bound
from fuzzing import bounded
from specroof import catalog
from specroof.acceptance import Acceptance
from specroof.acceptance.published.formats import parse_profiles
from specroof.catalog.files import bundled
from specroof.catalog.profiles import load_profile
from specroof.errors import CatalogError, SpecroofError
from specroof.evidence.result_files import read_benchmark
from specroof.hardware.schema import parse_hardware
from specroof.questions.study import parse_study
from specroof.reading.metrics_text import parse_metrics
from specroof.serving.metrics import counted
from specroof.serving.observed import observed
from tables import rows

pytestmark = pytest.mark.fuzz

#: Seconds that one text may take on a loaded machine, and bytes that all may add to memory.
LONGEST_S = 10.0
MOST_BYTES = 2**30

NASTY = [
    *rows("fuzzed", "nasty"),
    *("9" * 400, "9" * 5000, "0." + "1" * 400, "x" * 300, "x" * 70_000, "x" * 140_000),
    *("[" * 2000, "{" * 2000, "- " * 500),
]

SPECS = rows("values", "fuzzed_specs")
#: Files that clients and servers wrote (`tests/data/clients/README.md`).
CLIENTS = {
    path.name: path.read_text("utf-8")
    for path in (Path(__file__).parent / "data/clients").iterdir()
}
RESULTS = rows("fuzzed", "results")
RESULTS += [text for name, text in CLIENTS.items() if name.endswith((".json", ".csv"))]
PAGES = [text for name, text in CLIENTS.items() if name.endswith(".txt")]
ACCEPTANCE = rows("fuzzed", "acceptances")
ACCEPTANCE += [CLIENTS["aiperf-0.13.0-drafts.json"], CLIENTS["vllm-0.33.0-varying.log"]]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no name reach the Hub, and no test end with a gigabyte more than it began with."""

    def fetch(repository: str, file_name: str) -> None:
        message = f"{repository}: {file_name} is not fetched"
        raise CatalogError(message)

    monkeypatch.setattr(catalog.names, "fetch_from_hub", fetch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < MOST_BYTES


def broken(text: str, seed: int) -> str:
    """Return a text with some of its pieces lost, doubled, exchanged or replaced."""
    dice = random.Random(seed)
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(text))
        stop = min(len(text), start + dice.choice([0, 1, 2, 5, 20, 200]))
        piece = text[start:stop]
        new = dice.choice(
            [
                "",
                piece * dice.choice([2, 3, 50]),
                dice.choice(NASTY),
                dice.choice(NASTY) * dice.choice([1, 1, 1, 100]),
                piece[::-1],
                text[dice.randint(0, len(text)) :][:30],
            ]
        )
        text = text[:start] + new + text[stop:]
    return text[:2_000_000]


def texts(good: list[str]) -> st.SearchStrategy[str]:
    """Return broken copies of good texts, and noise."""
    noise = st.lists(st.sampled_from(NASTY) | st.text(max_size=5), max_size=8).map("".join)
    seeds = st.integers(0, 2**48)
    return st.one_of(*[seeds.map(lambda seed, one=one: broken(one, seed)) for one in good], noise)  # type: ignore[misc]  # a lambda's default


def holds(read: Callable[[str], object], text: str) -> None:
    """Assert that a text is read, or refused in one printable line of bounded length, soon."""
    try:
        with cpu_bound(LONGEST_S):
            read(text)
    except SpecroofError as refusal:
        line = str(refusal)
        assert line.isprintable()
        assert 0 < len(line) <= 2000


def acceptance_is_read(text: str, drafts: int | None) -> None:
    for profile in parse_profiles(text, "a", drafts):
        json.dumps([profile.tokens_per_round, profile.n_rounds], allow_nan=False)
        profile.acceptance("geometric").tokens_per_round([1, 2, 8])


def page_is_read(text: str) -> None:
    """Read a metrics page as `specroof doctor` does; what it says is possible."""
    seen = observed(counted([parse_metrics(text, source="p")], sources=["p"]), None)
    tokens, drafts = seen.tokens_per_round, seen.draft_len
    if seen.framework == "vllm" and tokens is not None and drafts is not None:
        assert tokens <= 1.05 * drafts + 1.0 + 1e-9
    json.dumps([tokens, seen.round_s, drafts], allow_nan=False)


#: Readers of texts, and good ones of each.
READERS: dict[str, tuple[list[str], Callable[[str, int | None], object]]] = {
    "hardware": (
        [path.read_text("utf-8") for path in list(bundled("hardware", ".yaml").values())[:8]],
        lambda text, _: parse_hardware(text, source="x.yaml"),
    ),
    "spec": (SPECS, lambda text, _: catalog.load_drafter(text)),
    "study": ([rows("fuzzed", "study")], lambda text, _: parse_study(text, "study.yaml")),
    "results": (RESULTS, lambda text, drafts: read_benchmark(text, source="r", draft_len=drafts)),
    "acceptance": (ACCEPTANCE, acceptance_is_read),
    "metrics page": (PAGES, lambda text, _: page_is_read(text)),
}


@pytest.mark.parametrize("name", READERS)
@given(st.data(), st.none() | st.integers(1, 9))
@bounded(200, HealthCheck.too_slow, HealthCheck.large_base_example)
def test_a_text_is_read_or_refused(name: str, data: st.DataObject, drafts: int | None) -> None:
    good, read = READERS[name]
    holds(lambda text: read(text, drafts), data.draw(texts(good)))


@given(texts(SPECS))
@bounded(150, HealthCheck.too_slow)
def test_an_acceptance_of_a_spec_is_finite(text: str) -> None:
    try:
        drafter = catalog.load_drafter(text)
    except SpecroofError:
        return
    if isinstance(drafter.acceptance, Acceptance):
        depth = drafter.acceptance.max_draft_len
        survival = drafter.acceptance.survival(range((8 if depth is None else min(depth, 8)) + 1))
        assert ((survival >= 0) & (survival <= 1)).all()


@given(st.sampled_from(PAGES), st.floats(0, 1))
@bounded(100, HealthCheck.too_slow)
def test_a_page_that_is_cut_is_read_or_refused(page: str, share: float) -> None:
    cut = page[: int(share * len(page))]
    holds(page_is_read, cut)
    if cut.strip() and not cut.endswith("\n"):
        with pytest.raises(SpecroofError):
            page_is_read(cut)


@pytest.mark.long
@given(st.sampled_from([catalog.load_model, catalog.load_hardware, load_profile]), st.data())
@bounded(150)
def test_a_name_is_found_or_refused(load: Callable[[str], object], data: st.DataObject) -> None:
    holds(load, data.draw(texts(["Qwen/Qwen3-8B", "h200", "qwen3.6-35b-a3b/mtp/speed-bench"])))
