"""The page in a real browser: its figures are the library's, and nothing else runs or leaves."""

import json
import os
import random
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import specroof
from published_models import published, published_options
from specroof.cli import app
from specroof.questions.explore import ANSWERS, HIT_RATES, site_files
from tables import rows

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
    # Of the library that drives the browser: sockets that it closes at its own end.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

#: A page that fits here on each chip, a mixture that fits nowhere, and an engine that has corners.
MODELS: Final = ("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V4-Pro")
AXES: Final[dict[str, Any]] = {
    "tensor_parallel": [1, 8],
    "context_len": [1024, 4096, 65536],
    "batch_size": [1, 8, 32, 64],
}
EXACT: Final = 1e-6
PROFILE: Final = "qwen3.6-35b-a3b/mtp/speed-bench"
#: Measured at temperatures 0 and 1.
GREEDY = "qwen3-8b/dflash-b16/gsm8k-t0"


@dataclass
class Opened:
    """A page in the browser, and what it said and asked for meanwhile."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def at(self, url: str) -> "Opened":
        self.page.goto(url)
        self.page.wait_for_selector("html[data-turn]")
        self.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        self.page.wait_for_selector("#price svg, #price .missing")
        return self

    def state(self, **words: Any) -> "Opened":
        """Give the page another state by its address; prompts are counted where answers are."""
        words = {"answer": 0, **words}
        drafters = [("drafter", one) for one in words.pop("drafters", [])]
        return self.went_to(urlencode([*words.items(), *drafters]))

    def went_to(self, address: str) -> "Opened":
        with self.drawn_again():
            self.page.evaluate(f"location.hash = {json.dumps(address)}")
        return self

    @property
    def turn(self) -> str:
        return str(self.page.locator("html").get_attribute("data-turn"))

    def after(self, turn: str) -> "Opened":
        self.page.wait_for_selector(f'html:not([data-turn="{turn}"])')
        return self

    @contextmanager
    def drawn_again(self) -> Iterator[None]:
        turn = self.turn
        yield
        self.after(turn)

    def chosen(self, selector: str, value: str) -> "Opened":
        with self.drawn_again():
            self.page.locator(selector).select_option(value)
        return self

    def clicked(self, selector: str) -> "Opened":
        with self.drawn_again():
            self.page.locator(selector).click()
        return self

    @property
    def figures(self) -> dict[str, Any]:
        # As text: values that are handed over one by one take ten times as long.
        text = self.page.evaluate(
            "JSON.stringify(specroofPage.figures(),"
            " (_, one) => one === undefined ? null : Number.isNaN(one) ? 'not a number' : one)"
        )
        return dict(json.loads(text.replace('"not a number"', "NaN")))

    @property
    def answer(self) -> str:
        return f"{self.text('verdict')}\n{self.text('reasons')}"

    def cell(self, title: str, column: int) -> str:
        """Return a cell of the table: plain decoding is in column 1, drafters come after it."""
        row = self.page.locator("#figures tbody tr").filter(has_text=title).first
        return str(row.locator("td").nth(column - 1).inner_text())

    def text(self, name: str) -> str:
        return str(self.page.locator(f"#{name}").inner_text())


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    words = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=words)
        yield browser
        browser.close()


def new_window(chromium: Any) -> Opened:
    page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(120_000)
    seen = Opened(page)
    page.on("console", lambda message: seen.said.append(message.text))
    page.on("pageerror", lambda failure: seen.said.append(str(failure)))
    page.on("dialog", lambda dialog: seen.said.append(dialog.message))
    page.on("request", lambda request: seen.asked.append(request.url))
    return seen


@pytest.fixture(scope="module")
def other(chromium: Any) -> Iterator[Opened]:
    """Return a window for pages that are opened once: to make one takes as long as to load them."""
    seen = new_window(chromium)
    yield seen
    seen.page.context.close()


@pytest.fixture
def at(other: Opened) -> Iterator[Callable[[str], Opened]]:
    def opening(url: str) -> Opened:
        other.page.goto("about:blank")  # what differs in its fragment alone is not loaded again
        other.said.clear()
        other.asked.clear()
        return other.at(url)

    yield opening
    assert other.said == []


@pytest.fixture
def shown(at: Callable[..., Opened], tmp_path: Path) -> Callable[..., Opened]:
    """Return what opens an answer of `explore`, as one page or as a site."""

    def showing(found: Any, *, as_site: bool = False) -> Opened:
        page = [("index.html", found.page.encode())]
        for name, data in site_files(found) if as_site else page:
            (tmp_path / name).write_bytes(data)
        return at((tmp_path / "index.html").as_uri())

    return showing


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where a page lies, which the first worker that asks makes for all."""
    folder = tmp_path_factory.getbasetemp()
    place = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "page.html"
    with FileLock(place.with_suffix(".lock")):
        if not place.exists():
            default: Any = [None, "ideal"]  # the server of each chip
            found = specroof.explore(MODELS, ["b200", "h100"], engines=default, **AXES)
            place.write_text(found.page, encoding="utf-8")
    return place.as_uri()


@pytest.fixture(scope="module")
def window(chromium: Any, url: str) -> Iterator[Opened]:
    seen = new_window(chromium).at(url)
    yield seen
    seen.page.context.close()


@pytest.fixture
def page(window: Opened) -> Iterator[Opened]:
    """Return the page in the state that it was left in: the next address tells all of another."""
    window.said.clear()
    yield window
    assert window.said == []  # no errors, no warnings
    assert {one.split(":")[0] for one in window.asked} <= {"file", "data", "blob"}


def predicted(seen: Opened) -> specroof.Answer:
    names: dict[str, Any] = {}
    text = seen.text("python").replace("specroof.predict(", "found = specroof.predict(", 1)
    exec(text, names)  # noqa: S102 - the text is there to be run
    found: specroof.Answer = names["found"]
    return found


def check(seen: Opened) -> None:
    """Compare every figure of the page with the library's."""
    answer: Any = predicted(seen)
    shown = seen.figures
    assert len(shown["curves"]) == len(answer.curves)
    for found, curve in zip(shown["curves"], answer.curves, strict=True):
        for name in ("speedup", "draft_s", "verify_s", "round_s", "tokens_per_s_per_user"):
            ours = np.array(found[name], dtype=np.float64)
            theirs = np.array(getattr(curve, name)[0, 0])
            # Shares are rounded, so that drafts of a microsecond are known as well as their round.
            scale = curve.round_s[0, 0] if name == "draft_s" else theirs
            assert np.array_equal(np.isnan(ours), np.isnan(theirs)), name
            assert np.all(np.isnan(theirs) | (np.abs(ours - theirs) <= EXACT * scale)), name
        assert (found["verdict"] is None) == (curve.verdict is None)
        if curve.verdict is not None:
            assert found["verdict"] == curve.verdict.item()
            for name in ("speedup_low", "speedup_high"):
                theirs = getattr(curve, name)[0, 0]
                assert found[name] == pytest.approx(theirs, rel=EXACT, nan_ok=True), name
        best = curve.best_speedup.item()
        assert np.isnan(best) or found["best_speedup"] == pytest.approx(best, rel=EXACT)
        # One rule for the best length and those near it: but for lengths that are as good.
        shortest, longest = (ends.item() for ends in curve.near_best())
        for length, ours in (
            (curve.best_draft_len.item(), found["best_draft_len"]),
            (shortest, found["near_best"][0]),
            (longest, found["near_best"][1]),
        ):
            same = curve.speedup[0, 0, [length, ours]]
            assert length == ours or same[0] == pytest.approx(same[1], rel=EXACT)


# --- the script against the library --------------------------------------------------------------


@pytest.mark.parametrize("state", rows("values", "page_states"), ids=str)
def test_figures_are_those_of_the_library(page: Opened, state: dict[str, Any]) -> None:
    page.state(**state)
    assert page.page.locator("#refusals").is_hidden(), page.text("refusals")
    check(page)


def test_batches_and_the_map_are_those_of_the_library(page: Opened) -> None:
    page.state(drafters=["eagle3,accept=0.7"], chip="h100")
    shown = page.figures
    found = specroof.predict(
        MODELS[0],
        "h100",
        drafters="eagle3,accept=0.7",
        batch_size=AXES["batch_size"],
        context_len=AXES["context_len"],
        engine="sglang",
        server="running=64",
    ).curves[0]
    best = [[one["best_speedup"] for one in line] for line in (*shown["map"], shown["batches"][0])]
    theirs = np.vstack([found.best_speedup, found.best_speedup[0]])
    assert np.array(best, dtype=np.float64) == pytest.approx(theirs, rel=EXACT, nan_ok=True)


@pytest.mark.parametrize(("preset", "chip", "batch"), rows("values", "page_presets"))
def test_presets_have_the_figures_of_predict(
    page: Opened, preset: str, chip: str, batch: int
) -> None:
    page.state(chip=chip, batch=batch)
    assert page.page.get_by_role("button", name="Agents").count() == 0  # at no context of the page
    button, turn = page.page.get_by_role("button", name=preset), page.turn
    button.focus()
    page.page.keyboard.press("Enter")
    curves = page.after(turn).figures["curves"]
    assert button.get_attribute("aria-pressed") == "true"
    assert "Simulated one by one" in page.answer
    words = shlex.split(page.text("command"))[1:]
    assert "--steady" not in {*words, *shlex.split(page.text("question"))}
    done = CliRunner().invoke(app, [*words, "--json"])
    told = json.loads(done.stdout.splitlines()[-1])["rows"]
    answer = predicted(page)
    assert json.loads(json.dumps(answer.to_dict()["rows"])) == told
    for order, (curve, row) in enumerate(zip(curves, answer.rows, strict=True)):
        choice, tried, length = curve["choice"], row.tried_draft_len, row.draft_len
        assert (choice["draft_len"], choice["tried"], choice["decision"]) == (
            length,
            tried,
            row.decision,
        )
        assert curve["near_best"] == [*row.near_best]
        shown = {
            "tried_speedup": curve["speedup"][tried],
            "tokens_per_s": batch * curve["tokens_per_s_per_user"][length],
            "plain_tokens_per_s": batch * curve["tokens_per_s_per_user"][0],
            "tpot_s": curve["tpot_s"][length],
            "plain_tpot_s": curve["tpot_s"][0],
            "ttft_s": curve["ttft_s"][length],
            "plain_ttft_s": curve["ttft_s"][0],
        }
        low, high = (curve[f"speedup_{end}"][tried] for end in ("low", "high"))
        bands = {"tried_speedup": (low, high), "ttft_s": curve["played"]["ttft_ends"]}
        for name, ours in shown.items():
            spelt = row.quantities()[name].spelt
            assert spelt(ours) == spelt(getattr(row, name)), name
            if name in bands:
                assert [*map(spelt, bands[name])] == [*map(spelt, row.bands[name])], name
        assert float(page.cell("$ per million", 2 + order)[1:]) == pytest.approx(
            row.usd_per_million_tokens, abs=5e-3
        )


@pytest.mark.parametrize("other", rows("values", "page_in_closed_form"), ids=str)
def test_other_requests_are_in_closed_form_and_say_so(page: Opened, other: dict[str, Any]) -> None:
    page.state(answer=512)
    assert "Simulated one by one: 80 requests" in page.answer
    assert page.page.locator("#steady").is_hidden()
    page.state(answer=512, **other)
    assert not any(curve and curve.get("played") for curve in page.figures["curves"])
    if "engine" not in other:  # the textbook counts no prompts
        assert "Closed form of the steady state" in page.answer
        assert page.page.locator("#steady").is_visible()
        assert "--steady" in page.text("command")


def test_requests_that_wait_are_played_where_a_batch_has_no_room(
    shown: Callable[..., Opened],
) -> None:
    axes: dict[str, Any] = {"context_len": 16384, "batch_size": [8, 64, 256]}
    found = specroof.explore("openai/gpt-oss-120b", "h100", tensor_parallel=1, **axes)
    seen = shown(found).state(answer=512, hits="0.5", batch=64)
    (row,) = predicted(seen).rows
    curve = seen.figures["curves"][0]
    assert min(curve["most"]) < 64
    assert curve["choice"]["decision"] == row.decision
    assert "the others wait" in seen.text("say-round")
    seen.state(answer=512, hits="0.5", batch=256)
    assert "No room" in seen.answer


def test_acceptance_is_moved_to_the_temperature_that_is_asked_for(page: Opened) -> None:
    page.state(drafters=[f"dflash,profile={GREEDY}", "eagle3,accept=0.7"], focus=0)
    begun = page.figures["curves"][0]
    page.chosen("#temperature", "1")
    assert page.figures["curves"][0]["best_speedup"] < begun["best_speedup"]
    assert "measured at T=0, moved to T=1" in page.answer
    tokens = (one["tokens_per_round"][15] for one in (begun, page.figures["curves"][0]))
    assert "{:.2f} tokens per round of 15 drafts become {:.2f}".format(*tokens) in page.answer
    assert page.text("command").count(",temperature=1") == 1
    assert "temperature=1" in page.page.url
    check(page)


# --- controls ------------------------------------------------------------------------------------


def test_sliders_move_by_mouse_and_by_keyboard(page: Opened) -> None:
    page.state(drafters=["eagle3,accept=0.75", "block,accept=0.89,cost=0.1,drafts=16"])
    slider = page.page.locator(".drafter").nth(0).locator(".accept")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    with page.drawn_again():
        page.page.mouse.click(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2)
    moved = page.figures["state"]["drafters"][0]["accept"]
    assert moved == pytest.approx(0.4, abs=0.03)
    check(page)
    for name, key, times in (("cost", "ArrowRight", 3), ("drafts", "PageDown", 1)):
        page.page.locator(".drafter").nth(1).locator(f".{name}").focus()
        for _ in range(times):
            with page.drawn_again():
                page.page.keyboard.press(key)
    block = page.figures["state"]["drafters"][1]
    assert block["cost"] == pytest.approx(0.115)
    assert block["drafts"] < 16
    check(page)
    assert f"accept={moved:g}" in page.text("command")


def test_drafters_are_added_changed_and_removed(page: Opened) -> None:
    boxes = page.page.locator(".drafter")
    page.state(drafters=["eagle3,accept=0.75", "dflash,accept=0.8", "ideal"])
    page.clicked("#add")
    assert boxes.count() == 4
    assert page.page.locator("#add").is_hidden()
    for name, value in (("kind", "ngram"), ("law", "profile"), ("law", "accept-length")):
        page.chosen(f".drafter >> nth=3 >> .{name}", value)
        check(page)
    last = boxes.nth(3)
    last.get_by_role("slider", name="Measured at a draft length of").focus()
    page.page.keyboard.press("Home")
    last.get_by_role("slider", name="Tokens per round").focus()
    page.page.keyboard.press("End")
    drafter = page.figures["state"]["drafters"][3]
    assert (drafter["length"], drafter["depth"]) == (2, 1)
    check(page)
    page.clicked(".drafter >> nth=0 >> .remove")
    kinds = [one["kind"] for one in page.figures["state"]["drafters"]]
    assert kinds == ["dflash", "ideal", "ngram"]
    page.page.locator("#focus").select_option("1")
    assert page.page.locator("#length-value").inner_text() == "16 (best)"
    page.page.locator("#limited").uncheck()
    assert page.figures["state"]["limited"] is False
    check(page)


@pytest.mark.parametrize(("curve", "targets", "expected"), rows("values", "page_decisions"))
def test_drafts_are_decided_by_hand(
    window: Opened, curve: dict[str, Any], targets: dict[str, float], expected: dict[str, Any]
) -> None:
    told = [{"choices": curve["speedup"], **curve}, targets]
    found = window.page.evaluate("([curve, targets]) => specroof.decided(curve, targets)", told)
    assert {name: found[name] for name in expected} == expected


#: Library and page differ by less in what a whole request takes: prompts are interpolated.
NEAR: Final = 0.01
#: Models, and chips that hold them.
DRAWN: Final = {
    "Qwen/Qwen3-8B": ("b200", "h100", "mi300x", "l40s"),
    "openai/gpt-oss-120b": ("b200", "h100", "mi300x", "l40s"),
    "deepseek-ai/DeepSeek-V3": ("b200", "mi300x"),
}
DRAWN_KINDS: Final = (
    *("mtp", "eagle3", "dflash", "ngram", "block,cost=0.1,drafts=7", "autoregressive,cost=0.3"),
)


@pytest.mark.long
def test_the_page_decides_as_advise_does(shown: Callable[..., Opened]) -> None:
    dice = random.Random(7)
    default: Any = [None]  # the engine that is chosen where nobody chooses
    axes: dict[str, Any] = {"tensor_parallel": [1, 8], "context_len": [1024, 4096, 16384]}
    chips = [*DRAWN["Qwen/Qwen3-8B"]]
    found = specroof.explore([*DRAWN], chips, engines=default, steady=True, **axes)
    seen = shown(found, as_site=True)
    models = cycle(DRAWN)
    compared, same_length = 0, 0
    while compared < 20:
        chip, kind = dice.choice(DRAWN[model := next(models)]), dice.choice(DRAWN_KINDS)
        depth, rate = dice.choice([1, 3, 7]), dice.randint(10, 95) / 100
        length = f"accept-length={1 + dice.randint(1, 8 * depth) / 10:g}@{depth}"
        spec = f"{kind},{dice.choice([f'accept={rate:g}', length])}"
        context, answer = dice.choice(axes["context_len"]), dice.choice(ANSWERS)
        batch, hits = dice.choice(found.axes.batch_size), dice.choice(HIT_RATES)
        seen.state(
            model=model, chip=chip, context=context, batch=f"{batch:g}", answer=answer,
            hits=f"{hits:g}", drafters=[spec],
        )  # fmt: skip
        (curve,), state = itemgetter("curves", "state")(seen.figures)
        if curve is None or not np.isfinite(np.array(curve["speedup"][1:], dtype=float)).any():
            word = seen.page.locator("#verdict strong").first.inner_text()
            assert word.startswith(("No ", "Not supported"))
            continue
        # Where memory holds this batch with some lengths alone, `advise` lets requests wait with
        # the others, and the page does not: it is known to choose among fewer lengths there.
        if min(curve["most"]) < batch <= max(curve["most"]):
            continue
        if seen.page.locator("#verdict strong").first.inner_text() == "Not supported":
            with pytest.raises(specroof.OptionError, match="; allowed"):
                specroof.advise(
                    model, chip, drafters=spec, input_len=context - answer / 2, output_len=answer,
                    concurrency=batch, framework=state["engine"], steady=True,
                )  # fmt: skip
            continue
        (advice,) = specroof.advise(
            model, chip, drafters=spec, input_len=context - answer / 2, output_len=answer,
            prefix_hit_rate=hits, concurrency=batch, engine=state["engine"],
            tensor_parallel=state["devices"], steady=True,
        ).chips  # fmt: skip
        (row,), choice = advice.rows, curve["choice"]
        compared += 1
        at = f"{spec} of {model} on {chip}, {state['engine']}, {batch:g}, {context}, {answer}, {hits}"
        counted: Any = advice.prediction.end_to_end[0]
        speedup = counted.speedup[0, -1]
        if min(abs(one - 1) for one in (row.tried_speedup, *row.bands["tried_speedup"])) > NEAR:
            assert choice["decision"] == row.decision, at
            assert (choice["draft_len"] > 0) == (row.draft_len > 0), at
        assert speedup[choice["draft_len"]] == pytest.approx(speedup[row.draft_len], rel=NEAR), at
        for name, tolerance in (("tpot_s", 0.02), ("ttft_s", 0.05)):
            theirs = getattr(counted, name)[0, -1, choice["draft_len"]]
            assert curve[name][choice["draft_len"]] == pytest.approx(theirs, rel=tolerance), at
        strong = seen.page.locator("#verdict strong").first.inner_text()
        assert strong.partition(":")[0] == choice["decision"].capitalize()
        if choice["draft_len"] != row.draft_len:
            continue
        same_length += 1
        printed = seen.page.locator("#flags pre").all_inner_texts()
        launches = advice.launches if row.draft_len else ()
        assert {"\n".join([*one.file_lines, one.text]) for one in launches} <= {*printed}, at
        assert bool(printed) == bool(launches), at
        assert seen.text("question").startswith(f"specroof advise {model} -H {chip} ")
    assert same_length >= 0.9 * compared


def test_a_default_that_binds_is_raised_in_flags_and_commands(page: Opened) -> None:
    page.state(drafters=["eagle3,accept-length=2.8@3"], batch=64, context=1024, engine="sglang")
    assert "--max-running-requests 64" in page.page.locator("#flags pre").first.inner_text()
    assert "--server running=64" in page.text("command")
    check(page)


def test_a_limit_that_is_raised_does_not_lower_what_memory_holds_between_contexts(
    shown: Callable[..., Opened],
) -> None:
    axes: dict[str, Any] = {"batch_size": [1, 128], "context_len": [1024, 4096]}
    found = specroof.explore("Qwen/Qwen3-32B", "h100", tensor_parallel=2, **axes)
    seen = shown(found).state(
        drafters=["dflash"], batch=128, context=1024, answer=512, hits="0", engine="sglang"
    )
    # As many as it is told run: with 256 tokens of each answer kept free memory holds more.
    (_, drafting) = specroof.capacity(
        "Qwen/Qwen3-32B", "h100", tensor_parallel=2, engine="sglang", drafters="dflash",
        draft_len=1, context_len=1280, server="running=999",
    ).rows  # fmt: skip
    assert drafting.largest_batch > 128
    assert seen.figures["curves"][0]["most"][1] == 128
    assert "No room" not in seen.answer


def test_flags_of_each_server_have_the_rule_that_the_acceptance_was_measured_with(
    shown: Callable[..., Opened],
) -> None:
    axes: dict[str, Any] = {"tensor_parallel": 1, "context_len": [1024, 4096], "batch_size": [1, 8]}
    seen = shown(specroof.explore(MODELS[0], "b200", steady=True, **axes))
    for drafter, engine, told in rows("values", "page_rules"):
        for spec, is_told in {drafter: True, f"{drafter},accept=0.8": False}.items():
            seen.state(drafters=[spec], engine=engine, temperature=1)
            assert (told in seen.page.locator("#flags pre").first.inner_text()) == is_told
        seen.state(drafters=[drafter], engine=engine, temperature=0)  # rules keep the same tokens
        assert told not in seen.page.locator("#flags pre").first.inner_text()
        check(seen)
    check(seen.state(drafters=["eagle3"], engine="tensorrt-llm"))  # rejects no drafts by sampling


def test_a_view_is_restored_from_its_address(at: Callable[..., Opened], page: Opened) -> None:
    drafters = [f"mtp,profile={PROFILE}", "autoregressive,accept=0.61,cost=0.035"]
    page.state(chip="h100", batch=32, context=1024, focus=1, length=5, limited=0, drafters=drafters)
    again = at(page.page.url)
    assert again.figures["state"] == page.figures["state"]
    assert again.text("python") == page.text("python")


def test_another_draft_length_changes_the_decision_that_is_shown(page: Opened) -> None:
    drafters = ["autoregressive,accept=0.7,cost=0.15"]
    page.state(drafters=drafters, batch=8)
    assert page.page.locator("#best").is_hidden()
    for length, decision in ((1, "on"), (16, "off"), (0, "")):
        page.state(drafters=drafters, batch=8, length=length)
        (curve,) = page.figures["curves"]
        assert f": {curve['speedup'][length]:.2f}×" in page.text("verdict")
        assert decision in page.text("verdict")
        assert f"The best length is {curve['choice']['draft_len']}" in page.answer
    assert page.clicked("#best").text("verdict").count("On: ") == 1


def test_why_and_how_sure_are_those_of_the_commands(page: Opened) -> None:
    for chip, batch in (("b200", 32), ("h100", 1)):
        page.state(chip=chip, batch=batch, context=4096, drafters=["eagle3,accept-length=2.8@3"])
        length = page.figures["curves"][0]["choice"]["draft_len"]
        asked: dict[str, Any] = {"engine": "sglang", "drafter": "eagle3,accept-length=2.8@3"}
        found: Any = specroof.explain(
            MODELS[0], chip, batch_size=batch, context_len=4096, draft_len=length, **asked
        )
        parts = [name.replace(",", "") for name, _ in found.round.largest()]
        said = page.answer
        assert re.findall(r"(?:: |, )([a-zA-Z][^:,+]*) \+", said)[: len(parts)] == parts
        assert f"{found.round.steps:.2f} plain steps" in said
        assert f"How sure: {found.sureness}." in said


def test_a_drafter_that_the_server_refuses_is_never_on(page: Opened) -> None:
    refused = "mtp,accept=0.99"  # the checkpoint has no such layers
    page.state(drafters=[refused])
    assert "Not supported" in page.text("verdict")
    assert "on" not in page.cell("Decision", 2)
    assert page.page.locator(".drafter .kind option[value=mtp]").is_disabled()
    page.state(drafters=[refused, "ngram,accept=0.8"])  # the other one is shown
    assert "On: " in page.text("verdict")
    assert "of n-gram" in page.answer
    assert page.cell("Decision", 2) == "–"


def test_models_are_found_by_what_was_typed(page: Opened) -> None:
    page.state()
    find, models = page.page.locator("#find"), page.page.locator("#model option")
    find.fill("v4 deepseek")
    assert (models.all_inner_texts(), page.text("found")) == ([MODELS[1]], "(1 of 2 found)")
    with page.drawn_again():
        find.press("Enter")
    assert page.figures["state"]["model"] == MODELS[1]
    find.fill("no such model")
    assert page.text("found") == "(0 of 2 found)"
    find.fill("")
    find.press("Enter")
    assert models.count() == 2


def test_it_opens_on_a_scene_with_published_speedups(shown: Callable[..., Opened]) -> None:
    models = ("deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-32B")
    found = specroof.explore(
        models[::-1], ["h100-sxm", "b200"], tensor_parallel=[2, 8], steady=True
    )
    seen = shown(found, as_site=True)
    assert seen.text("case") == "DeepSeek-R1 on 8 × NVIDIA B200 SXM, SGLang"
    assert "(assumed, as on DeepSeek-V3.2)" in seen.text("reasons")
    assert seen.page.locator("#by-batch circle.dots:not(.hollow)").count() >= 5
    seen.clicked("#scenes a >> nth=-1")
    assert seen.text("case").startswith("Qwen3-32B on 2 × NVIDIA H100")
    assert "(measured)" in seen.text("reasons")
    assert seen.chosen("#engine", "vllm").text("case").endswith("vLLM")


# --- what cannot be shown, prompts, two set-ups --------------------------------------------------


def test_devices_that_hold_the_model_are_chosen_and_never_the_textbook(page: Opened) -> None:
    state = page.state().chosen("#model", MODELS[1]).figures["state"]
    assert (state["devices"], state["engine"]) == (8, "sglang")
    assert all(curve["verdict"] == "pays" for curve in page.figures["curves"])
    state = page.chosen("#chip", "h100").figures["state"]  # it fits on none of them
    assert (state["devices"], state["engine"]) == (0, "")
    assert re.search("more would be needed on each device; about 16 of them would do", page.answer)
    assert page.figures["curves"] == [None]
    assert page.page.locator(".chart[data-empty='1']").count() == 6  # each says why
    assert not page.text("command")
    assert "512 out" in page.chosen("#answer-len", "512").page.locator("#verdict").inner_text()
    page.state(model=MODELS[1], devices=1)
    assert page.figures["state"]["devices"] == 8
    assert "1 device cannot serve it (no room for one request" in page.answer


def test_a_mixture_without_room_for_drafts_on_one_device(shown: Callable[..., Opened]) -> None:
    axes: dict[str, Any] = {"context_len": [4096, 65536], "batch_size": [1, 4, 16]}
    seen = shown(specroof.explore("openai/gpt-oss-120b", "h100", tensor_parallel=[1, 2], **axes))
    seen.state(context=65536, batch=1)  # one device has room for a request, and none for a draft
    assert seen.figures["state"]["devices"] == 2
    assert np.isfinite([curve["speedup"][1] for curve in seen.figures["curves"]]).all()
    seen.state(context=65536, batch=1, devices=1)
    assert np.isnan([curve["speedup"][1] for curve in seen.figures["curves"]]).all()


def test_two_set_ups_stand_side_by_side(page: Opened) -> None:
    page.state().clicked("#compare")
    state, beside = page.figures["state"], page.figures["beside"]
    assert (state["model2"], state["chip2"]) == (MODELS[0], "h100")
    address = page.page.url
    curve, *_ = specroof.predict(
        MODELS[0], "h100", drafters=shlex.split(page.text("command"))[-3],
        batch_size=8, context_len=1024, engine=state["engine2"],
        tensor_parallel=state["devices2"],
    ).curves  # fmt: skip
    assert beside["curves"][0]["best_speedup"] == pytest.approx(
        curve.best_speedup.item(), rel=EXACT
    )
    assert page.page.locator("#verdict h2").count() == 2
    dashed = page.page.locator("#hero-legend .dashed")
    assert dashed.count() == 1
    page.chosen("#model2", MODELS[1])  # fits on none of these chips: no line of it is drawn
    assert dashed.count() == 0
    page.went_to(address.split("#")[1])
    assert page.clicked("#alone").figures["beside"] is None
    assert page.went_to(address.split("#")[1]).figures["beside"]["curves"] == beside["curves"]


# --- hostile addresses and names -----------------------------------------------------------------


def test_a_hostile_address_is_refused_in_words(
    at: Callable[..., Opened], url: str, page: Opened
) -> None:
    most = ("model=" + "x" * 3994, "the address has 4001 characters; allowed: at most 4000")
    for address, refusal in [*rows("refusals", "page_addresses"), most]:
        assert refusal in page.went_to(address).text("refusals"), address[:40]
        assert page.page.evaluate("specroofPage.figures().curves.length") > 0
    seen = at(f"{url}#model=%3Cscript%3Ealert(1)%3C/script%3E&batch=eight")  # opens there
    assert "batch is “eight”" in seen.text("refusals")
    assert seen.figures["curves"]


def test_a_hostile_name_is_shown_and_runs_nothing(shown: Callable[..., Opened]) -> None:
    hostile = "</script><img src=x onerror=alert(1)><script>alert(2)</script>'\"&amp;"
    model = replace(specroof.load_model(MODELS[0]), name=hostile)
    axes: dict[str, Any] = {"tensor_parallel": 1, "context_len": 4096, "batch_size": 8}
    seen = shown(specroof.explore(model, "b200", **axes))
    assert seen.page.locator("#model option").inner_text() == hostile
    assert shlex.split(seen.text("command"))[2] == hostile
    assert hostile in seen.text("python").replace('\\"', '"')


# --- how it looks --------------------------------------------------------------------------------


#: Labels of charts that stick out of them, or that touch another.
TOUCHING = """() => {
  document.querySelectorAll("details").forEach((one) => (one.open = true));
  return [...document.querySelectorAll(".chart svg")].flatMap((svg) => {
    const whole = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
    return boxes.filter(([text, a], n) => text && (a.left < whole.left || a.right > whole.right ||
      a.bottom > whole.bottom || boxes.slice(n + 1).some(([other, b]) => other && meet(a, b)))).map(([text]) => text);
  });
}"""  # fmt: skip


def test_it_fits_and_is_accessible(at: Callable[..., Opened], url: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    seen = at(url)
    seen.page.evaluate(script)
    for width in (390, 1440):
        with seen.drawn_again():
            seen.page.set_viewport_size({"width": width, "height": 844})
        for scheme in ("dark", "light"):
            seen.page.emulate_media(color_scheme=scheme)
            assert seen.page.evaluate("document.documentElement.scrollWidth") == width
            assert seen.page.locator(".chart svg").count() == 6
            assert seen.page.evaluate(TOUCHING) == []
            background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", background))) > 384) == (scheme == "light")
            small = seen.page.evaluate(
                "[...document.querySelectorAll('a, button, select, input, summary')]"
                ".filter(one => one.offsetParent && one.getBoundingClientRect().height < 24)"
                ".map(one => one.outerHTML)"
            )
            assert small == []
            if (width, scheme) in {(390, "dark"), (1440, "light")}:  # each once: it takes a second
                found = seen.page.evaluate("axe.run()")
                wrong = [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]
                assert wrong == []
                assert found["passes"]


# --- a site, a notebook, the article -------------------------------------------------------------


def test_a_site_opens_from_disk_and_loads_a_grid_when_it_is_needed(
    shown: Callable[..., Opened], tmp_path: Path
) -> None:
    axes: dict[str, Any] = {"tensor_parallel": 8, "context_len": 1024, "batch_size": 8}
    found = specroof.explore(MODELS, ["b200", "h100"], engines="ideal", **axes)
    seen = shown(found, as_site=True)
    grids = [Path(one).name for one in seen.asked if "grid-" in one]
    assert grids == ["grid-0-0.js"]
    seen.state(model=MODELS[1], chip="h100", drafters=["ideal"])
    check(seen)
    assert [Path(one).name for one in seen.asked if "grid-" in one] == [*grids, "grid-1-1.js"]
    assert seen.said == []
    hidden = (tmp_path / "grid-1-0.js").rename(tmp_path / "hidden.js")
    seen.page.evaluate(f"location.hash = {json.dumps(urlencode({'model': MODELS[1]}))}")
    seen.page.wait_for_selector("#refusals:visible")
    assert "grid-1-0.js cannot be read" in seen.text("refusals")
    hidden.rename(tmp_path / "grid-1-0.js")  # it is asked for again
    seen.state(model=MODELS[1], drafters=["ideal"])
    check(seen)
    seen.said.clear()  # the browser says that there was no such file


def test_a_notebook_shows_it_inline(chromium: Any, tmp_path: Path) -> None:
    axes: dict[str, Any] = {"tensor_parallel": 1, "context_len": 4096, "batch_size": [1, 8]}
    cell: Any = specroof.explore(MODELS[0], "b200", **axes)
    place = tmp_path / "cell.html"
    around = '<!DOCTYPE html><meta charset="utf-8"><title>cell</title>'
    place.write_text(around + cell._repr_html_(), encoding="utf-8")
    page = chromium.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(place.as_uri())
    frame = page.frame_locator("iframe")
    assert "On: " in frame.locator("#verdict strong").first.inner_text(timeout=120_000)
    assert said == []
    page.close()


CALCULATOR: Final = published("modal-2026-calculator.yaml")


@pytest.mark.golden
def test_the_articles_states_come_out(shown: Callable[..., Opened]) -> None:
    options = CALCULATOR["options"]
    names = sorted({row["model"] for row in CALCULATOR["vectors"]})
    axes: dict[str, Any] = {"tensor_parallel": 1, "context_len": 4096, "batch_size": [8, 32]}
    found = specroof.explore(
        names, "b200", engines="ideal", options=published_options(CALCULATOR), **axes
    )
    seen = shown(found)
    for row in CALCULATOR["vectors"]:
        spec = options["drafters"][row["drafter"]].replace("cost=0.10", "cost=0.1")
        seen.state(model=row["model"], batch=row["batch_size"], drafters=[spec])
        (best,) = seen.figures["curves"]
        assert best["best_draft_len"] == row["draft_len"]
        tolerance = CALCULATOR["tolerance"]["published"]
        assert best["best_speedup"] == pytest.approx(row["speedup"], rel=0, abs=tolerance)
        check(seen)
        assert "--v4-attention mla-like" in seen.text("command")


def test_the_room_that_is_said_is_that_of_the_load_that_has_none(
    shown: Callable[..., Opened],
) -> None:
    drafter = "eagle3,accept-length=2.8@3"
    load: dict[str, Any] = {"context_len": 4096, "tensor_parallel": 1}
    seen = shown(specroof.explore("Qwen/Qwen3-8B", "h100", batch_size=[1, 256], **load))
    seen.state(drafters=[drafter], batch=1, engine="sglang")
    (curve,) = specroof.predict(
        "Qwen/Qwen3-8B", "h100", drafters=drafter, concurrency=256, engine="sglang", **load
    ).curves
    plain, drafted = np.broadcast_to(curve.running_batch, curve.speedup.shape)[0, 0, :2]
    assert 48 < drafted < 256  # beyond the default of the server, which is raised
    assert f"(at most {drafted:g} with drafts, {plain:g} without: " in seen.answer
