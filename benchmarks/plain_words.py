"""Time a cold start with and without the words of a command being read by pydantic.

`specroof.cli` lets parameters read plain words themselves, since Typer would import
pydantic for them. This says what that saves, alternating the two.

Run with: python benchmarks/plain_words.py
"""

import statistics
import subprocess
import sys
import time

REPEATS = 15
WORDS = ["predict", "Qwen/Qwen3-8B", "-H", "h200", "--drafter", "ideal", "--engine", "ideal"]
PLAIN = "from specroof.cli import main; main()"
BY_TYPER = f"from specroof.cli import groups; groups._read_plainly = lambda *_: None; {PLAIN}"


def _start(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *WORDS], capture_output=True, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    pairs = [(_start(PLAIN), _start(BY_TYPER)) for _ in range(REPEATS)]
    for name, times in zip(
        ("read plainly", "read by Typer"), zip(*pairs, strict=True), strict=True
    ):
        print(f"{name}: median {statistics.median(times):.3f} s, least {min(times):.3f} s")
