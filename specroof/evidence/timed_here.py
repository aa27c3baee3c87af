"""Passes that are timed on this machine: the script of its name in another process."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from specroof.errors import MeasurementError

#: The script, which runs elsewhere too.
SCRIPT: Final = Path(__file__).with_name("time_passes.py")
#: Seconds that a tool may take besides those of timing: to read weights from a slow disk, twice.
_PATIENCE_S: Final = 900.0


def timed_here(
    model: str, tool: str, contexts: Sequence[int], seconds: float, more: Sequence[str]
) -> str:
    """Return what a tool prints that times passes of a model on this machine.

    Parameters
    ----------
    model
        A file, or a name that the tool knows.
    tool
        Of `specroof.evidence.time_passes`, or a path.
    contexts
        Tokens that are cached before the passes.
    seconds
        Of timing, about.
    more
        Arguments that the tool gets besides.

    Raises
    ------
    MeasurementError
        One line: for a tool that is not there, fails, or does not end.
    """
    words = [sys.executable, str(SCRIPT), f"--tool={tool}", f"--seconds={seconds:g}"]
    words += [f"--context={','.join(map(str, contexts))}", "--", model, *more]
    # A session of its own: what the script has started ends with it.
    timer = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, said = timer.communicate(timeout=_PATIENCE_S + 2 * seconds)
    except subprocess.TimeoutExpired:
        message = f"{tool}: did not end in {_PATIENCE_S + 2 * seconds:g} s"
        raise MeasurementError(message) from None
    finally:
        if timer.returncode is None:  # out of time, or interrupted
            os.killpg(timer.pid, signal.SIGKILL)
            timer.communicate()
    if timer.returncode:
        lines = said.strip().splitlines() or ["gave no reason"]
        raise MeasurementError(lines[-1])
    return printed
