"""What a terminal of 80 columns shows, as pictures for the pages of docs/.

`make outputs` draws each of `SCREENS` as it is now.
"""

import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import textwrap
from html import unescape
from typing import Final

from rich.console import Console
from rich.text import Text

#: Pictures by name, and the commands that they show.
SCREENS: Final = {
    "predict": "specroof predict Qwen/Qwen3-235B-A22B -H h200 --tp 8 --batch 1,16,128 --drafter "
    "eagle3,accept-length=2.8@3",
    "advise": "specroof advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --framework vllm --input-len "
    "3000 --output-len 500 --concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3 "
    "--drafter ngram,accept=0.3",
    "explain": "specroof explain Qwen/Qwen3-8B -H b200 --batch 64 --drafter eagle3,accept=0.7 "
    "--draft-len 3",
}
COLUMNS: Final = 80
COLORS: Final = {"TERM": "xterm-256color", "NO_COLOR": ""}
#: Rich fetches a font from elsewhere; any of the reader's own does.
_FONTS: Final = re.compile(r"@font-face \{.*?\n    \}\n", re.DOTALL)
_TEXT: Final = re.compile(r"<text [^>]*-r\d+[^>]*>([^<]*)</text>")


def on_a_terminal(columns: int, *words: str, **settings: str) -> str:
    """Return what a command prints on a terminal of so many columns, without colors by default."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {"TERM": "xterm", **os.environ, **(settings or {"NO_COLOR": "1"})}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [sys.executable, "-m", "specroof", *words], stdout=theirs, env=environment
    ) as command:
        os.close(theirs)
        printed = b""
        while part := _part(ours):
            printed += part
    os.close(ours)
    assert command.returncode == 0
    return printed.decode().replace("\r\n", "\n")


def _part(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so of a terminal that nobody writes to any more
        return b""


def picture(name: str) -> str:
    """Return a screen as SVG that needs nothing from elsewhere."""
    words = shlex.split(SCREENS[name])
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    typed = textwrap.wrap(f"$ {SCREENS[name]}", COLUMNS - 6, break_on_hyphens=False)
    console.print(" \\\n    ".join(typed), highlight=False, markup=False)
    console.print(Text.from_ansi(on_a_terminal(COLUMNS, *words[1:], **COLORS)), soft_wrap=True)
    return _FONTS.sub("", console.export_svg(title="specroof", unique_id=name))


def written_in(svg: str) -> str:
    """Return the letters of a picture, blanks apart."""
    return re.sub(r"\s", "", unescape("".join(_TEXT.findall(svg))))
