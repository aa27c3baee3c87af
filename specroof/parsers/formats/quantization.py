"""Which matrices of a checkpoint are quantised: `quantization_config`, or the sidecar beside it.

Source
    The quantisation readers of transformers 5 (`quantizers/`) and vLLM
    (`model_executor/layers/quantization/`), and published checkpoints of each form.
"""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from specroof.architecture import WEIGHT_FORMATS, WeightFormat
from specroof.parsers.formats.module_names import ModuleNames
from specroof.parsers.formats.tool_formats import (
    auto_round_format,
    bitsandbytes_format,
    quark_format,
    quark_kv_dtype,
    torchao_format,
)
from specroof.parsers.formats.weight_formats import (
    block_format,
    compressed_format,
    modelopt_format,
    packed_format,
)
from specroof.reading.json_object import Reader

_NONE: Final = ModuleNames(())


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A format and the matrices that have it.

    Parameters
    ----------
    form
        How they are stored.
    targets
        Modules it covers; None covers every matrix inside a layer.
    ignored
        Modules it leaves alone.
    """

    form: WeightFormat
    targets: ModuleNames | None = None
    ignored: ModuleNames = _NONE

    def covers(self, layer: int | None, *names: str) -> bool:
        """Whether the rule holds for a matrix, given all names that it goes by."""
        if self.targets is None:
            targeted = layer is not None
        else:
            targeted = any(self.targets.match(layer, name) for name in names)
        return targeted and not any(self.ignored.match(layer, name) for name in names)


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """What a checkpoint says about the storage of its matrices and of its KV cache.

    Parameters
    ----------
    plain
        The format of whatever no rule covers.
    rules
        The first that covers a matrix counts.
    kv_dtype
        Of cached keys and values; None leaves it to the activations.
    """

    plain: WeightFormat
    rules: tuple[Rule, ...] = ()
    kv_dtype: str | None = None

    def weight_format(self, layer: int | None, *names: str) -> WeightFormat:
        """Return the format of a matrix inside `layer`, or outside of layers (None).

        The output head counts as outside: engines quantise it only where a list names it.
        """
        for rule in self.rules:
            if rule.covers(layer, *names):
                return rule.form
        return self.plain

    def layer_key(self, layer: int) -> Hashable:
        """Return a value that two layers share only if they are quantised alike."""
        return tuple(
            names.layer_key(layer)
            for rule in self.rules
            for names in (rule.targets, rule.ignored)
            if names is not None
        )


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """The formats inside one layer: call it with the name(s) of a matrix.

    Parameters
    ----------
    quantization
        Of the whole checkpoint.
    layer
        Index of the layer.
    """

    quantization: Quantization
    layer: int

    def __call__(self, *names: str) -> WeightFormat:
        """Return the format of a matrix that goes by `names`."""
        return self.quantization.weight_format(self.layer, *names)

    @property
    def plain(self) -> WeightFormat:
        """The format of what is never quantised, such as a router."""
        return self.quantization.plain


def read_quantization(
    config: Reader | None, sidecar: Reader | None, plain: WeightFormat
) -> Quantization:
    """Return what `quantization_config` says, or else the `hf_quant_config.json` beside it.

    Where both are there, the config counts, as in vLLM; the sidecar then adds the dtype of the KV
    cache, which some builds state in one of the two only.
    """
    if sidecar is not None:
        sidecar = sidecar.section("quantization") or sidecar
    section = config or sidecar
    if section is None:
        return Quantization(plain)
    kv_dtypes = [_kv_dtype(part) for part in (config, sidecar) if part is not None]
    return Quantization(
        plain,
        _listed_rules(section, plain) + _METHODS[_method(section)](section, plain),
        next((dtype for dtype in kv_dtypes if dtype), None),
    )


def _method(section: Reader) -> str:
    # ModelOpt's own files, and some configs made from them, name the algorithm only.
    if not section.has("quant_method") and "quant_algo" in section.values:
        return "modelopt"
    return section.text("quant_method", allowed=_METHODS)


def _names(section: Reader, *keys: str) -> ModuleNames:
    """Return the module list under the first of `keys` that is present."""
    key = next((key for key in keys if section.has(key)), keys[0])
    return _compiled(section, key, section.texts(key))


def _compiled(section: Reader, key: str, entries: tuple[str, ...]) -> ModuleNames:
    try:
        return ModuleNames(entries)
    except (re.error, OverflowError, RecursionError):
        section.refuse(key, "module names, globs, and re: expressions")


def _listed_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    """Return the rules of ``quantized_layers``: each module with its own algorithm."""
    modules: dict[WeightFormat, list[str]] = {}
    for name, module in section.sections("quantized_layers").items():
        modules.setdefault(modelopt_format(module, plain), []).append(name)
    return tuple(
        Rule(form, targets=_compiled(section, "quantized_layers", tuple(names)))
        for form, names in modules.items()
    )


def _fp8_rules(section: Reader, _plain: WeightFormat) -> tuple[Rule, ...]:
    ignored = _names(section, "modules_to_not_convert", "ignored_layers")
    return (Rule(block_format(section, "weight_block_size"), ignored=ignored),)


def _mxfp4_rules(section: Reader, _plain: WeightFormat) -> tuple[Rule, ...]:
    # transformers `integrations/mxfp4.py` replaces expert modules only, whatever the list says.
    ignored = _names(section, "modules_to_not_convert")
    return (Rule(WEIGHT_FORMATS["mxfp4"], targets=ModuleNames(["experts"]), ignored=ignored),)


def _awq_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    zero_points = section.flag("zero_point", default=True)  # transformers AwqConfig
    form = packed_format(section, plain, zero_points=zero_points)
    return (Rule(form, ignored=_names(section, "modules_to_not_convert")),)


def _gptq_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    form = packed_format(section, plain, zero_points=True)  # stored even where they are all equal
    own, ignored = _dynamic_rules(section, plain)
    targets = None
    if section.has("modules_in_block_to_quantize"):
        targets = _compiled(section, "modules_in_block_to_quantize", _block_modules(section))
    head = section.flag("lm_head", default=False)
    head_rules = (Rule(form, ModuleNames(["lm_head"]), ignored),) if head else ()
    return (*own, Rule(form, targets, ignored), *head_rules)


def _block_modules(section: Reader) -> tuple[str, ...]:
    """Return the modules that are quantised, which stand in groups or alone."""
    key = "modules_in_block_to_quantize"
    groups = section.values[key]
    if isinstance(groups, list) and all(isinstance(group, list) for group in groups):
        modules = [module for group in groups for module in group]
        return Reader(section.source, {key: modules}, section.prefix).texts(key)
    return section.texts(key)


def _dynamic_rules(section: Reader, plain: WeightFormat) -> tuple[tuple[Rule, ...], ModuleNames]:
    """Return the rules of ``dynamic``, GPTQModel's settings per expression, and what it skips.

    ``-:`` before an expression leaves its modules alone; ``+:`` or nothing gives them settings of
    their own, where it names any. The first expression that matches counts.

    Source
        GPTQModel, `quantization/config.py`, `dynamic_get`.
    """
    rules: list[Rule] = []
    skipped: list[str] = []
    for key, changes in section.sections("dynamic").items():
        expression = f"re:{key.removeprefix('-:').removeprefix('+:')}"
        if key.startswith("-:"):
            skipped.append(expression)
            continue
        changed = Reader(section.source, {**section.values, **changes.values}, changes.prefix)
        form = packed_format(changed, plain, zero_points=True)
        targets = _compiled(section, "dynamic", (expression,))
        rules.append(Rule(form, targets, _compiled(section, "dynamic", tuple(skipped))))
    return tuple(rules), _compiled(section, "dynamic", tuple(skipped))


def _compressed_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    ignored = _names(section, "ignore")
    rules = []
    for group in section.sections("config_groups").values():
        form = compressed_format(group, plain)
        if form is not None:
            # "Linear" is the class of every matrix; anything else is a module name.
            every = "Linear" in group.texts("targets")
            rules.append(Rule(form, None if every else _names(group, "targets"), ignored))
    if not rules:
        section.refuse("config_groups", "at least one group with weights")
    return tuple(rules)


def _modelopt_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    if "quant_algo" not in section.values:
        section.refuse("quant_algo", "the algorithm of the weights, or null")
    # Null narrows the KV cache only; mixed precision is all in the list of modules.
    if section.values["quant_algo"] in _NO_ALGORITHM:
        return ()
    ignored = _names(section, "ignore", "exclude_modules")
    return (Rule(modelopt_format(section, plain), ignored=ignored),)


def _fbgemm_rules(section: Reader, _plain: WeightFormat) -> tuple[Rule, ...]:
    ignored = _names(section, "modules_to_not_convert")  # a scale per row is too small to count
    return (Rule(WEIGHT_FORMATS["fp8"], ignored=ignored),)


def _bitsandbytes_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    ignored = _names(section, "llm_int8_skip_modules")
    return (Rule(bitsandbytes_format(section, plain), ignored=ignored),)


def _torchao_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    return (
        Rule(torchao_format(section, plain), ignored=_names(section, "modules_to_not_convert")),
    )


def _auto_round_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    """Return the rule for all, behind those of ``extra_config``: modules with own settings.

    A module of 16 bits or more is not quantised.
    """
    own: dict[WeightFormat, list[str]] = {}
    for name, changes in section.sections("extra_config").items():
        changed = Reader(section.source, {**section.values, **changes.values}, changes.prefix)
        is_plain = changed.positive_int("bits", maximum=32) > _MOST_BITS
        form = plain if is_plain else auto_round_format(changed, plain)
        own.setdefault(form, []).append(name)
    return (
        *(
            Rule(form, targets=_compiled(section, "extra_config", tuple(names)))
            for form, names in own.items()
        ),
        Rule(auto_round_format(section, plain)),
    )


def _quark_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    """Return the rule of ``global_quant_config``, behind those of modules that have their own."""
    usual = section.section("global_quant_config")
    if usual is None:
        section.refuse("global_quant_config", "an object with the scheme of the weights")
    if section.sections("layer_type_quant_config"):
        section.refuse("layer_type_quant_config", "none: schemes of classes are not read")
    ignored = _names(section, "exclude")
    rules = [
        Rule(
            quark_format(scheme, plain) or plain,
            _compiled(section, "layer_quant_config", (name,)),
            ignored,
        )
        for name, scheme in section.sections("layer_quant_config").items()
    ]
    form = quark_format(usual, plain)
    return (*rules, *([] if form is None else [Rule(form, ignored=ignored)]))


#: Beyond which AutoRound leaves a matrix as it is.
_MOST_BITS: Final = 8

# A tuple, since a file may hold a list where its algorithm should stand.
_NO_ALGORITHM: Final = (None, "MIXED_PRECISION")

_METHODS: Final[dict[str, Callable[[Reader, WeightFormat], tuple[Rule, ...]]]] = {
    "auto-round": _auto_round_rules,
    "awq": _awq_rules,
    "bitsandbytes": _bitsandbytes_rules,
    "compressed-tensors": _compressed_rules,
    "fbgemm_fp8": _fbgemm_rules,
    "fp8": _fp8_rules,
    "gptq": _gptq_rules,
    "modelopt": _modelopt_rules,
    "mxfp4": _mxfp4_rules,
    "quark": _quark_rules,
    "torchao": _torchao_rules,
}

_KV_ALGORITHMS: Final = {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp4"}
_KV_NUMBERS: Final = {("float", 8): "fp8", ("int", 8): "int8", ("float", 4): "fp4"}


def _kv_dtype(section: Reader) -> str | None:
    """Return the KV dtype of a scheme (an object, or an algorithm's name); None leaves it open."""
    if section.values.get("quant_method") == "quark":
        return quark_kv_dtype(section)
    if isinstance(section.values.get("kv_cache_scheme"), dict):
        scheme = section.section("kv_cache_scheme") or section
        number = scheme.text("type", allowed=("float", "int"))
        bits = scheme.positive_int("num_bits")
        if (number, bits) not in _KV_NUMBERS:
            scheme.refuse("num_bits", "4 or 8 for float, 8 for int")
        return _KV_NUMBERS[number, bits]
    keys = ("kv_cache_scheme", "kv_cache_quant_algo")
    if not any(section.has(key) for key in keys):
        return None
    return _KV_ALGORITHMS[section.text(*keys, allowed=_KV_ALGORITHMS)]
