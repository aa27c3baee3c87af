"""What servers publish: the metric names of their counters, and series counted over a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Final

from specroof.errors import MeasurementError, reject
from specroof.frameworks import SERVERS, Metrics, Release, known_releases, release
from specroof.reading.metrics_text import Sample


@cache
def publishing() -> Mapping[str, Release]:
    """Return the newest releases that publish metrics, by how the names of these begin.

    Source
        The files of releases, ``metrics``. A gap is the time between two outputs of a request: one
        for each step, or one for each token, whose sum is the same. llama.cpp adds up the time from
        the first token of a request to its last when it ends, and counts neither requests nor gaps.

    Examples
    --------
    >>> [*publishing()]
    ['sglang:', 'vllm:', 'llamacpp:']
    """
    newest = [release(name) for name in SERVERS if known_releases(name)]
    return {one.metrics.prefix: one for one in newest if one.metrics is not None}


def no_page() -> str:
    """Return what to say of a server without a metrics page.

    Examples
    --------
    >>> no_page()
    "allowed: a server's metrics page (SGLang: with --enable-metrics; vLLM: unless \
--disable-log-stats; llama.cpp: with --metrics)"
    """
    told = [f"{one.title}: {one.metrics.published}" for one in publishing().values() if one.metrics]
    return f"allowed: a server's metrics page ({'; '.join(told)})"


#: Labels of ranks that see the same requests: the first one speaks for all.
_COPIES: Final = ("pp_rank", "tp_rank", "moe_ep_rank")
#: Labels of ranks that have separate requests.
_RANKS: Final = ("dp_rank", "engine")
_MODEL: Final = "model_name"
#: SGLang's label of a class of requests: gauges show all of them under the empty one as well.
_CLASS: Final = "priority"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a server did, in its own words.

    Parameters
    ----------
    release, server
        The newest release of its kind, and the metrics that this has.
    model
        The name under which it serves a model.
    ranks
        Ranks with separate requests.
    counts
        What was counted: between two pages, or since the server began.
    accepted_at
        Accepted drafts by position, the first first; empty where a server does not say.
    gauges
        Means over the pages.
    settings
        As of the last page.
    info
        Labels of the gauge that says how the server was launched.
    changed
        Settings that differ between the pages.
    restarted
        Whether a counter began anew between the pages: then it counts from there on.
    left_out
        Names without a number as value.
    """

    release: Release
    server: Metrics
    model: str
    ranks: int
    counts: Mapping[str, float]
    accepted_at: tuple[float, ...]
    gauges: Mapping[str, float]
    settings: Mapping[str, float]
    info: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    restarted: bool = False
    left_out: tuple[str, ...] = ()


def served_by(samples: Iterable[Sample], *, source: str) -> Release:
    """Return the kind of server that wrote a page.

    Parameters
    ----------
    samples
        Of the page.
    source
        How messages name it.

    Raises
    ------
    MeasurementError
        For a page of other software, or of two kinds.

    Examples
    --------
    >>> served_by([Sample("vllm:num_requests_running", {}, 1.0)], source="page").framework
    'vllm'
    """
    names = sorted({sample.name for sample in samples})
    found = [
        one
        for prefix, one in publishing().items()
        if any(name.startswith(prefix) for name in names)
    ]
    if len(found) == 1:
        return found[0]
    prefixes = " or ".join(publishing())
    has = "several kinds" if found else f"no such metric, but {', '.join(names[:3])}"
    return reject(f"{source}: has {has}", f"metrics of one server, {prefixes}", MeasurementError)


def counted(
    pages: Sequence[Sequence[Sample]], *, sources: Sequence[str], model: str | None = None
) -> Counted:
    """Return what a server did between two pages, or by one.

    Every series is counted for itself before series are added up: of several ranks, one may have
    begun anew.

    Parameters
    ----------
    pages
        The samples of one page, or of two of the same server, the older first.
    sources
        How messages name them.
    model
        The name under which it serves a model, where it serves several.

    Raises
    ------
    MeasurementError
        For pages of other software or of two servers, or a model that they do not serve.

    Source
        Prometheus, ``increase()``, without its extrapolation to the ends of a window.

    Examples
    --------
    >>> name = "vllm:generation_tokens_total"
    >>> pages = [[Sample(name, {"engine": "0"}, value)] for value in (100.0, 160.0)]
    >>> counted(pages, sources=["a", "b"]).counts
    {'tokens': 60.0}
    """
    servers = [served_by(page, source=one) for page, one in zip(pages, sources, strict=True)]
    found = servers[-1]
    server = found.metrics
    assert server is not None  # noqa: S101 - of those that publish
    if servers[0] is not found:
        names = f"{servers[0].framework} and {found.framework}"
        reject(
            f"{sources[-1]}: the pages are of {names}", "two pages of one server", MeasurementError
        )
    name = _served_name(pages[-1], server, sources[-1], model)
    left_out: dict[str, None] = {}
    views = [_own_samples(page, server, name, left_out) for page in pages]
    first, last = views[0], views[-1]
    then = _counters(first, server) if len(views) > 1 else {}
    counts, positions, restarted = _increases(then, _counters(last, server))
    before, settings = _settings(first, server), _settings(last, server)
    running = _shown(last, server.gauges)["running"]
    ranks = {tuple(one.labels.get(label) for label in _RANKS) for one in running}
    return Counted(
        release=found,
        server=server,
        model=name,
        ranks=max(1, len(ranks)),
        counts=counts,
        accepted_at=positions,
        gauges=_gauges(views, server),
        settings=settings,
        info=next((one.labels for one in last.get(server.info, ())), {}),
        changed=tuple(key for key in settings if before.get(key, settings[key]) != settings[key]),
        restarted=restarted,
        left_out=tuple(left_out),
    )


def _served_name(page: Sequence[Sample], server: Metrics, source: str, asked: str | None) -> str:
    """Return the name of the model whose metrics count."""
    # A server that just began has series of models only.
    own = (sample for sample in page if sample.name.startswith(server.prefix))
    found = {sample.labels.get(_MODEL, "") for sample in own}
    names = sorted(found - {""}) or [""]
    if asked in names:
        return str(asked)
    if asked is None and len(names) == 1:
        return names[0]
    what = "several models" if asked is None else f"no model {asked!r}"
    return reject(
        f"{source}: serves {what}", f"one of {', '.join(names)} (served_name)", MeasurementError
    )


_Series = tuple[str, tuple[tuple[str, str], ...]]


#: The samples of a page that count, by their names without the prefix.
_Samples = Mapping[str, list[Sample]]


def _own_samples(
    page: Sequence[Sample], server: Metrics, model: str, left_out: dict[str, None]
) -> _Samples:
    """Return the samples of a model, without copies; names of those that are no numbers apart."""
    kept = [
        one
        for one in page
        if one.name.startswith(server.prefix) and one.labels.get(_MODEL, model) in {model, ""}
    ]
    known = {*server.counters.values(), *server.gauges.values(), *server.settings.values()}
    samples: dict[str, list[Sample]] = {}
    for sample in _first_copies(kept):
        name = sample.name.removeprefix(server.prefix)
        if isfinite(sample.value) and sample.value >= 0:
            samples.setdefault(name, []).append(sample)
        elif name in known:
            left_out[sample.name] = None
    return samples


def _counters(samples: _Samples, server: Metrics) -> dict[_Series, float]:
    """Return every series of a counter, under what it counts."""
    series: dict[_Series, float] = {}
    for key, name in server.counters.items():
        label, wanted = server.only.get(key, ("", None))
        for one in samples.get(name, ()):
            if one.labels.get(label) == wanted:
                series[key, tuple(sorted(one.labels.items()))] = one.value
    return series


def _shown(samples: _Samples, names: Mapping[str, str]) -> dict[str, list[Sample]]:
    """Return what gauges show of all classes of requests together, under what that is."""
    return {
        key: [one for one in samples.get(name, ()) if not one.labels.get(_CLASS)]
        for key, name in names.items()
    }


def _gauges(views: Sequence[_Samples], server: Metrics) -> dict[str, float]:
    """Return what gauges show, summed over ranks; the means of several pages."""
    sums: dict[str, list[float]] = {}
    for view in views:
        for key, shown in _shown(view, server.gauges).items():
            if shown:
                sums.setdefault(key, []).append(sum(one.value for one in shown))
    return {key: sum(values) / len(values) for key, values in sums.items()}


def _settings(samples: _Samples, server: Metrics) -> dict[str, float]:
    """Return the means over ranks of what is the same on all; an idle rank shows 0."""
    found = _shown(samples, server.settings)
    told = {key: [one.value for one in shown if one.value] for key, shown in found.items()}
    return {key: sum(values) / len(values) for key, values in told.items() if values}


def _first_copies(samples: Sequence[Sample]) -> list[Sample]:
    """Return samples without those of ranks that see the same requests as another one."""

    def copy(sample: Sample) -> tuple[int, ...]:
        texts = (sample.labels.get(label, "") for label in _COPIES)
        return tuple(int(text) if text.isdecimal() else 0 for text in texts)

    first: dict[tuple[str, str], tuple[int, ...]] = {}
    for one in samples:
        rank = (one.name, one.labels.get("dp_rank", ""))
        first[rank] = min(first.get(rank, copy(one)), copy(one))
    return [one for one in samples if copy(one) == first[one.name, one.labels.get("dp_rank", "")]]


def _increases(
    before: Mapping[_Series, float], after: Mapping[_Series, float]
) -> tuple[dict[str, float], tuple[float, ...], bool]:
    """Return what was counted, accepted drafts by position, and whether a counter began anew."""
    counts: dict[str, float] = {}
    positions: dict[int, float] = {}
    restarted = False
    for (key, labels), now in after.items():
        then = before.get((key, labels), 0.0)
        restarted |= now < then
        more = now if now < then else now - then
        if key != "accepted_at":
            counts[key] = counts.get(key, 0.0) + more
        elif (position := dict(labels).get("position", "")).isdecimal():
            positions[int(position)] = positions.get(int(position), 0.0) + more
    return counts, tuple(positions[place] for place in sorted(positions)), restarted
