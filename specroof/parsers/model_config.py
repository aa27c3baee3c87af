"""One opened config, the input of every family parser, and a file read by the one of its family."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from importlib import import_module
from pathlib import PurePath
from typing import Final, NoReturn

from specroof.architecture.base import MIXES_BY_FILE
from specroof.architecture.model import Architecture
from specroof.errors import ConfigError, expect_word, reject
from specroof.parsers.decoder import ModelConfig
from specroof.parsers.formats import PLAIN_FORMATS, read_quantization
from specroof.parsers.traits import (
    COSTLESS_KEYS,
    COSTLESS_NAMES,
    OTHER_PARTS,
    PARSERS,
    READ_ELSEWHERE,
    traits_of,
)
from specroof.reading.json_text import (
    MAX_LAYERS,
    MAX_SIZE,
    AskedObject,
    Reader,
    StatedReader,
    printable,
    read_json,
    read_whole,
)
from specroof.units import format_binary_bytes

# --- Keys of configs that change no cost, and the note about keys that were not read -------------
# A config comes from strangers, and a key that this library does not know may change what the model
# costs. So each object remembers what it was asked for (`AskedObject` of `specroof.reading`), and
# what is left is named in a note, unless a table of `families.yaml` has it. A key that is null,
# false, zero or empty is switched off, and never named but for matrices of MLX.

#: Where false is no switch: it leaves a matrix unquantised (mlx-lm 0.32.2, ``class_predicate``).
_MLX_PREFIX: Final = "quantization."
#: What a note shows at most.
MAX_KEYS: Final = 6


def unread_keys(values: object, prefix: str = "") -> Iterator[str]:
    """Yield the unread keys of an object, and of objects in it, that may change a cost.

    Examples
    --------
    >>> values = AskedObject([("hidden_size", 64), ("n_streams", 4), ("rms_norm_eps", 1e-6)])
    >>> values.get("hidden_size"), list(unread_keys(values))
    (64, ['n_streams'])
    """
    if not isinstance(values, AskedObject):
        return
    for key, value in values.items():
        if key in values.asked:
            if key not in READ_ELSEWHERE:
                yield from unread_keys(value, f"{prefix}{key}.")
        elif (value or (value is False and prefix == _MLX_PREFIX)) and not (
            key in COSTLESS_KEYS or key in values.passed or COSTLESS_NAMES.fullmatch(key)
        ):
            yield f"{prefix}{key}"


#: Torch's names of dtypes, with and without its prefix.
DTYPES: Final = {
    f"{prefix}{name}": dtype
    for prefix in ("", "torch.")
    for name, dtype in (("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"))
}

_MTP_COUNT_KEYS: Final = (
    "num_mtp_modules",
    "mtp_num_hidden_layers",
    "num_nextn_predict_layers",
    "num_mtp_layers",
)
#: Notes about models that come with such layers.
MTP_NOTE: Final = "multi-token-prediction layer not counted among the model's weights"
DSPARK_NOTE: Final = "DSpark drafter not counted among the model's weights"

# What a checkpoint's name says about the storage of its weights.
_STORAGE_IN_NAME: Final = re.compile(
    r"(?<![a-z0-9])(?:fp8|fp4|nvfp4|mxfp4|mxfp8|int8|int4|awq|gptq)(?![a-z0-9])", re.IGNORECASE
)


def whole_of(file: Reader) -> Reader:
    """Return a file with its thinker at the top, if it has one: what answers in text.

    What stands beside the thinker holds for it, too, except whether its head is its embedding: see
    `Qwen2_5OmniThinkerForConditionalGeneration`.
    """
    thinker = file.section("thinker_config")
    if thinker is None:
        return file
    own = ("thinker_config", "tie_word_embeddings")
    beside = {key: value for key, value in file.values.items() if key not in own}
    return replace(thinker, values=AskedObject({**beside, **thinker.values}.items()))


def typed_section(root: Reader) -> Reader:
    """Return where a file says its `model_type`: in `text_config`, or at its top."""
    keys = root.section("text_config")
    return keys if keys is not None and keys.has("model_type") else root


def open_config(
    root: Reader, *, name: str | None, family: str | None, sidecar: Reader | None
) -> ModelConfig:
    """Return the opened config, with what is common to all families read.

    A nested file is read by the `model_type` of its `text_config`. A `family` given by the user
    stands in for a type that is unknown, or is missing.
    """
    keys = root.section("text_config") or root
    typed = typed_section(root)
    section = None if mlx_section(root, keys) else quantization_section(keys, root)
    dtype = activation_dtype(keys, root)
    name = name or config_name(root)
    notes = []
    is_foreign = False
    if family is not None:
        model_type = typed.text("model_type", default="(missing)")
        is_foreign = model_type.removesuffix("_text") != family.removesuffix("_text")
        if is_foreign:
            notes.append(f"read as family {family}: the config says model_type {model_type}")
    notes += [f"{part} left out" for key, part in OTHER_PARTS.items() if root.has(key)]
    if keys.has("dspark_block_size"):
        notes.append(DSPARK_NOTE)
    elif mtp_modules(keys, minimum=0, default=0):
        notes.append(MTP_NOTE)
    named = _STORAGE_IN_NAME.search(name)
    if named is not None and section is None and sidecar is None:
        missing = "neither a quantization_config nor a hf_quant_config.json came with it"
        notes.append(f"the name says {named[0]}, but {missing}: weights read as {dtype}")
    return ModelConfig(
        name=f"{name} (as {family})" if is_foreign else name,
        family=family or typed.text("model_type", allowed=PARSERS),
        keys=keys,
        root=root,
        quantization=read_quantization(section, sidecar, PLAIN_FORMATS[dtype]),
        activation_dtype=dtype,
        notes=tuple(notes),
        states_quantization=section is not None,
        is_foreign=is_foreign,
    )


def sidecar_notes(config: ModelConfig, model: Architecture, sidecar: Reader) -> list[str]:
    """Return what a reader must know where config and sidecar say different things.

    The two are compared by the models that they make, since they spell lists differently.
    """
    plain = PLAIN_FORMATS[config.activation_dtype]
    try:
        quantization = read_quantization(None, sidecar, plain)
        other = parse_family(replace(config, quantization=quantization, states_quantization=False))
    except ConfigError as refusal:
        return [f"quantization_config counts; the file beside it is not understood: {refusal}"]
    notes = []
    if (other.layers, other.head) != (model.layers, model.head):
        other_size = format_binary_bytes(other.weight_bytes)
        notes.append(
            "quantization_config and the hf_quant_config.json beside it differ: weights of "
            f"{format_binary_bytes(model.weight_bytes)} by the first, which counts, {other_size} "
            "by the second"
        )
    if quantization.kv_dtype not in {None, model.kv_dtype}:
        notes.append(
            f"quantization_config says a KV cache of {model.kv_dtype}, which counts, and the "
            f"hf_quant_config.json beside it {quantization.kv_dtype}"
        )
    return notes


def config_name(root: Reader) -> str:
    """Return the name that outputs use: the file ``ORG--NAME.json`` is ORG/NAME."""
    return PurePath(root.source).stem.replace("--", "/")


def quantization_section(keys: Reader, root: Reader) -> Reader | None:
    """Return what a file says about the storage of its matrices, at either level.

    Source
        vLLM 0.33.0 ``transformers_utils/model_arch_config_convertor.py:244``, of the second name.
    """
    names = ("quantization_config", "compression_config")
    found = (part.section(name) for name in names for part in (keys, root))
    return next((section for section in found if section is not None), None)


def mlx_section(*parts: Reader) -> Reader | None:
    """Return what a file of MLX says about the storage of its matrices, in these parts of it.

    Source
        mlx-lm 0.32.2, ``mlx_lm/utils.py`` (``load_model``, ``quantize_model``), which writes the
        same under both keys, and no `quant_method`.
    """
    keys = ("quantization", "quantization_config")
    told = [(part, key) for part in parts for key in keys if isinstance(part.value(key), dict)]
    for section in [part.section(key) for part, key in told]:  # each is read, for what is not
        if section is None or section.has("quant_method") or "quant_algo" in section.values:
            continue
        if section.has("bits") and section.has("group_size"):
            return section
    return None


def as_mlx(model: Architecture, section: Reader) -> Architecture:
    """Return a model with its weights as a file of MLX has them.

    Ignores
        matrices with a format of their own, such as routers: they stand in the note of keys that
        are not understood.
    """
    # Imported here: few models are files of MLX.
    mixes = import_module("specroof.architecture.mixes")
    mode, names = section.text("mode", default="affine"), MIXES_BY_FILE["mlx"]
    bits = section.positive_int("bits")
    mix = f"mlx-{bits}bit" if mode == "affine" else f"mlx-{mode}"
    if mix not in names:
        known = [name.removeprefix("mlx-").removesuffix("bit") for name in names]
        if mode != "affine":
            modes = (name for name in known if not name.isdigit())
            section.refuse("mode", f"affine, {', '.join(modes)}")
        section.refuse("bits", ", ".join(name for name in known if name.isdigit()))
    group = mixes.MLX_BLOCKS[mix][0]
    if section.positive_int("group_size") != group:
        section.refuse("group_size", f"{group}, with {mix}")
    note = f"weights as files of MLX have them ({mix}), which mlx-lm reads and servers do not"
    mixed: Architecture = mixes.mixed(model, mix)
    return replace(mixed, notes=(*mixed.notes, note))


def activation_dtype(keys: Reader, root: Reader) -> str:
    """Return the dtype between matrices, as the keys of the layers or the root say."""
    stated = keys if keys.has("dtype") or keys.has("torch_dtype") else root
    # Published files without the key (gpt-oss) are bfloat16.
    return DTYPES[stated.text("dtype", "torch_dtype", allowed=DTYPES, default="bfloat16")]


# --- A config read as a family that it does not name: nothing of that family is taken for
#     granted
# What a configuration class has as its default holds for its own family. Of a model of another type
# nobody knows whether it has the same head width, whether its head is its embedding, or whether its
# feed-forward has a gate; and a key that the family does not know may change what the model costs.
# So
# such a config states all sizes itself, or is refused.

_ACTIVATION_KEYS: Final = (
    "hidden_act",
    "hidden_activation",
    "mlp_hidden_act",
    "activation_function",
    "activation",
)


def parse_foreign(config: ModelConfig, unstated: dict[str, None] | None = None) -> Architecture:
    """Return the model of a config that is read as a family which it does not name.

    Parameters
    ----------
    config
        The opened config.
    unstated
        Where keys are listed that the config should state; None refuses a config without them.

    Raises
    ------
    ConfigError
        If the config leaves a size, its ties or its activation to defaults, or has a key that the
        family does not know.
    """
    keys = StatedReader(
        config.keys.source,
        config.keys.values,
        config.keys.prefix,
        family=config.family,
        unstated=unstated,
    )
    # The activation has to say whether feed-forwards have a gate.
    allowed = traits_of(keys.family).activations
    if any(keys.has(key) for key in _ACTIVATION_KEYS):
        keys.text(*_ACTIVATION_KEYS, allowed=allowed)
    else:
        keys.expect(_ACTIVATION_KEYS[0], allowed[0])
    model = parse_family(replace(config, keys=keys, is_foreign=False))
    unread = list(unread_keys(keys.values))
    if unread:
        shown = ", ".join(printable(key) for key in unread[:MAX_KEYS])
        reject(
            f"{keys.source}: family {config.family} does not know {shown}",
            "keys of that family: others may change what the model costs (take out what does not)",
            ConfigError,
        )
    # A config that states windows is of a model that has some; those of Qwen may be switched off.
    kinds = keys.values.get("layer_types")
    slides = isinstance(kinds, list) and "sliding_attention" in kinds
    window = keys.has("sliding_window") and keys.flag("use_sliding_window", default=True)
    if (slides or window) and not any(
        getattr(core, "window", None) for _, core in model.counted_cores
    ):
        keys.refuse(
            "layer_types" if slides else "sliding_window", f"none: {keys.family} attends fully"
        )
    return model


# --- A file, read by the parser of its family ----------------------------------------------------


def parse_family(config: ModelConfig) -> Architecture:
    """Return the model of an opened config, from the parser of its family.

    A family's file is imported when the first model needs it: a model is of one family, and a cold
    start is felt.
    """
    if config.is_foreign:
        return parse_foreign(config)
    traits = traits_of(config.family)
    keys, notes = config.keys, [traits.note] if traits.note else []
    keys.pass_over(traits.passed_over)
    refused = {*traits.refused}
    if config.root.values.get("model_type") in _SEEING_PROMPTS:
        keys.pass_over(f"{_BOTH_WAYS} num_image_tokens")
        refused.discard(_BOTH_WAYS)
        notes.append("its prompts see themselves both ways; decoding is that of the text model")
    if traits.drafts and not keys.has("num_nextn_predict_layers"):
        notes.append(MTP_NOTE)
    keys.expect_flags(" ".join(sorted(refused)), value=False)
    keys.expect_flags(" ".join(traits.required), value=True)
    file, function = traits.parser.split(":")
    module = import_module(f"specroof.parsers.{file}")
    parse: Callable[[ModelConfig], Architecture] = getattr(module, function)
    model = parse(replace(config, notes=(*config.notes, *notes)).of_row(traits))
    modules = mtp_modules(keys, minimum=0, default=1)
    positions = reached_positions(config.keys, is_scaled=traits.positions_scaled)
    leaves_drafts = config.quantization.leaves_drafts(model.n_layers)
    return replace(
        model,
        positions=positions,
        mtp_modules=max(modules, 1),
        mtp_weight=config.quantization.plain if leaves_drafts else None,
    )


def mtp_modules(keys: Reader, *, minimum: int, default: int | None) -> int:
    """Return the modules for multi-token prediction that a config states.

    Where several keys state some, as MiniMax-M3's do, the first of `_MTP_COUNT_KEYS` counts.

    Raises
    ------
    ConfigError
        For less than `minimum`; without a `default`, for a config that states none.

    Source
        vLLM 0.33.0 ``config/speculative.py``, `hf_config_override`.
    """
    stated = [key for key in _MTP_COUNT_KEYS if key in keys.values] or _MTP_COUNT_KEYS[:1]
    return keys.positive_int(*stated, maximum=MAX_LAYERS, minimum=minimum, default=default)


_BOTH_WAYS: Final = "use_bidirectional_attention"
#: Files whose class sets this key itself, for prompts alone: `PaliGemmaModel.forward`.
_SEEING_PROMPTS: Final = ("paligemma",)


#: Kinds of rotary scaling of which `max_position_embeddings` holds the scaled positions.
_STATED_SCALED: Final = ("llama3", "longrope", "su")


def reached_positions(keys: Reader, *, is_scaled: bool) -> int | None:
    """Return the tokens that a checkpoint's positions reach; None where it does not say.

    Rotary positions that are scaled reach their factor times as many, or what is stated where that
    is more: servers differ in which of the two they take. Of some kinds of scaling, and of a
    family that `is_scaled` holds for, what is stated is scaled already.

    Source
        vLLM 0.24.0 ``config/model.py:2160``, ``_get_and_verify_max_len``, which refuses more;
        0.33.0 does not multiply with ``yarn`` either. SGLang 0.5.23
        ``utils/hf_transformers/common.py:677``, ``get_context_length``.

    Examples
    --------
    >>> scaling = {"factor": 8.0, "original_max_position_embeddings": 8192}
    >>> keys = {"max_position_embeddings": 16384, "rope_scaling": scaling}
    >>> reached_positions(Reader("x.json", keys), is_scaled=False)
    65536
    >>> llama3 = {**keys, "rope_scaling": scaling | {"type": "llama3"}}
    >>> reached_positions(Reader("x.json", llama3), is_scaled=False)
    16384
    """
    stated = keys.value("max_position_embeddings")
    if type(stated) is not int or stated < 1:
        return None
    most = float(stated)
    for name in ("rope_scaling", "rope_parameters"):
        scaled = keys.value(name)
        if isinstance(scaled, dict) and not is_scaled:
            for one in (scaled, *(part for part in scaled.values() if isinstance(part, dict))):
                factor, first = one.get("factor"), one.get("original_max_position_embeddings")
                kind = one.get("rope_type", one.get("type"))
                if isinstance(factor, int | float) and kind not in _STATED_SCALED:
                    most = max(most, factor * (first if isinstance(first, int) else stated))
    return int(min(most, MAX_SIZE))


def parse_config(
    text: str,
    *,
    source: str,
    name: str | None = None,
    family: str | None = None,
    quantization_text: str | None = None,
) -> Architecture:
    """Return the model that a `config.json` describes.

    Parameters
    ----------
    text
        The whole file.
    source
        What messages call it; its stem is the model's name where no `name` is given.
    name
        What outputs call the model.
    family
        A `model_type` to read the config as, whatever it says itself. Where it says another one,
        it takes no default of the family: it states all sizes, its ties and its activation.
    quantization_text
        The `hf_quant_config.json` beside it.

    Raises
    ------
    ConfigError
        If the config cannot be read, is of no known family, lacks a key that determines cost, or
        has a value that describes no model.
    OptionError
        If `family` is unknown.

    Examples
    --------
    >>> sizes = '"hidden_size": 64, "intermediate_size": 128, "vocab_size": 1000'
    >>> shape = '"num_hidden_layers": 2, "num_attention_heads": 4'
    >>> text = '{"model_type": "llama", ' + sizes + ", " + shape + "}"
    >>> model = parse_config(text, source="tiny.json")
    >>> model.name, model.n_layers, model.layers[0].count
    ('tiny', 2, 2)
    """
    if family is not None:
        expect_word("family", family, sorted(PARSERS))
    sidecar = None
    if quantization_text is not None:
        sidecar = read_json(quantization_text, source=f"hf_quant_config.json of {source}")
    root = whole_of(read_json(text, source=source))

    def read() -> tuple[ModelConfig, Architecture]:
        typed = typed_section(root)
        if family is None and typed.text("model_type", default="") not in PARSERS:
            _refuse_unknown_type(typed, root)
        config = open_config(root, name=name, family=family, sidecar=sidecar)
        model, section = parse_family(config), mlx_section(root, config.keys)
        return config, model if section is None else as_mlx(model, section)

    config, model = read_whole(read)
    # Of a multimodal file those that stand beside its language model, too.
    inner = config.keys.values
    beside = (key for key in unread_keys(root.values) if key.partition(".")[0] not in inner)
    unread = [*unread_keys(inner), *beside]
    if "per_layer_config" in unread:
        config.keys.refuse("per_layer_config", "none: layers of this family are alike")
    if unread:
        shown = ", ".join(printable(key) for key in unread[:MAX_KEYS])
        more = f" and {len(unread) - MAX_KEYS} more" if len(unread) > MAX_KEYS else ""
        note = f"not understood, and may change what the model costs: {shown}{more}"
        model = replace(model, notes=(*model.notes, note))
    if sidecar is None or not config.states_quantization:
        return model
    notes = sidecar_notes(config, model, sidecar)
    return replace(model, notes=(*model.notes, *notes))


# --- An unknown `model_type`: which family its keys fit ------------------------------------------

#: Families that others are named after, so that they are preferred among equals.
_PLAIN: Final = ("deepseek_v3", "llama", "mistral", "mixtral", "qwen3_moe")
#: From how alike on two names are taken for relatives: qwen4_moe and qwen3_moe are at 0.89.
_ALIKE: Final = 0.6
#: Objects in objects that any parser reads; files of strangers may be nested deeper.
_DEPTH: Final = 4


def _refuse_unknown_type(typed: Reader, root: Reader) -> NoReturn:
    """Refuse a config of a `model_type` without a parser, and say which family its keys fit.

    Parameters
    ----------
    typed
        The part of the file that says its `model_type`.
    root
        The whole file.
    """
    fit = _fitting_family(root, typed.text("model_type", default=""))
    advice = "and none fits its keys"
    if fit is not None:
        family, unstated = fit
        missing = f" once it states {', '.join(unstated)}" if unstated else ""
        advice = f"or --family: its keys fit {family}{missing}, try --family {family}"
    typed.refuse("model_type", f"one of {len(PARSERS)} known types, {advice}")


def _fitting_family(root: Reader, stated: str) -> tuple[str, tuple[str, ...]] | None:
    """Return a family that reads all keys of a config, and what the config should state besides.

    First goes a family whose name is like the `stated` one, then plain ones, then what needs the
    fewest keys besides, then the one that has read more keys. None where none reads all keys.
    """
    ranks = {}
    for family in PARSERS:
        fresh = Reader(root.source, _unasked(root.values))
        unstated: dict[str, None] = {}
        try:
            config = open_config(fresh, name=None, family=family, sidecar=None)
            parse_foreign(config, unstated)
        except ConfigError:
            continue
        alike = SequenceMatcher(None, stated[:80], family).ratio()
        ranks[family] = (
            -alike if alike >= _ALIKE else 0.0,
            family not in _PLAIN,
            len(unstated),
            -len(config.keys.values.keys() & getattr(config.keys.values, "asked", ())),
            len(family),
            family,
            tuple(unstated),
        )
    if not ranks:
        return None
    family = min(ranks, key=lambda family: ranks[family])
    return family, ranks[family][-1]


def _unasked(values: Mapping[str, object], depth: int = _DEPTH) -> AskedObject:
    """Return a copy without read marks; how weights are stored fits no family."""
    return AskedObject(
        (key, _unasked(value, depth - 1) if depth and isinstance(value, dict) else value)
        for key, value in values.items()
        if key != "quantization_config"
    )
