"""Answers as notebooks show them: a small table, and sentences below it."""

from collections.abc import Iterable, Mapping
from html import escape


def facts_html(title: str, facts: Mapping[str, object], said: Iterable[str]) -> str:
    """Return a table of facts, by name, and sentences below it.

    Parameters
    ----------
    title, facts, said
        What is shown, as text.

    Examples
    --------
    >>> facts_html("x < y", {"batch": 3}, ["a note"])
    '<table><caption>x &lt; y</caption><tr><th>batch</th><td>3</td></tr></table><p>a note</p>'
    """
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    notes = "".join(f"<p>{escape(one)}</p>" for one in said)
    return f"<table><caption>{escape(title)}</caption>{rows}</table>{notes}"
