"""Which models are known, what are their sizes, and in what do two models differ?"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from specroof.architecture import Architecture, Core, Linear, WeightFormat
from specroof.catalog import model_names
from specroof.cost import kv_bytes_per_token, state_bytes
from specroof.errors import ConfigError, expect_word
from specroof.parsers import PARSERS
from specroof.questions.answer import Noted
from specroof.questions.request import SHARED, Command, ModelLike, model_of, question
from specroof.report.layout import format_table
from specroof.units import format_binary_bytes, format_count

_GROUPS: Final = ("sizes", "formats", "cache", "layers")

#: A number, or words.
Fact: TypeAlias = float | str | bool | None
Facts: TypeAlias = dict[tuple[str, str], Fact]


@dataclass(frozen=True)
class ModelsRequest:
    """Ask which models are bundled."""


@dataclass(frozen=True)
class ModelRequest:
    """Ask for the sizes of a model."""

    model: Annotated[ModelLike, SHARED["model"]]
    _: KW_ONLY
    family: Annotated[str | None, replace(SHARED["family"], panel=None)] = None


@dataclass(frozen=True)
class DiffRequest:
    """Ask in what two models differ."""

    first: Annotated[ModelLike, SHARED["model"]]
    second: Annotated[ModelLike, SHARED["model"]]
    _: KW_ONLY
    family: Annotated[str | None, replace(SHARED["family"], panel=None)] = None


@dataclass(frozen=True, repr=False)
class ModelFacts(Noted):
    """The sizes of a model.

    Attributes
    ----------
    name
        What it was asked for as.
    model
        The model.
    notes, warnings
        Sentences for the reader: what the model's config left open or left out.
    """

    name: str
    model: Architecture

    @property
    def title(self) -> str:
        """The name that was given."""
        return self.name

    def text(self) -> str:
        """Return the model's sizes, line by line."""
        return model_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return model_row(self.name, self.model)


@dataclass(frozen=True, repr=False)
class ModelDiff(Noted):
    """In what two models differ.

    Attributes
    ----------
    models
        The two.
    differences
        From `model_diff`.
    notes, warnings
        Sentences for the reader, "a: " or "b: " first.
    """

    models: tuple[Architecture, Architecture]
    differences: list[dict[str, Any]]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        first, second = self.models
        return f"{first.name} and {second.name}: {len(self.differences)} differences"

    def text(self) -> str:
        """Return the differences as a table, and the notes on each model."""
        return diff_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            "models": [model.name for model in self.models],
            "differences": self.differences,
            "notes": [list(model.notes) for model in self.models],
        }


@question(ModelsRequest)
def list_models(_request: ModelsRequest) -> list[ModelFacts]:
    """List the bundled models: parameters, active parameters, KV bytes per token, layers."""
    return [show_model(name) for name in model_names()]


@question(ModelRequest)
def show_model(request: ModelRequest) -> ModelFacts:
    """Show one model, bundled or not: its sizes, its layers, its formats, its cache."""
    model = model_of(request.model, request.family)
    name = model.name if isinstance(request.model, Architecture) else os.fspath(request.model)
    return ModelFacts(name, model, notes=model.notes)


def _model_by_its_type(model: ModelLike, family: str | None) -> Architecture:
    """Return a model by its own type where that is known, else as `family`."""
    if family is None or isinstance(model, Architecture):
        return model_of(model, family)
    expect_word("family", family, sorted(PARSERS))
    try:
        return model_of(model)
    except ConfigError:
        return model_of(model, family)


@question(DiffRequest)
def diff_models(request: DiffRequest) -> ModelDiff:
    """Show in what two models differ: sizes, formats, cache, layers."""
    first, second = (
        _model_by_its_type(model, request.family) for model in (request.first, request.second)
    )
    notes = [
        f"on {letter}: {note}"
        for letter, model in zip("ab", (first, second), strict=True)
        for note in model.notes
    ]
    return ModelDiff((first, second), model_diff(first, second), notes=tuple(notes))


def model_row(name: str, model: Architecture) -> dict[str, Any]:
    """Return a model's row in lists.

    Parameters
    ----------
    name
        What it was asked for as.
    model
        The model.

    Examples
    --------
    >>> from specroof.architecture import Layer
    >>> up = Linear("up_proj", 8, 32)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer((), 3),), Linear("lm_head", 8, 100))
    >>> row = model_row("tiny", tiny)
    >>> row["params"], row["layers"], row["weight_formats"]  # 800 + 800 elements, of 2 bytes
    (1600, 3, {'bf16': 800})
    """
    return {
        "name": name,
        "family": model.family,
        "params": model.n_params,
        "active_params": model.n_active_params,
        "weight_bytes": model.weight_bytes,
        "weight_formats": weight_formats(model),
        "tensor_bytes": tensor_bytes(model),
        "activation_dtype": model.activation_dtype,
        "kv_dtype": model.kv_dtype,
        "kv_bytes_per_token": kv_bytes_per_token(model),
        "state_dtype": model.state_dtype,
        "state_bytes": state_bytes(model),
        "layers": model.n_layers,
        "layer_kinds": model.layer_kinds,
        "notes": list(model.notes),
    }


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
    counts: dict[str, int] = {}
    for count, _, part in _parts(model):
        stored = _stored(part)
        if stored is not None:
            name, elements = stored
            counts[name] = counts.get(name, 0) + count * elements
    return counts


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
        elements = part.matrix_params if isinstance(part, Linear) else _expert_elements(part)
        kind = label if isinstance(part, Linear) else f"{label}.experts"
        of_kind = amounts.setdefault(kind, {})
        stored = count * elements * form.element_bytes
        of_kind[form.name] = of_kind.get(form.name, 0.0) + stored
    matrices = sum(stored for of_kind in amounts.values() for stored in of_kind.values())
    amounts["vectors"] = {model.vector_dtype: model.weight_bytes - matrices}
    return amounts


def _parts(model: Architecture) -> Iterator[tuple[int, str, Linear | Core]]:
    """Yield every matrix and core with its count and label, the head last."""
    for layer in model.layers:
        for block in layer.blocks:
            for linear in block.linears:
                yield layer.count, f"{block.label}.{linear.name}", linear
            if block.core is not None:
                yield layer.count, block.label, block.core
    yield 1, model.head.name, model.head


def _stored(part: Linear | Core) -> tuple[str, int] | None:
    """Return format and elements of a matrix or of experts; None for what stores no matrix."""
    form = getattr(part, "weight", None)
    if form is None:
        return None
    count = part.matrix_params if isinstance(part, Linear) else _expert_elements(part)
    return _format_name(form), count


def _expert_elements(core: Any) -> int:
    return int((core.n_experts + core.n_shared) * core.matrix_params)


def _format_name(form: WeightFormat) -> str:
    # Of the formats whose name is their arithmetic's (fp8, fp8-block, mxfp8; nvfp4, mxfp4).
    usual = form.compute_dtype in form.name
    return form.name if usual else f"{form.name} x {form.compute_dtype}"


def model_diff(first: Architecture, second: Architecture) -> list[dict[str, Any]]:
    """Return the facts in which two models differ: a group, a name, and both values.

    Groups are ``"sizes"``, ``"formats"``, ``"cache"`` and ``"layers"``. None stands where one of
    the two has no such part. Notes are not compared.

    Parameters
    ----------
    first, second
        The models.

    Examples
    --------
    >>> from dataclasses import replace
    >>> tiny = Architecture("tiny", "llama", 8, 100, (), Linear("lm_head", 8, 100))
    >>> model_diff(tiny, tiny)
    []
    >>> model_diff(tiny, replace(tiny, kv_dtype="fp8"))
    [{'group': 'cache', 'name': 'kv_dtype', 'values': ['bf16', 'fp8']}]
    """
    facts = [_facts(first), _facts(second)]
    keys = dict.fromkeys(key for of_model in facts for key in of_model)
    return [
        {"group": group, "name": name, "values": values}
        for group, name in sorted(keys, key=lambda key: _GROUPS.index(key[0]))
        if (values := [of_model.get((group, name)) for of_model in facts])[0] != values[1]
    ]


def _facts(model: Architecture) -> Facts:
    """Return all that determines what a model costs, by group and name."""
    row = model_row(model.name, model)
    sizes = {
        "family": model.family,
        "params": row["params"],
        "active_params": row["active_params"],
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "tied_embeddings": model.tied_embeddings,
    }
    formats = {
        "weight_bytes": row["weight_bytes"],
        **{f"params in {name}": count for name, count in row["weight_formats"].items()},
        "activation_dtype": model.activation_dtype,
    }
    cache = {
        name: row[name] for name in ("kv_dtype", "kv_bytes_per_token", "state_dtype", "state_bytes")
    }
    layers = {"layers": model.n_layers, **row["layer_kinds"], **_described_parts(model)}
    return {
        (group, name): value
        for group, facts in zip(_GROUPS, (sizes, formats, cache, layers), strict=True)
        for name, value in facts.items()
    }


def _described_parts(model: Architecture) -> dict[str, str]:
    """Return every matrix and core by label: how many layers have it in which shape and format."""
    counts: dict[str, dict[str, int]] = {}
    for count, label, part in _parts(model):
        described = [(label, _shape(part))] if isinstance(part, Linear) else _settings(label, part)
        for name, value in described:
            per_value = counts.setdefault(name, {})
            per_value[value] = per_value.get(value, 0) + count
    return {
        name: ", ".join(f"{count} x {value}" for value, count in sorted(per_value.items()))
        for name, per_value in counts.items()
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


# --- Sizes of models as text: a list, a page, and what two models differ in ----------------------


def models_table(models: Sequence[ModelFacts]) -> str:
    """Return the list of models."""
    rows = [model.to_dict() for model in models]
    header = ["model", "params", "active", "weights", "KV/token", "layers"]
    cells = [
        [
            row["name"],
            format_count(row["params"]),
            format_count(row["active_params"]),
            format_binary_bytes(row["weight_bytes"]),
            format_binary_bytes(row["kv_bytes_per_token"]),
            _kinds(row["layer_kinds"]),
        ]
        for row in rows
    ]
    return format_table(header, cells, left=(0, 5))


def _kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in kinds.items())


def model_text(model: ModelFacts) -> str:
    """Return one model's sizes, line by line."""
    row = model.to_dict()
    lines = {
        "family": row["family"],
        "parameters": f"{row['params']:,} ({format_count(row['params'])})",
        "active": f"{row['active_params']:,} ({format_count(row['active_params'])})",
        "weights": f"{format_binary_bytes(row['weight_bytes'])}: {_formats(row)}",
        **{
            f"  {kind}": ", ".join(
                f"{format_binary_bytes(stored)} in {name}" for name, stored in amounts.items()
            )
            for kind, amounts in row["tensor_bytes"].items()
        },
        "KV per token": _bytes_in(row, "kv_bytes_per_token", "kv_dtype"),
        "fixed state": f"{_bytes_in(row, 'state_bytes', 'state_dtype')} per sequence",
        "layers": f"{row['layers']}: {_kinds(row['layer_kinds'])}",
    }
    facts = format_table([row["name"], ""], lines.items(), left=(0, 1))
    return "\n".join([facts, *(f"note: {note}" for note in model.notes)])


def _formats(row: Mapping[str, Any]) -> str:
    """Return the formats of the matrices, the one of the most elements first, and what is none.

    A head that is the embedding, too, is among the matrices.
    """
    counts = sorted(row["weight_formats"].items(), key=lambda item: -item[1])
    others = row["params"] - sum(row["weight_formats"].values())
    return ", ".join(
        [
            *(f"{format_count(count)} in {name}" for name, count in counts),
            f"{format_count(others)} of tables, norms and biases",
        ]
    )


def _bytes_in(row: Mapping[str, Any], amount: str, dtype: str) -> str:
    held = format_binary_bytes(row[amount])
    return f"{held} in {row[dtype]}" if row[amount] else held


def diff_text(diff: ModelDiff) -> str:
    """Return the differences of two models, and the notes on each."""
    names = [model.name for model in diff.models]
    table = diff_table(names, diff.differences)
    return "\n".join([table, *(f"note {note}" for note in diff.notes)])


def diff_table(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the result of `model_diff` as a table for people.

    Parameters
    ----------
    names
        What to call the two models.
    rows
        From `model_diff`.

    Examples
    --------
    >>> row = {"group": "formats", "name": "weight_bytes", "values": [2048.0, 1024.0]}
    >>> print(diff_table(["Model", "Model-FP8"], [row]))
    a: Model
    b: Model-FP8
    <BLANKLINE>
                           a         b         b / a
    formats  weight_bytes  2.00 KiB  1.00 KiB  0.500
    """
    title = "\n".join(f"{letter}: {name}" for letter, name in zip("ab", names, strict=True))
    if not rows:
        return f"{title}\n\nno difference in what determines cost"
    cells = [[row["group"], row["name"], *_value_cells(row["name"], row["values"])] for row in rows]
    table = format_table(["", "", "a", "b", "b / a"], cells, left=(0, 1, 2, 3))
    return f"{title}\n\n{table}"


def _value_cells(name: str, values: Sequence[Fact]) -> list[str]:
    """Return both values as text, and their ratio where they are numbers."""
    texts = [_text(name, value) for value in values]
    first, second = values
    if not (_is_number(first) and _is_number(second)) or not first:
        return [*texts, ""]
    return [*texts, f"{float(second or 0) / float(first):.3f}"]


def _is_number(value: Fact) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(name: str, value: Fact) -> str:
    if value is None:
        return "-"
    if not _is_number(value):
        return str(value)
    return format_binary_bytes(float(value)) if "bytes" in name else f"{value:,}"


COMMAND: Final = Command(
    question=list_models,
    text=models_table,
    json=lambda models: [model.to_dict() for model in models],
    csv=False,
    commands={
        "show": Command(question=show_model, csv=False),
        "diff": Command(
            question=diff_models,
            csv=False,
            example="specroof models diff Qwen/Qwen3-30B-A3B path/to/Qwen3-30B-A3B-FP8/config.json",
        ),
    },
)
