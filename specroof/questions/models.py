"""Which models are known, what are their sizes, and in what do two models differ?"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from typing import Any, Final, TypeAlias, TypeGuard

from specroof import quantities as q
from specroof.architecture.base import Core, Linear, WeightFormat
from specroof.architecture.model import Architecture
from specroof.arrays import fields_of
from specroof.catalog import model_names
from specroof.cost import kv_bytes_per_token, state_bytes, window_bytes
from specroof.errors import ConfigError, expect_word
from specroof.parsers import PARSERS
from specroof.questions import parameters as p
from specroof.questions.answer import Noted, rows_table
from specroof.questions.objects import ModelLike, model_of, name_of
from specroof.questions.request import Command, question
from specroof.report.layout import closing, format_table
from specroof.units import format_binary_bytes, format_count

#: A number, or words.
Fact: TypeAlias = float | str | bool | None


@dataclass(frozen=True)
class ModelsRequest:
    """Ask which models are bundled."""


@dataclass(frozen=True)
class ModelRequest:
    """Ask for the sizes of a model."""

    model: p.Model
    _: KW_ONLY
    family: p.Family = None


@dataclass(frozen=True)
class DiffRequest:
    """Ask in what two models differ."""

    first: p.Model
    second: p.Model
    _: KW_ONLY
    family: p.Family = None


@dataclass(frozen=True, kw_only=True)
class ModelRow(q.Row):
    """The sizes of a model; `name` is what it was asked for as, and `notes` is of its config.

    `weight_formats` and `tensor_bytes` are those of `weight_formats` and `tensor_bytes`.
    """

    name: str
    family: str
    params: int
    active_params: int
    weight_bytes: float
    weight_formats: Mapping[str, int]
    tensor_bytes: Mapping[str, Mapping[str, float]]
    activation_dtype: str
    kv_dtype: str
    kv_bytes_per_token: float
    window_bytes: float
    state_dtype: str
    state_bytes: float
    layers: int
    layer_kinds: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Models(Noted):
    """The sizes of models.

    Attributes
    ----------
    rows
        A model each.
    notes, warnings
        Sentences for the reader: what the config of one model left open or left out.
    """

    rows: tuple[ModelRow, ...]

    @property
    def title(self) -> str:
        """The name that was given, or how many models there are."""
        return self.rows[0].name if len(self.rows) == 1 else f"{len(self.rows)} models"

    def text(self) -> str:
        """Return the models as a table; the sizes of one line by line."""
        if len(self.rows) != 1:
            return rows_table(self.rows, _LISTED, name="model")
        (row,) = self.rows
        windows = f"{_bytes_in(row.window_bytes, row.kv_dtype)} per sequence"
        # Neither tables, of which a tied head is one, nor vectors are matrices.
        others = row.params - sum(row.weight_formats.values())
        formats = q.WEIGHT_FORMATS.spelt(row.weight_formats)
        lines = {
            "family": row.family,
            "parameters": f"{row.params:,} ({format_count(row.params)})",
            "active": f"{row.active_params:,} ({format_count(row.active_params)})",
            "weights": f"{format_binary_bytes(row.weight_bytes)}: {formats}, "
            f"{format_count(others)} of tables, norms and biases",
            **{f"  {kind}": q.stored_spelt(amounts) for kind, amounts in row.tensor_bytes.items()},
            "KV per token": _bytes_in(row.kv_bytes_per_token, row.kv_dtype),
            **({"full windows": windows} if row.window_bytes else {}),
            "fixed state": f"{_bytes_in(row.state_bytes, row.state_dtype)} per sequence",
            "layers": f"{row.layers}: {q.LAYER_KINDS.spelt(row.layer_kinds)}",
        }
        table = format_table([row.name, ""], lines.items(), left=(0, 1))
        return "\n".join(filter(None, [table, closing(self.notes, self.warnings)]))


_LISTED: Final = (
    *("name", "params", "active_params", "weight_bytes"),
    *("kv_bytes_per_token", "window_bytes", "state_bytes", "layer_kinds"),
)


@dataclass(frozen=True, kw_only=True)
class DifferenceRow(q.Row):
    """A fact in which two models differ; None where one of them has no such part.

    Groups are ``"sizes"``, ``"formats"``, ``"cache"`` and ``"layers"``; `ratio` is of numbers.
    """

    group: str
    name: str
    first: Fact
    second: Fact
    ratio: float | None


@dataclass(frozen=True, repr=False)
class ModelDiff(Noted):
    """In what two models differ.

    Attributes
    ----------
    models
        The two.
    rows
        From `model_diff`.
    notes, warnings
        Sentences for the reader, "on a: " or "on b: " first.
    """

    models: tuple[Architecture, Architecture]
    rows: tuple[DifferenceRow, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        first, second = self.models
        return f"{first.name} and {second.name}: {len(self.rows)} differences"

    def text(self) -> str:
        """Return the differences as a table, and the notes on each model."""
        lines = [f"{letter}: {model.name}" for letter, model in zip("ab", self.models, strict=True)]
        cells = [
            [
                *(row.group, row.name, _text(row.name, row.first), _text(row.name, row.second)),
                "" if row.ratio is None else q.RATIO.spelt(row.ratio),
            ]
            for row in self.rows
        ]
        table = format_table(["", "", "a", "b", "b / a"], cells, left=(0, 1, 2, 3))
        lines.append("\n" + (table if cells else "no difference in what determines cost"))
        return "\n".join(filter(None, [*lines, closing(self.notes, self.warnings)]))

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope({"models": [model.name for model in self.models]})


@question(ModelsRequest, "models")
def list_models(_request: ModelsRequest) -> Models:
    """List the bundled models: parameters, active parameters, KV bytes per token, layers."""
    return Models(tuple(model_row(name, model_of(name)) for name in model_names()))


@question(ModelRequest, "models-show")
def show_model(request: ModelRequest) -> Models:
    """Show one model, bundled or not: its sizes, its layers, its formats, its cache."""
    model = model_of(request.model, request.family)
    return Models((model_row(name_of(request.model), model),), notes=model.notes)


def _model_by_its_type(model: ModelLike, family: str | None) -> Architecture:
    """Return a model by its own type where that is known, else as `family`."""
    if family is None or isinstance(model, Architecture):
        return model_of(model, family)
    expect_word("family", family, sorted(PARSERS))
    try:
        return model_of(model)
    except ConfigError:
        return model_of(model, family)


@question(DiffRequest, "models-diff")
def diff_models(request: DiffRequest) -> ModelDiff:
    """Show in what two models differ: sizes, formats, cache, layers."""
    first, second = (
        _model_by_its_type(one, request.family) for one in (request.first, request.second)
    )
    notes = [f"on a: {note}" for note in first.notes] + [f"on b: {note}" for note in second.notes]
    return ModelDiff((first, second), tuple(model_diff(first, second)), notes=tuple(notes))


def model_row(name: str, model: Architecture) -> ModelRow:
    """Return the sizes of a model, under the name that it was asked for as.

    Examples
    --------
    >>> from specroof.architecture.model import Layer
    >>> up = Linear("up_proj", 8, 32)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer((), 3),), Linear("lm_head", 8, 100))
    >>> row = model_row("tiny", tiny)
    >>> row.params, row.layers, row.weight_formats  # 800 + 800 elements, of 2 bytes
    (1600, 3, {'bf16': 800})
    """
    return ModelRow(
        name=name,
        params=model.n_params,
        active_params=model.n_active_params,
        weight_formats=weight_formats(model),
        tensor_bytes=tensor_bytes(model),
        kv_bytes_per_token=kv_bytes_per_token(model),
        window_bytes=window_bytes(model),
        state_bytes=state_bytes(model),
        layers=model.n_layers,
        **fields_of(model, "family", "weight_bytes", "activation_dtype", "kv_dtype", "state_dtype"),
        **fields_of(model, "layer_kinds", "notes"),
    )


def weight_formats(model: Architecture) -> dict[str, int]:
    """Return the number of matrix elements in each format, the head's among them.

    A format whose arithmetic has another width is named with it, such as ``"int4 x bf16"``.

    Counts
        every matrix, experts included; not the embedding, norms and biases.
    Source
        Counting.

    Examples
    --------
    >>> head = Linear("lm_head", 8, 100, weight=WeightFormat("int4", 0.5, "bf16"))
    >>> weight_formats(Architecture("tiny", "llama", 8, 100, (), head))
    {'int4 x bf16': 800}
    """
    counts = Counter[str]()
    for count, _, part in _parts(model):
        if (form := getattr(part, "weight", None)) is not None:
            counts[_format_name(form)] += count * _elements(part)
    return dict(counts)


def tensor_bytes(model: Architecture) -> dict[str, dict[str, float]]:
    """Return the bytes of each kind of tensor by their format, over all layers.

    A kind is a matrix of a kind of layer, the embedding with other tables, or ``"vectors"``: norms,
    biases and convolutions. They add up to the bytes of the weights.

    Source
        Counting.

    Examples
    --------
    >>> head = Linear("lm_head", 8, 100, weight=WeightFormat("int4", 0.5, "bf16"))
    >>> tensor_bytes(Architecture("tiny", "llama", 8, 100, (), head, vector_params=8))
    {'embedding': {'bf16': 1600.0}, 'lm_head': {'int4': 400.0}, 'vectors': {'bf16': 16.0}}
    """
    table = model.activation_dtype if model.embedding is None else model.embedding.name
    amounts: dict[str, dict[str, float]] = {"embedding": {table: model.table_bytes}}
    for count, label, part in _parts(model):
        form = getattr(part, "weight", None)
        if form is None or (part is model.head and model.tied_embeddings):
            continue
        kind = label if isinstance(part, Linear) else f"{label}.experts"
        of_kind = amounts.setdefault(kind, {})
        stored = count * _elements(part) * form.element_bytes
        of_kind[form.name] = of_kind.get(form.name, 0.0) + stored
    matrices = sum(stored for of_kind in amounts.values() for stored in of_kind.values())
    amounts["vectors"] = {model.vector_dtype: model.weight_bytes - matrices}
    return amounts


def _parts(model: Architecture) -> Iterator[tuple[int, str, Linear | Core]]:
    """Yield every matrix and core with its count and label, the head last."""
    for count, block in model.stored_blocks:
        for linear in block.matrices:
            yield count, f"{block.label}.{linear.name}", linear
        if block.core is not None:
            yield count, block.label, block.core
    yield 1, model.head.name, model.head


def _elements(part: Any) -> int:
    """Return the elements that a matrix stores, or a core of experts."""
    count = 1 if isinstance(part, Linear) else part.n_experts + part.n_shared
    return int(count * part.matrix_params)


def _format_name(form: WeightFormat) -> str:
    # Of the formats whose name is their arithmetic's (fp8, fp8-block, mxfp8; nvfp4, mxfp4).
    usual = form.compute_dtype in form.name
    return form.name if usual else f"{form.name} x {form.compute_dtype}"


def model_diff(first: Architecture, second: Architecture) -> Iterator[DifferenceRow]:
    """Yield the facts in which two models differ; notes are not compared.

    Examples
    --------
    >>> from dataclasses import replace
    >>> tiny = Architecture("tiny", "llama", 8, 100, (), Linear("lm_head", 8, 100))
    >>> (row,) = model_diff(tiny, replace(tiny, kv_dtype="fp8"))
    >>> row.group, row.name, row.first, row.second
    ('cache', 'kv_dtype', 'bf16', 'fp8')
    """
    facts = _facts(first), _facts(second)
    for group, own in facts[0].items():
        for name in own | facts[1][group]:
            one, other = (of_model[group].get(name) for of_model in facts)
            if one != other:
                ratio = other / one if _is_number(one) and _is_number(other) and one else None
                yield DifferenceRow(group=group, name=name, first=one, second=other, ratio=ratio)


def _facts(model: Architecture) -> dict[str, dict[str, Fact]]:
    """Return all that determines what a model costs, by group and name."""
    row = model_row(model.name, model)
    counts = defaultdict[str, Counter[str]](Counter)
    for count, label, part in _parts(model):
        described = [(label, _shape(part))] if isinstance(part, Linear) else _settings(label, part)
        for name, value in described:
            counts[name][value] += count
    return {
        "sizes": {
            **fields_of(row, "family", "params", "active_params"),
            **fields_of(model, "hidden_size", "vocab_size", "tied_embeddings"),
        },
        "formats": {
            "weight_bytes": row.weight_bytes,
            **{f"params in {name}": count for name, count in row.weight_formats.items()},
            "activation_dtype": model.activation_dtype,
        },
        "cache": {
            **fields_of(row, "kv_dtype", "kv_bytes_per_token", "window_bytes"),
            **fields_of(row, "state_dtype", "state_bytes"),
        },
        "layers": {
            "layers": model.n_layers,
            **row.layer_kinds,
            **{
                name: ", ".join(f"{count} x {value}" for value, count in sorted(per_value.items()))
                for name, per_value in counts.items()
            },
        },
    }


def _shape(linear: Linear) -> str:
    blocks = f" in {linear.groups} blocks" if linear.groups > 1 else ""
    bias = " and bias" if linear.bias else ""
    shape = f"[{linear.in_features}, {linear.out_features}]"
    return f"{shape}{blocks}{bias} {_format_name(linear.weight)}"


def _settings(label: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a core; fields of inner parts get longer names."""
    for field in fields(value):
        name, setting = f"{label}.{field.name}", getattr(value, field.name)
        if isinstance(setting, WeightFormat):
            yield name, _format_name(setting)
        elif is_dataclass(setting):
            yield from _settings(name, setting)
        elif setting is not None:
            yield name, str(setting)


# --- What two models differ in, as text -----------------------------------------------------------


def _bytes_in(amount: float, dtype: str) -> str:
    held = format_binary_bytes(amount)
    return f"{held} in {dtype}" if amount else held


def _is_number(value: Fact) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(name: str, value: Fact) -> str:
    if value is None:
        return "-"
    if not _is_number(value):
        return str(value)
    return format_binary_bytes(float(value)) if "bytes" in name else f"{value:,}"


COMMAND: Final = Command(
    question=list_models,
    commands={
        "show": Command(question=show_model),
        "diff": Command(
            question=diff_models,
            example="specroof models diff Qwen/Qwen3-30B-A3B path/to/Qwen3-30B-A3B-FP8/config.json",
        ),
    },
)
