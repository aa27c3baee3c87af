"""What README, docs and schemas show of commands, as it is now: `python tests/outputs.py`."""

import gc
import os
from pathlib import Path
from typing import Final

from demo import demo
from schemas import texts
from screens import SCREENS, picture
from sessions import refreshed, sessions

ROOT: Final = Path(__file__).parents[1]


def main() -> None:
    """Write all of them in one process, which reads models, chips and engines once."""
    gc.set_threshold(200_000, 50, 50)  # as tests have it
    for name in SCREENS:  # of terminals of their own, in colours
        screen = ROOT / "docs" / "pages" / "screens" / f"{name}.svg"
        screen.write_text(picture(name), encoding="utf-8")
    os.environ |= {"COLUMNS": "110", "NO_COLOR": "1", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    for page in [ROOT / "README.md", *(ROOT / "docs" / "pages").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        if sessions(text):
            page.write_text(refreshed(text), encoding="utf-8")
    for name, chart in demo().charts.items():
        (ROOT / "notebooks" / "charts" / name).write_bytes(chart)
    for name, schema in texts().items():
        (ROOT / "specroof" / "cli" / "schemas" / f"{name}.json").write_text(
            schema, encoding="utf-8"
        )


if __name__ == "__main__":
    main()
