"""Click through a site that `specroof explore` wrote, and look for what contradicts itself.

    specroof explore -o site && python benchmarks/page_clicks.py site

Every model on every chip is opened with each engine that the page offers for it. Printed are how
many set-ups were looked at, how long the page took to open, and each set-up with a problem: an
empty chart that gives no reason, a decision that its words, the table or the flags contradict, the
textbook engine where it was not asked for, a number that is none, or a message of the browser.
Needs Playwright and Chromium; the exit code is 1 if there was any problem.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

#: What is wrong with the page as it is shown, as a list of sentences.
PROBLEMS: Final = r"""
() => {
  const wrong = [], $ = (id) => document.getElementById(id);
  const { state, curves } = specroofPage.figures();
  for (const chart of document.querySelectorAll(".chart")) {
    const drawn = chart.querySelectorAll("svg path, svg rect").length;
    const words = chart.getAttribute("aria-label");
    if (chart.dataset.empty === "1" ? !words || !chart.querySelector(".missing") : !drawn) wrong.push(`${chart.id} is empty without a reason`);
  }
  const text = document.body.innerText;
  for (const bad of ["NaN", "undefined", "Infinity", "null", "0.000 ms"]) if (text.includes(bad)) wrong.push(`the page says ${bad}`);
  const lines = [...document.querySelectorAll("#verdict p:not(.hint)")].map((line) => line.innerText);
  const flags = document.querySelectorAll("#flags pre").length;
  curves.forEach((curve, d) => {
    const line = lines[d] || "", runs = curve && curve.speedup.slice(1).some(Number.isFinite);
    const { decision, draft_len: drafts } = curve ? curve.choice : {};
    const row = [...document.querySelectorAll("#figures tbody tr")].at(d - curves.length).children[1].innerText;
    if (runs && !line.startsWith(decision.toUpperCase())) wrong.push(`drafter ${d} is ${decision}, and the page says: ${line}`);
    if (runs && (decision === "off") !== !drafts) wrong.push(`drafter ${d} is ${decision} with ${drafts} drafts`);
    if (runs && !(drafts ? row.startsWith(`${drafts} `) : row === "none")) wrong.push(`drafter ${d} is to make ${drafts} drafts, and the table says ${row}`);
    if (runs && drafts && !line.includes(`${drafts} draft`)) wrong.push(`drafter ${d} is to make ${drafts} drafts, and the page says: ${line}`);
    if (runs && !drafts && d === state.focus && flags) wrong.push("flags to paste for no drafts");
    const texts = $("flags").innerText;
    if (runs && drafts && d === state.focus && !flags && !/cost alone|has no/.test(texts)) wrong.push("no flags to paste");
    if (runs && drafts && d === state.focus && flags && !texts.includes(`, ${drafts} draft${drafts > 1 ? "s" : ""} of`)) wrong.push(`flags are not of ${drafts} drafts`);
    if (runs && drafts && curve.speedup[drafts] < 1) wrong.push("the drafts are slower than none");
    if (!runs && state.devices && !/^no (figures|room)/.test(line)) wrong.push(`drafter ${d} has no figures, and the page says: ${line}`);
  });
  if (!state.devices && !/^no figures/.test(lines[0] || "")) wrong.push("nothing is chosen, and the page does not say why");
  if (!$("refusals").hidden) wrong.push($("refusals").innerText);
  return wrong;
}
"""


def clicked(page: Any) -> tuple[int, list[str]]:
    """Return how many set-ups were looked at, and what was wrong with them."""
    tables = json.loads(page.locator("#tables").text_content())
    count, problems = 0, list[str]()

    def look(named: str) -> None:
        nonlocal count
        count += 1
        problems.extend(f"{named}: {problem}" for problem in page.evaluate(PROBLEMS))

    def after(action: Any) -> None:
        turn = page.locator("html").get_attribute("data-turn")
        action()
        page.wait_for_selector(f'html:not([data-turn="{turn}"])')

    for model in tables["models"]:
        for chip, *_ in tables["hardware"]:
            words = urlencode({"model": model, "chip": chip})
            after(lambda words=words: page.evaluate(f"location.hash = {json.dumps(words)}"))
            chosen = page.evaluate("specroofPage.figures().state.engine")
            look(f"{model} on {chip}, {chosen or 'no engine'}")
            if chosen == "ideal":
                problems.append(f"{model} on {chip}: the textbook was chosen")
            options = page.locator("#engine option").evaluate_all("all => all.map(o => o.value)")
            for engine in options:
                if engine not in ("", chosen):
                    after(lambda engine=engine: page.locator("#engine").select_option(engine))
                    look(f"{model} on {chip}, {engine}")
    return count, problems


def main() -> int:
    """Click through the site that is named."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    asked.add_argument("site", type=Path, help="folder that specroof explore wrote")
    site = asked.parse_args().site
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda failure: said.append(str(failure)))
        measured = page.context.new_cdp_session(page)
        measured.send("Performance.enable")
        began = perf_counter()
        page.goto((site / "index.html").resolve().as_uri())
        page.wait_for_selector("html[data-turn]")
        opened_s = perf_counter() - began
        found = measured.send("Performance.getMetrics")["metrics"]
        process_s = {one["name"]: one["value"] for one in found}["ProcessTime"]
        count, problems = clicked(page)
        browser.close()
    problems += [f"the browser says: {text}" for text in said]
    print(
        f"{count} set-ups, {len(problems)} problems; opened in {opened_s:.2f} s, "
        f"{process_s:.2f} s of a processor"
    )
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
