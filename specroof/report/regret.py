"""The losses of following `advise`, as text and as JSON."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from specroof.arrays import fields_of
from specroof.scoring import Validation
from specroof.scoring.scores import Regret, Scored, worst_regrets

#: How many of the worst are listed.
_WORST: Final = 5
#: A larger loss is counted.
_LARGE: Final = 0.1


def regret_json(found: Validation) -> dict[str, Any]:
    """Return the losses of following `advise`: means over trusted set-ups, and the worst of all.

    Examples
    --------
    >>> regret_json(Validation((), (), ()))["worst"]
    []
    """
    trusted = _trusted(found)
    choices = [one for one in trusted if one.is_choice]
    return {
        "setups": len(trusted),
        "mean": _mean(trusted),
        "setups_with_a_choice": len(choices),
        "mean_with_a_choice": _mean(choices),
        "setups_not_in_total": len(found.regrets) - len(trusted),
        "above_10_percent": sum(one.lost > _LARGE for one in trusted),
        "above_10_percent_not_in_total": sum(one.lost > _LARGE for one in _others(found)),
        "one_version": _most_json(_of_one_version(trusted)),
        "one_version_not_in_total": _most_json(_of_one_version(_others(found))),
        "worst": [_regret_json(one) for one in worst_regrets(found.regrets, _WORST)],
    }


def _most_json(found: list[Regret]) -> dict[str, Any]:
    return {"setups": len(found), "most": max((one.lost for one in found), default=None)}


def _regret_json(one: Regret) -> dict[str, Any]:
    point = one.options[0].point
    return {
        "lost": one.lost,
        "source": point.source,
        "in_total": one.options[0].is_trusted,
        **fields_of(point, "model", "hardware", "engine", "engine_version", "batch_size", "task"),
        "options": len(one.options),
        "taken": _option_json(one.taken),
        "best": _option_json(one.best),
        "cause": _cause(one),
        "note": _notes(one),
    }


def _option_json(one: Scored | None) -> dict[str, Any] | None:
    if one is None:
        return None
    drafts = {"drafter": one.point.method, "draft_len": one.point.draft_len}
    return drafts | fields_of(one, "predicted", "measured")


def regret_lines(found: Validation) -> Iterator[str]:
    """Yield the same in words, a sentence each; nothing where no speedup was measured.

    Examples
    --------
    >>> list(regret_lines(Validation((), (), ())))
    []
    """
    trusted = _trusted(found)
    choices = [one for one in trusted if one.is_choice]
    if not trusted:
        return
    told = f"loses {_mean(trusted):.1%} of the throughput over {len(trusted)} set-ups"
    if choices:
        told += (
            f", {_mean(choices):.1%} over the {len(choices)} in which more than one way to draft "
            f"was measured"
        )
    yield (
        f"advise, choosing among what was measured (no drafts included, acceptance lengths known), "
        f"{told}"
    )
    yield from _of_one_version_lines(trusted, _others(found))
    yield from map(_line, worst_regrets(found.regrets, _WORST))


def _of_one_version_lines(trusted: list[Regret], others: list[Regret]) -> Iterator[str]:
    for found, aside in ((trusted, ""), (others, ", in no total")):
        if alike := _of_one_version(found):
            sources = ", ".join(dict.fromkeys(one.options[0].source for one in alike))
            yield (
                f"of one engine version with drafts and without, as sources say, are {len(alike)} "
                f"set-ups ({sources}{aside}): at most {max(one.lost for one in alike):.1%} is lost"
            )


def _line(one: Regret) -> str:
    point = one.options[0].point
    aside = "" if one.options[0].is_trusted else f" (not in total{_distrust(one)})"
    where = f"{point.model} on {point.hardware}, {point.batch_size:g} in flight"
    task = f", {point.task}" if point.task else ""
    return (
        f"loses {one.lost:.1%} in {point.source}{aside}, {where}{task}: takes {_option(one.taken)}, "
        f"best is {_option(one.best)}; {_cause(one)}"
    )


def _distrust(one: Regret) -> str:
    """Return the notes on a source that is not trusted."""
    notes = _notes(one)
    return f": {notes}" if notes else ""


def _notes(one: Regret) -> str:
    return "; ".join(
        dict.fromkeys(option.point.note for option in one.options if option.point.note)
    )


def _option(one: Scored | None) -> str:
    if one is None:
        return "no drafts"
    return f"{_drafts(one)} ({one.measured:.2f}x measured, {one.predicted:.2f}x predicted)"


def _drafts(one: Scored) -> str:
    return f"{one.point.method} K={one.point.draft_len}"


def _cause(one: Regret) -> str:
    """Return the mispredicted time of a round: acceptance lengths are the measured ones.

    Of the option taken and the best one, the worse predicted is to blame.
    """
    drafting = [option for option in (one.taken, one.best) if option is not None]
    blamed = max(drafting, key=lambda option: option.off)
    tokens = blamed.point.tokens_per_round or 1.0
    return (
        f"a round of {_drafts(blamed)} took {tokens / blamed.measured:.2f} plain steps, "
        f"{tokens / blamed.predicted:.2f} predicted"
    )


def _mean(found: list[Regret]) -> float | None:
    return float(np.mean([one.lost for one in found])) if found else None


def _trusted(found: Validation) -> list[Regret]:
    return [one for one in found.regrets if one.options[0].is_trusted]


def _of_one_version(found: list[Regret]) -> list[Regret]:
    return [one for one in found if one.options[0].point.engine_version]


def _others(found: Validation) -> list[Regret]:
    return [one for one in found.regrets if not one.options[0].is_trusted]
