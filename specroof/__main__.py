"""The command line, as `specroof` and as `python -m specroof`."""

import signal
import sys

#: The exit code that shells expect after an interrupt.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interrupt ends it without a traceback, also while it is imported."""
    try:
        from specroof.cli import main as run  # noqa: PLC0415 - takes half a second, in which people stop it

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:  # all is written: an interrupt while Python ends would only print a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
