"""Predict what speculative decoding gains, from a config, a hardware profile and a drafter."""

import re
from importlib import import_module
from pathlib import Path
from typing import Final

#: Where a name is imported from when it is first asked for: a program pays for what it uses. The
#: list is the stub beside this file, which type checkers read.
_HOMES: Final = {
    name: home
    for home, name in re.findall(
        r"^from (\S+) import (\w+) as",
        Path(__file__).with_suffix(".pyi").read_text("utf-8"),
        re.MULTILINE,
    )
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module 'specroof' has no attribute {name!r}"
        raise AttributeError(message)
    home = _HOMES[name]
    # A room itself has its home here.
    value: object = (
        import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *_HOMES]
