"""Fit the engine profiles to the bundled measurements, and once more without each source.

Needs SciPy: ``pip install specroof[calibrate]``, then ``python benchmarks/fit_engines.py``. It
prints the parameters; with ``--write`` it also writes ``benchmarks/fitting/fits.json``, the
profiles that `specroof validate` reads (``specroof/catalog/left_out.json``), the ``engines:``
blocks of the hardware files and the generic engine. 15 minutes on two cores; with ``--factors`` 11,
afterwards: served loads are fitted times what plays by the stored fits make of their steady state.
"""

import argparse
import json
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from fitting.bands import bands_of, served_scales, wider_bands
from fitting.drift import drifts, release_tag
from fitting.generic import generic, no_surer
from fitting.kernels import KERNEL_ENGINE, KERNEL_SOURCE
from fitting.left_out import left_out_content, left_out_text
from fitting.parameters import (
    ALL,
    ENGINES,
    FAMILIES,
    FITS,
    FITTED_WITH_DRAFTS,
    PARAMETERS,
    SERVERS,
    chip_family,
    family_of,
    fits_text,
    fitted_parameters,
    stored_fits,
)
from fitting.served_fit import fitted_loads, served_engine, with_factors
from fitting.shared_fit import leave_one_out
from specroof import load_hardware
from specroof.evidence import (
    Measurement,
    drafter_of,
    has_drafter,
    kind_of,
    load_measurements,
    load_served,
    request_lengths,
)
from specroof.evidence.measurement import chip_of
from specroof.frameworks import FRAMEWORKS, version_parts
from specroof.hardware.engine import (
    IDEAL_ENGINE,
    Band,
    EngineProfile,
    ExpectedError,
    Reach,
    ServedBands,
)
from specroof.hardware.profile import GENERIC
from specroof.hardware.written import written_generic
from specroof.scoring import validation
from specroof.scoring.bands import misses_of, served_bands_of, width_scale
from specroof.scoring.left_out import ServedGroup, served_of
from specroof.scoring.scores import TRUSTED
from specroof.scoring.served import (
    FIGURES,
    ServedScore,
    implausible,
    plain_scores,
    served_validation,
)
from specroof.scoring.served import chip_family as loads_family
from specroof.speedup.reach import deployment_words

PACKAGE = Path(__file__).parent.parent / "specroof"

#: Chips that get the profiles of their family, and of them those that an engine was measured on.
CHIPS = tuple(chip for chips in FAMILIES.values() for chip in chips)


def engine_lines(engine: EngineProfile) -> list[str]:
    """Return an engine's block as YAML: what differs from the ideal, to three digits."""
    lines = [f"  {engine.name}:"]
    for key, value in _fields(engine).items():
        if key != "name":
            lines += _wrapped(f"{key}: {_yaml(value)}", indent=4)
    return lines


def _fields(part: Any) -> dict[str, Any]:
    """Return the fields of a part of a profile that are not left at their defaults."""
    return {
        field.name: getattr(part, field.name)
        for field in fields(part)
        if getattr(part, field.name) not in (field.default, {})
    }


def _wrapped(text: str, *, indent: int) -> list[str]:
    margin = " " * indent
    bound = text.replace(": ", ":\0")  # a key stays with its value
    lines = textwrap.wrap(
        bound,
        99,
        initial_indent=margin,
        subsequent_indent=margin + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _yaml(value: Any) -> str:
    if is_dataclass(value):
        value = _fields(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(str(part) for part in value) + "]"
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.3g}" if 0.01 <= value < 100 or not value else f"{value:.2e}"
    return text if "." in text else f"{text}.0"  # as the reader of files spells a float


def measured_on(points: Sequence[Measurement], engine: str, chips: Sequence[str]) -> list[str]:
    """Return the sources that measured an engine on some chips."""
    names = {load_hardware(chip).name for chip in chips}
    counted = [point for point in points if kind_of(point)[0]]
    return sorted(
        {
            point.source
            for point in [*counted, *fitted_loads()]
            if point.engine == engine and chip_of(str(point.hardware)).name in names
        }
    )


def cited(source: str) -> str:
    """Return title and address of a source, from the head of its file."""
    folder = PACKAGE / "evidence" / "measurements"
    (path,) = [*folder.glob(f"{source}.csv"), *folder.glob(f"served/{source}.csv")]
    text = path.read_text(encoding="utf-8")
    head = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# "))
    return f"{head['title']}, {head['url']}"


def source_sentence(points: Sequence[Measurement], engine: str, chip: str) -> str:
    """Return where a profile comes from."""
    family = chip_family(load_hardware(chip))
    relatives = [other for other in CHIPS if chip_family(load_hardware(other)) == family]
    seen = measured_on(points, engine, [chip])
    where = "on this chip" if seen else "none on this chip, on its family"
    sources = "; ".join(map(cited, seen or measured_on(points, engine, relatives)))
    return f"benchmarks/fit_engines.py, fitted to published measurements, {where}: {sources}"


def kernel_sentence(loads: str) -> str:
    """Return where the profile comes from that no measurement with drafts speaks for."""
    steps = validation([point for point in load_measurements() if point.engine == KERNEL_ENGINE])
    errors = ", ".join(
        f"{score.predicted / score.measured - 1:+.0%} on {score.point.model}"
        for score in steps.points
    )
    return f"{loads}; shares of peaks from {KERNEL_SOURCE}; no benchmark with drafts is known, and plain throughput is off by {errors} (trtllm-r1)"


@cache
def reach_of(engine: str = "", family: str = "") -> Reach:
    """Return what measurements of a server on a family of chips cover; of all if empty."""

    def counts(point: Measurement) -> bool:
        has = family_of(chip_of(point.hardware or ""))
        return engine in {"", point.engine} and family in {"", has}

    bundled = [point for point in load_measurements() if kind_of(point)[0]]
    loads = [load for load in load_served() if implausible(load) is None]
    seen = [*filter(counts, bundled), *filter(counts, loads)]
    words: dict[str, set[str]] = defaultdict(set)
    for key in {_PLACE(point) for point in seen}:
        point = next(point for point in seen if _PLACE(point) == key)
        words["engines"].add(point.engine or "")
        words["chips"].add(chip_of(point.hardware or "").name)
        for name, kinds in deployment_words(served_of(point, IDEAL_ENGINE)).items():
            words[name].update(kinds)
    drafted = [point for point in seen if point.drafts and has_drafter(point.method)]
    words["drafters"] = {drafter_of(point).kind for point in drafted}
    known = [point for point in drafted if point.tokens_per_round and _is_trusted(point)]
    largest, drafted_largest = (
        [max(values, default=None) for values in zip(*map(_largest, group), strict=True)]
        or [None, None]
        for group in ([point for point in seen if not point.drafts], known)
    )
    releases = {release_tag(engine, point.engine_version) for point in seen if engine} - {""}
    moved = [drifts()[engine]] if engine else drifts().values()
    speedup_drift, drift = map(max, zip(*moved, strict=True))
    return Reach(
        family=family,
        # As they are tagged: a bare 0.10 is a number in YAML.
        versions=tuple(f"v{name}" for name in sorted(releases, key=version_parts)),
        speedup_drift=speedup_drift,
        drift=drift,
        **{name: tuple(sorted(kinds)) for name, kinds in words.items()},
        batch_size=largest[0],
        context_len=largest[1],
        drafted_batch_size=drafted_largest[0],
        drafted_context_len=drafted_largest[1],
    )


#: What `deployment_words` and `Reach` read of a measurement.
_PLACE = attrgetter(
    *("model", "hardware", "engine", "quantization", "tensor_parallel", "expert_parallel"),
    "attention_data_parallel",
)


def _largest(point: Measurement) -> tuple[float, float]:
    """Return the requests in flight and the mean context of a measurement, in whole numbers."""
    in_flight = point.concurrency or point.batch_size or 1.0
    return math.ceil(in_flight), math.ceil(request_lengths(point)[2])


def _is_trusted(point: Measurement) -> bool:
    return (point.trust or 0) <= TRUSTED


_TPOT, _RATE = "played_tpot_s", "played_tokens_per_s"
Bands: TypeAlias = dict[str, dict[str, Band]]


def loads_beside_predictions(loads: Sequence[Measurement], by: ServedGroup) -> list[ServedScore]:
    """Return loads without drafts beside predictions in a steady state, and played through."""
    played = plain_scores(loads, by, played=True)
    return [
        *plain_scores(loads, by),
        *(
            replace(
                score,
                off={f"played_{name}": score.off[name] for name in FIGURES if name in score.off},
            )
            for score in played
        ),
    ]


def of_vendor(scores: Sequence[ServedScore], vendor: str | None) -> list[ServedScore]:
    """Return loads on a vendor's chips; all, where fewer than three families tell how they differ.

    Set without a family in turn, bands of NVIDIA's others hold 76 % of TPOT on Hopper and 78 % on
    Blackwell; of AMD's two, that of CDNA4 holds 21 % of the loads on CDNA3.
    """
    own = [one for one in scores if chip_of(one.point.hardware or "").vendor == vendor]
    return own if len({loads_family(one.point) for one in own}) > 2 else list(scores)


def all_served_bands() -> tuple[
    dict[tuple[str, str], Bands], dict[str, Bands], dict[str, dict[str, Bands]]
]:
    """Return bands of served loads: of servers on families, of generic engines, and by vendor.

    What is farther from measurements is nowhere narrower: a figure that no load of the family
    speaks for, beside the other families of the server; a generic engine, whose errors are of
    families that were left out, beside all. A vendor's chips share libraries and compilers: on a
    family without loads, and on strange chips whose kernels were timed, bands are of the vendor's.
    """
    loads = [score.point for score in served_validation().counted]
    served = loads_beside_predictions(loads, "model")
    scales = served_scales(served)
    vendors = {family: load_hardware(chips[0]).vendor for family, chips in FAMILIES.items()}
    places = defaultdict(list)
    for score in served:
        places[score.point.engine or "", loads_family(score.point)].append(score)
    own = {
        place: served_bands_of(scores, *place, scales=scales) for place, scores in places.items()
    }
    near = {}
    for server, families in SERVERS.items():
        for family in families:
            alike = of_vendor(served, vendors[family])
            beside = {loads_family(score.point) for score in alike}
            known = [bands for (name, of), bands in own.items() if name == server and of in beside]
            borrowed = served_bands_of(alike, server, family, scales=scales)
            here = own.get((server, family), {})
            bands = wider_bands(borrowed, known) | here
            # What follows from figures that were measured here is not borrowed from elsewhere.
            if _TPOT in here and _RATE not in here:
                del bands[_RATE]
            near[server, family] = reaching(bands, reach_of(server, family))
    far = loads_beside_predictions(loads, "family")
    by_vendor = {}
    for vendor in sorted(filter(None, {*vendors.values()})):
        own_far = of_vendor(far, vendor)
        if len(own_far) < len(far):
            nearer = {place: bands for place, bands in near.items() if vendors[place[1]] == vendor}
            by_vendor[vendor] = strange_bands(own_far, nearer)
    return near, strange_bands(far, near, *by_vendor.values()), by_vendor


def strange_bands(
    far: Sequence[ServedScore], near: Mapping[tuple[str, str], Bands], *of_vendors: dict[str, Bands]
) -> dict[str, Bands]:
    """Return bands of generic engines: of loads whose family was left out, none below nearer."""
    strange: dict[str, Bands] = {}
    for name in (*FRAMEWORKS, GENERIC):
        nearer = [bands for (server, _), bands in near.items() if name in {server, GENERIC}]
        nearer += [bands[name] for bands in of_vendors]
        nearer += strange.values() if name == GENERIC else []
        strange[name] = wider_bands(reaching(served_bands_of(far, name, ""), reach_of()), nearer)
    return strange


def reaching(bands: ServedBands, reach: Reach) -> Bands:
    """Return bands that widen beyond what was measured, rounded as hardware files have them."""
    reached = (reach.batch_size, reach.context_len)
    ends = (None if end is None else float(_yaml(float(end))) for end in reached)
    written = partial(replace, **dict(zip(("batch_size", "context_len"), ends, strict=True)))
    return {
        figure: {key: written(band, width=float(_yaml(band.width))) for key, band in cells.items()}
        for figure, cells in bands.items()
    }


def write_engines(points: Sequence[Measurement]) -> None:
    """Write what the package reads of the stored fits, in the place of what is there.

    Left-out profiles, the engine blocks of the hardware files, and the generic engine.
    """
    left_out = left_out_text(left_out_content(load_measurements()))
    (PACKAGE / "catalog" / "left_out.json").write_text(left_out, encoding="utf-8")
    parameters = fitted_parameters()
    validated = validation(points)
    total, misses = validated.total, misses_of(validated.points)
    scale = width_scale(misses)
    error = ExpectedError(
        speedup_mean=float(total.speedup_mean_error or 0.0),
        speedup_median=float(total.speedup_median_error or 0.0),
        plain_median=float(total.decode_median_error or 0.0),
    )
    near, strange_served, by_vendor = all_served_bands()
    written: dict[tuple[str, ...], str] = {}
    # With those on chips of no fitted family.
    strange = misses_of(validation().generic, by_family=True)
    for chip in CHIPS:
        path = Path(__file__).parent.parent / "hardware" / f"{chip}.yaml"
        family = chip_family(load_hardware(chip))
        names = [name for name, families in SERVERS.items() if family in families]
        drafted = [name for name in names if family in FITTED_WITH_DRAFTS and name in ENGINES]
        engines = []
        for name in names:
            engine = served_engine(name, chip, parameters)
            if name in drafted:
                widths = bands_of(misses, name, scale=scale)
                engine = replace(engine, expected_error=error, bands=widths)
            else:  # as of a family that no fit has seen
                engine = replace(engine, bands=bands_of(strange, name))
            engines.append(
                replace(engine, served_bands=near[name, family], reach=reach_of(name, family))
            )
        has = load_hardware(chip).peak.flops_per_s
        engines = [
            replace(engine, compute_frac={key: engine.compute_frac[key] for key in has})
            for engine in engines
        ]
        sources = {name: source_sentence(points, name, chip) for name in names}
        if KERNEL_ENGINE in names:
            sources[KERNEL_ENGINE] = kernel_sentence(sources[KERNEL_ENGINE])
        text = path.read_text(encoding="utf-8")
        text = re.split(r"^(?:default_engine|engines):", text, flags=re.MULTILINE)[0]
        text = re.sub(r"  engines\.[\w-]+: >-\n(    .*\n)+", "", text)
        sentences = "".join(
            f"  engines.{name}: >-\n"
            + "\n".join(_wrapped(sentence, indent=4)).replace("\n      ", "\n    ")
            + "\n"
            for name, sentence in sources.items()
        )
        text = text.replace("\npeak:\n", f"\n{sentences}peak:\n", 1)
        default = next((name for name in ENGINES if measured_on(points, name, [chip])), None)
        block = [f"default_engine: {default}"] if default else []
        block.append("engines:")
        for engine in engines:
            lines = engine_lines(engine)
            owner = written.setdefault(tuple(lines), chip)
            block += lines if owner == chip else [f"  {engine.name}: {{same_as: {owner}}}"]
        path.write_text(text + "\n".join(block) + "\n", encoding="utf-8")
    bands = {name: bands_of(strange, name) for name in (GENERIC, *FRAMEWORKS)}
    made = generic(parameters, bands)
    measured = [engine for chip in CHIPS for engine in load_hardware(chip).engines.values()]
    generics = {
        name: replace(
            engine,
            bands=no_surer(engine, measured),
            served_bands=strange_served[name],
            reach=reach_of(),
        )
        for name, engine in made.engines.items()
    }
    content = written_generic(replace(made, engines=generics, vendor_bands=by_vendor))
    target = PACKAGE / "catalog" / "generic.json"
    target.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Fit, print and, where --write is given, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write the fits, and what is made of them"
    )
    parser.add_argument(
        "--engines", action="store_true", help="write what is made of the stored fits only"
    )
    parser.add_argument(
        "--factors", action="store_true", help="keep what all share; fit the factors anew"
    )
    arguments = parser.parse_args()
    points = [point for point in load_measurements() if (point.trust or 0) <= TRUSTED]
    if arguments.engines:
        write_engines(points)
        return
    fits = stored_fits() if arguments.factors else leave_one_out(points)
    fits = with_factors(fits, points)
    for parameter in PARAMETERS:
        value = fits[ALL][parameter.name]
        moved = parameter.coordinate(value)
        others = [fitted[parameter.name] for fitted in fits.values()]
        span = f"{min(others):.4g} to {max(others):.4g}"
        print(
            f"{parameter.name:28s} {value:10.4g}  {moved:+5.1f} sd  {span:22s} {parameter.meaning}"
        )
    if arguments.write:
        FITS.write_text(fits_text(fits), encoding="utf-8")
        stored_fits.cache_clear()  # of those that were there before
        write_engines(points)


if __name__ == "__main__":
    main()
