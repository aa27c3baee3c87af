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
    model: str, tool: str, tool_args: str, contexts: Sequence[int], seconds: float
) -> str:
    """Return what a tool prints that times passes of a model on this machine.

    Parameters
    ----------
    model
        A file, or a name that the tool knows.
    tool
        Of `specroof.evidence.time_passes`, or a path.
    tool_args
        Arguments that the tool gets besides, as a shell takes them.
    contexts
        Tokens that are cached before the passes.
    seconds
        Of timing, about.

    Raises
    ------
    MeasurementError
        One line: for a tool that is not there, fails, or does not end.
    """
    words = [sys.executable, str(SCRIPT), f"--tool={tool}", f"--tool-args={tool_args}"]
    words += [f"--context={','.join(map(str, contexts))}", f"--seconds={seconds:g}", "--", model]
    limit_s = _PATIENCE_S + 2 * seconds
    # A session of its own: what the script has started ends with it.
    timer = subprocess.Popen(  # noqa: S603 - of the user
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, said = timer.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        message = f"{tool}: did not end in {limit_s:g} s"
        raise MeasurementError(message) from None
    finally:
        if timer.returncode is None:  # out of time, or interrupted
            os.killpg(timer.pid, signal.SIGKILL)
            timer.communicate()
    if timer.returncode:
        reason = said.strip().rpartition("\n")[2] or f"{tool}: gave no reason"
        if "not found" in reason:
            reason += "; allowed: --tool PATH, or --script for another machine"
        raise MeasurementError(reason)
    return printed
