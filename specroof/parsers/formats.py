"""Storage formats from what quantisation tools call them: algorithms, bits, groups.

Source
    The quantisation readers of transformers 5 (`quantizers/`) and vLLM
    (`model_executor/layers/quantization/`), and published checkpoints of each form.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, lru_cache
from math import factorial, prod
from typing import Final, NamedTuple

from specroof.architecture.base import BF16, FP32, WEIGHT_FORMATS, WeightFormat
from specroof.reading.json_text import Reader
from specroof.units import dtype_bytes

#: Unquantised weights by the dtype of the activations, which they share.
PLAIN_FORMATS: Final = {"bf16": BF16, "fp16": WEIGHT_FORMATS["fp16"], "fp32": FP32}


class _Algorithm(NamedTuple):
    """Bytes of an element, of what a group has besides, the usual group, and the arithmetic.

    `compute_dtype` None means that only weights are narrow.
    """

    name: str
    element_bytes: float
    group_bytes: float
    group_size: int
    compute_dtype: str | None

    def form(self, options: Reader | None, plain: WeightFormat) -> WeightFormat:
        """Return the format, of groups as long as the options say."""
        group_size = self.group_size
        if options is not None and self.group_bytes:
            group_size = options.positive_int("group_size", default=group_size)
        element_bytes = self.element_bytes + self.group_bytes / group_size
        return WeightFormat(self.name, element_bytes, self.compute_dtype or plain.compute_dtype)


# NVIDIA ModelOpt; vLLM `modelopt.py`.
_ALGORITHMS: Final = {
    "FP8": _Algorithm("fp8", 1.0, 0.0, 1, "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": _Algorithm("fp8", 1.0, 0.0, 1, "fp8"),
    "MXFP8": _Algorithm("mxfp8", 1.0, 1.0, 32, "fp8"),
    "NVFP4": _Algorithm("nvfp4", 0.5, 1.0, 16, "fp4"),
    "W4A16_NVFP4": _Algorithm("nvfp4", 0.5, 1.0, 16, None),
}

#: What floats are called that have a scale of one byte for each group of this size.
_MICRO_SCALED: Final = {
    ("fp4", 16): "nvfp4",
    ("fp4", 32): "mxfp4",
    ("fp6", 32): "mxfp6",
    ("fp8", 32): "mxfp8",
}


def modelopt_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the format of a ``quant_algo`` and its ``group_size``."""
    return _ALGORITHMS[section.text("quant_algo", allowed=_ALGORITHMS)].form(section, plain)


def block_format(section: Reader, key: str) -> WeightFormat:
    """Return FP8 with a float32 scale per block of `key`, or one per tensor where it is null."""
    if not section.has(key):
        return WEIGHT_FORMATS["fp8"]
    return _in_blocks(section, key, "fp8", 1.0, "fp8")


def _in_blocks(
    section: Reader, key: str, name: str, element_bytes: float, compute_dtype: str
) -> WeightFormat:
    """Return a format with a float32 scale per block of the sides of `key`."""
    block = section.ints(key, minimum=1)
    if len(block) != 2:
        section.refuse(key, "two whole numbers, such as [128, 128]")
    n, k = block
    return WeightFormat(f"{name}-block", element_bytes + 4 / (n * k), compute_dtype, block=(n, k))


def packed_format(section: Reader, plain: WeightFormat, *, zero_points: bool) -> WeightFormat:
    """Return the weight-only integers of AWQ and GPTQ.

    A group has a float16 scale and, with `zero_points`, one more integer. A `group_size` of -1 is
    a whole row: its scale is too small to count.
    """
    bits = section.positive_int("bits", "w_bit", maximum=8)
    group_size = section.positive_int("group_size", "q_group_size", minimum=-1)
    if group_size == 0:
        section.refuse("group_size", "-1 or a whole number from 1")
    scale_bytes = 2 + (bits / 8 if zero_points else 0.0)
    share = scale_bytes / group_size if group_size > 0 else 0.0
    return WeightFormat(f"int{bits}", bits / 8 + share, plain.compute_dtype)


def compressed_format(group: Reader, plain: WeightFormat) -> WeightFormat | None:
    """Return the format of a compressed-tensors group; None where it leaves weights alone."""
    weights = group.section("weights")
    if weights is None:
        return None
    name, bits = _number(weights)
    if name.startswith("fp") and bits not in {4, 8}:
        weights.refuse("num_bits", "4 or 8 for floats")
    group_size = weights.optional_int("group_size") or 0
    if weights.has("block_structure"):
        return block_format(weights, "block_structure")
    micro_scaled = _MICRO_SCALED.get((name, group_size))
    # One byte a group of micro-scaled floats, else bf16; without groups the scale belongs to a
    # channel or tensor and is too small to count.
    # An integer whose zero is not in the middle has one more.
    zero = 0.0 if name.startswith("fp") or weights.flag("symmetric", default=True) else bits / 8
    share = (1.0 if micro_scaled else 2.0 + zero) / group_size if group_size else 0.0
    # Arithmetic is in the dtype of the activations, which are never narrower.
    compute_dtype, activations = plain.compute_dtype, group.section("input_activations")
    if activations is not None:
        compute_dtype, activation_bits = _number(activations)
        if activation_bits not in {4, 8}:
            activations.refuse("num_bits", "4 or 8")
    return WeightFormat(micro_scaled or name, bits / 8 + share, compute_dtype)


def _number(section: Reader) -> tuple[str, int]:
    """Return what a `type` of so many bits is called, and the bits."""
    kind = section.text("type", allowed=("float", "int"))
    bits = section.positive_int("num_bits", maximum=8)
    return f"{'fp' if kind == 'float' else 'int'}{bits}", bits


# --- Lists of modules, as quantisation configs write them ----------------------------------------
# The same matrix is `model.layers.3.mlp.gate` in one file, `model.language_model.layers.3.mlp.gate`
# in the next and `*.mlp.gate` or `re:.*mlp.gate$` in a third. Names are compared without what
# stands before `layers`, and a name stands for everything inside it.

# What checkpoints put before the names of their language model: parts of it, in any order.
_OWNER: Final = re.compile(
    r"(?:(?:model|language_model|text_model|thinker|decoder|backbone|llm)\.)*", re.ASCII
)
#: The draft layer by its name, where it is not numbered: of its modules lists have whole names.
DRAFT_LAYER: Final = "mtp.layers.0"
_ANY_MODULE: Final = "any_module"  # that only a list of whole layers names
# How expressions spell the parts of the language model.
_PREFIXES: Final = (
    "model.language_model.",
    "model.text_model.",
    "model.decoder.",
    "language_model.model.",
    "language_model.",
    "thinker.model.",
    "backbone.",
    "model.",
)
_IN_LAYER: Final = re.compile(r"layers\.(\d+)(?:\.(.+))?", re.ASCII | re.DOTALL)
# Read as the glob it is: `layers.1*` covers layers 1, 10, 11 ...
_LAYERS_BY_DIGITS: Final = re.compile(r"layers\.(\d+)\*", re.ASCII)
# One module of every layer: no expression is needed, and compiling one takes longer than all else.
_EVERY_LAYER: Final = re.compile(r"layers\.\*\.([\w.]+)", re.ASCII)
_GLOB_CHARACTERS: Final = re.compile(r"[*?\[]")
# Marks a regular expression (compressed-tensors).
_REGEX_MARK: Final = "re:"

# What expressions are made of. Python's `re` goes back and tries again, and keeps at a repeat
# within a repeat for years; so repeats are of single characters, and groups are lists of words.
_SIMPLE: Final = r"(?:\\[dDwWsS]|\\[^\w\s]|[^()|*+?{}\[\]\\^$])"
_CLASS: Final = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_REPEAT: Final = r"(?:[*+?]|\{\d\d?(?:,\d\d?)?\})\??"
_EXPRESSION: Final = re.compile(
    rf"(?:(?:{_SIMPLE}|{_CLASS})(?:{_REPEAT})?|\((?:\?:)?(?:{_SIMPLE}|\|)*\)\??|[|^$])*+"
)
# A repeat that may stop anywhere in a name; digits end soon, and what ends with `.*` is found.
_DIGITS_REPEATED: Final = re.compile(r"(?:\\d|\[0-9\])(?:[*+]|\{[\d,]+\})")
_REPEATED: Final = re.compile(r"(?<!\\)[*+{]")
_OPTIONAL: Final = re.compile(r"(?<![\\*+?}(])\?")
_GROUP: Final = re.compile(r"\([^()]*\)")
_TRAILING: Final = re.compile(r"(?:(?<!\\)\.[*+]\??)+$")
#: Longer than any module's name: the longest of 127 published lists has 53 characters.
_LONGEST_ENTRY: Final = 300
#: Steps that the expressions of a list may take on one name, reckoned with 100 characters: 300
#: expressions with one repeat each, or six with two. The largest published list has 6.
_MOST_STEPS: Final = 30_000
_NAME_LEN: Final = 100
#: Of these steps, those of looking for one string: it is the fastest of searches.
_PART_STEPS: Final = 4
#: The number of an expert, and what stands behind it.
_ONE_EXPERT: Final = re.compile(r"\.\d+\..*", re.ASCII)


class ModuleNames:
    """A list of module names, globs and ``re:`` expressions, to be asked about one module.

    Parameters
    ----------
    entries
        The list as the file has it.

    Raises
    ------
    re.error
        If an expression cannot be compiled, is more than a list of modules needs (a repeat of a
        group, a look ahead), or takes too long together with the others.

    Examples
    --------
    >>> names = ModuleNames(["lm_head", "model.language_model.layers.3.mlp*", "re:.*self_attn.*"])
    >>> names.match(3, "mlp.gate_proj"), names.match(4, "mlp.gate_proj")
    (True, False)
    >>> names.match(4, "self_attn.q_proj"), names.match(None, "lm_head")
    (True, True)
    """

    __slots__ = ("_in_layer", "_layer_digits", "_patterns", "_plain", "_steps")

    def __init__(self, entries: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._in_layer: dict[int, set[str]] = {}
        self._layer_digits: set[str] = set()
        self._patterns: list[re.Pattern[str]] = []
        self._steps: Counter[int | None] = Counter()  # of patterns for all layers, and for one
        for entry in dict.fromkeys(entries):
            if len(entry) > _LONGEST_ENTRY:
                message = "an entry is longer than any name"
                raise re.error(message)
            if entry.startswith(_REGEX_MARK):
                expression = entry.removeprefix(_REGEX_MARK)
                compiled = re.compile(expression)  # its own messages are the better ones
                if not _EXPRESSION.fullmatch(expression):
                    message = "more than a list of modules needs"
                    raise re.error(message)
                self._count_steps(None, _steps_on_a_name(expression))
                self._patterns.append(compiled)
            else:
                self._add_name(entry)

    def match(self, layer: int | None, name: str) -> bool:
        """Whether the list names a module, by its name within `layer` (None: outside layers)."""
        if layer is not None and self._match_in_layer(layer, name):
            return True
        if not self._plain.isdisjoint(_parts(name)):
            return True
        spellings = _spellings(layer, name) if self._patterns else []
        return any(bool(pattern.match(full)) for pattern in self._patterns for full in spellings)

    def _count_steps(self, layer: int | None, steps: int) -> None:
        """Refuse patterns that take too long together: for any module, or for those of a layer."""
        self._steps[layer] += steps
        if self._steps[layer] > _MOST_STEPS:
            message = "too many patterns"
            raise re.error(message)

    def _add_name(self, entry: str) -> None:
        name = _OWNER.sub("", entry, count=1)
        owner, layers, _ = name.partition("layers.")
        is_drafts = owner == "mtp."
        if owner and layers and not is_drafts and not _GLOB_CHARACTERS.search(owner):
            return  # layers of a vision tower
        if digits := _LAYERS_BY_DIGITS.fullmatch(name):
            self._layer_digits.add(digits[1])
        elif everywhere := _EVERY_LAYER.fullmatch(name):
            self._plain.add(everywhere[1])
        elif (found := _IN_LAYER.fullmatch(name)) and len(found[1]) < 9:
            layer, inner = int(found[1]), found[2] or "*"
            if _GLOB_CHARACTERS.search(inner):
                self._count_steps(layer, _NAME_LEN)
            self._in_layer.setdefault(layer, set()).add(inner)
        elif _GLOB_CHARACTERS.search(name):
            self._count_steps(None, _NAME_LEN)
            glob = name if is_drafts or name.startswith("layers") else entry
            self._patterns.append(_glob(glob))
        else:
            self._plain.add(name)

    def _match_in_layer(self, layer: int, name: str) -> bool:
        if any(str(layer).startswith(digits) for digits in self._layer_digits):
            return True
        entries = self._in_layer.get(layer)
        if not entries:
            return False
        return not entries.isdisjoint(_parts(name)) or any(
            _glob(entry).match(name) for entry in entries if _GLOB_CHARACTERS.search(entry)
        )


class NameParts(ModuleNames):
    """Strings, each of which names every module that has it in its full name: the lists of AWQ.

    Routed experts are one module: no string names a matrix of one of them.

    Source
        vLLM 0.33.0 ``layers/quantization/auto_awq.py:298`` (``match_mode="substring"``) and 337;
        SGLang 0.5.23 ``layers/quantization/awq/awq.py:61``.

    Examples
    --------
    >>> names = NameParts(["model.layers.1", "visual"])
    >>> [layer for layer in range(24) if names.match(layer, "mlp.gate_proj")]
    [1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    """

    __slots__ = ("_strings",)

    def __init__(self, entries: Iterable[str]) -> None:
        super().__init__(())
        self._strings = tuple(dict.fromkeys(entries))
        self._count_steps(None, _PART_STEPS * len(self._strings))

    def match(self, layer: int | None, name: str) -> bool:
        """Whether a string stands in the name of a module, in any of its spellings."""
        spellings = "\n".join(_spellings(layer, _ONE_EXPERT.sub("", name)))
        return any(part in spellings for part in self._strings)


def _spellings(layer: int | None, name: str) -> list[str]:
    """Return what checkpoints call a module inside `layer`, or outside of layers (None)."""
    full = name if layer is None else f"layers.{layer}.{name}"
    return [full, *(prefix + full for prefix in _PREFIXES)]


def _steps_on_a_name(expression: str) -> int:
    """Return in how many ways `re` may try an expression on a name that it does not match.

    Examples
    --------
    >>> _steps_on_a_name(".*mlp[.](gate|up)_proj.*"), _steps_on_a_name(r".*a.*b$")
    (200, 5000)
    """
    open_ended = _TRAILING.sub("", _DIGITS_REPEATED.sub("", expression))
    repeats = len(_REPEATED.findall(open_ended))
    choices: int = 2 ** len(_OPTIONAL.findall(open_ended))
    branches = prod(group.count("|") + 1 for group in _GROUP.findall(open_ended))
    ways: int = _NAME_LEN**repeats // factorial(repeats)
    return int(ways * choices * branches)


@cache
def _parts(name: str) -> frozenset[str]:
    """Return every run of a dotted name's words: the module, what holds it, and short names.

    Examples
    --------
    >>> sorted(_parts("mlp.experts.0"))
    ['0', 'experts', 'experts.0', 'mlp', 'mlp.experts', 'mlp.experts.0']
    """
    words = name.split(".")
    return frozenset(
        ".".join(words[start:stop])
        for start in range(len(words))
        for stop in range(start + 1, len(words) + 1)
    )


@lru_cache(maxsize=1024)
def _glob(entry: str) -> re.Pattern[str]:
    """Return the expression of a glob that also covers what lies inside the named module."""
    return re.compile(f"{translate(entry)}|{translate(entry + '.*')}")


# --- Storage formats of AMD Quark, torchao, AutoRound and bitsandbytes ---------------------------
# Source
#     vLLM 0.33 (`model_executor/layers/quantization/quark/quark.py`, `inc/inc.py`, `torchao.py`)
#     and
#     transformers 5.23 (`utils/quantization_config.py`).

# --- AMD Quark -----------------------------------------------------------------------------------

#: Dtypes by Quark's names, with the layout of their bits.
_QUARK_DTYPES: Final = {
    name: name.partition("_")[0].removeprefix("u")
    for name in (
        *("fp8_e4m3", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3", "fp4"),
        *("int8", "uint8", "int4", "uint4"),
    )
}


def quark_format(scheme: Reader, plain: WeightFormat) -> WeightFormat | None:
    """Return the format of a Quark scheme; None where it leaves weights alone."""
    weight = _quark_tensor(scheme, "weight")
    if weight is None:
        return None
    name = _quark_dtype(weight)
    activations = _quark_tensor(scheme, "input_tensors")
    compute_dtype = plain.compute_dtype
    if activations is not None:
        compute_dtype = _quark_dtype(activations)
    element_bytes = dtype_bytes(name)
    kind = weight.text("qscheme", allowed=("per_tensor", "per_channel", "per_group", "per_block"))
    if kind == "per_block":
        return _in_blocks(weight, "block_size", name, element_bytes, compute_dtype)
    if kind != "per_group":  # the scale of a tensor or of a row is too small to count
        return WeightFormat(name, element_bytes, compute_dtype)
    group_size = weight.positive_int("group_size")
    if name.startswith("fp"):
        called = _MICRO_SCALED.get((name, group_size), name)
        return WeightFormat(called, element_bytes + 1 / group_size, compute_dtype)
    # a float16 scale, and one more integer where zero is not in the middle
    zero = 0.0 if weight.flag("symmetric", default=True) else element_bytes
    return WeightFormat(name, element_bytes + (2 + zero) / group_size, compute_dtype)


def _quark_dtype(tensor: Reader) -> str:
    return _QUARK_DTYPES[tensor.text("dtype", allowed=_QUARK_DTYPES)]


def _quark_tensor(scheme: Reader, key: str) -> Reader | None:
    """Return how a tensor is stored: an object, or a list of them, whose narrowest counts.

    NVFP4 is listed as fp4 with a scale of its own scales, INT4 in FP8 arithmetic as fp8 and int4.
    """
    if not isinstance(scheme.values.get(key), list):
        return scheme.section(key)
    tensors = scheme.objects(key)
    if not tensors:
        scheme.refuse(key, "an object, or a list with one")
    return min(tensors, key=lambda tensor: dtype_bytes(_quark_dtype(tensor)))


# --- torchao -------------------------------------------------------------------------------------

#: By the name of the configuration class.
_TORCHAO: Final = {
    "Int4WeightOnlyConfig": _Algorithm("int4", 0.5, 4.0, 128, None),  # bf16 scale and zero
    "Int8WeightOnlyConfig": _Algorithm("int8", 1.0, 0.0, 1, None),
    "Int8DynamicActivationInt8WeightConfig": _Algorithm("int8", 1.0, 0.0, 1, "int8"),
    "Float8WeightOnlyConfig": _Algorithm("fp8", 1.0, 0.0, 1, None),
    "Float8DynamicActivationFloat8WeightConfig": _Algorithm("fp8", 1.0, 0.0, 1, "fp8"),
}
#: Classes by their older names, such as ``int8_weight_only``.
_TORCHAO_OLDER: Final = {
    re.sub("(?<=.)(?=[A-Z])", "_", name.removesuffix("Config")).lower(): name for name in _TORCHAO
}


def torchao_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the format of a ``quant_type``: a name, or an object with a configuration class."""
    if section.flag("include_input_output_embeddings", default=False):
        section.refuse("include_input_output_embeddings", "false: tables are read unquantised")
    if isinstance(section.values.get("quant_type"), str):
        kind = _TORCHAO_OLDER[section.text("quant_type", allowed=_TORCHAO_OLDER)]
        options = section.section("quant_type_kwargs")
    else:
        outer = section.section("quant_type")
        default = None if outer is None else outer.section("default")
        if default is None:
            section.refuse("quant_type", "an object with a configuration under default")
        kind = default.text("_type", allowed=_TORCHAO)
        options = default.section("_data")
    return _TORCHAO[kind].form(options, plain)


# --- AutoRound -----------------------------------------------------------------------------------


def auto_round_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the format of AutoRound: packed integers, FP8 in blocks, or micro-scaled floats."""
    kind = section.text("data_type", default="int")
    bits = section.positive_int("bits", maximum=8)
    if kind == "int":
        return packed_format(section, plain, zero_points=True)  # packed as GPTQ does
    if kind in {"fp", "fp8"} and bits == 8 and isinstance(section.values.get("group_size"), list):
        return block_format(section, "group_size")
    if not kind.startswith("mx_fp") or bits not in {4, 8}:
        section.refuse("data_type", "int, fp with 8 bits in blocks, or mx_fp with 4 or 8 bits")
    form = WEIGHT_FORMATS[f"mxfp{bits}"]
    if section.positive_int("act_bits", default=16) > 8:
        return WeightFormat(form.name, form.element_bytes, plain.compute_dtype)
    return form


# --- bitsandbytes --------------------------------------------------------------------------------

#: Weights that share a scale, and scales that share one of their own (Dettmers et al. 2023,
#: arXiv:2305.14314, section 3: 0.127 bits per weight).
_BNB_BLOCK: Final = 64
_BNB_SCALES: Final = 256


def bitsandbytes_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the eight or four bits of bitsandbytes, weights of four bits by themselves."""
    eight, four = (
        section.flag(key, default=section.flag(f"_{key}", default=False))
        for key in ("load_in_8bit", "load_in_4bit")
    )
    if eight == four:
        section.refuse("load_in_4bit", "true, or load_in_8bit, and not both")
    if eight:
        return WEIGHT_FORMATS["int8"]
    name = section.text("bnb_4bit_quant_type", allowed=("fp4", "nf4"), default="fp4")
    share = 4 / _BNB_BLOCK  # a float32
    if section.flag("bnb_4bit_use_double_quant", default=False):
        share = 1 / _BNB_BLOCK + 4 / (_BNB_BLOCK * _BNB_SCALES)
    return WeightFormat(name, 0.5 + share, plain.compute_dtype)


# --- Which matrices of a checkpoint are quantised: `quantization_config`, or the sidecar beside
#     it
# Source
#     The quantisation readers of transformers 5 (`quantizers/`) and vLLM
#     (`model_executor/layers/quantization/`), and published checkpoints of each form.

_NONE: Final = ModuleNames(())
_HEAD: Final = ModuleNames(("lm_head",))


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

    def covers(self, places: Iterable[tuple[int | None, str]], *, in_layer: bool) -> bool:
        """Whether the rule holds for a matrix, given all places that it goes by."""
        places = [*places]
        targets = self.targets
        targeted = in_layer if targets is None else any(targets.match(*one) for one in places)
        return targeted and not any(self.ignored.match(*one) for one in places)


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
    method
        What the config calls the method; empty for none.
    draft_layer
        Of a draft layer that is read as a model, its number in the checkpoint, behind the last
        layer: lists name it by that or as ``mtp``.
    """

    plain: WeightFormat
    rules: tuple[Rule, ...] = ()
    kv_dtype: str | None = None
    method: str = ""
    draft_layer: int | None = None

    def weight_format(self, layer: int | None, *names: str) -> WeightFormat:
        """Return the format of a matrix inside `layer`, or outside of layers (None).

        The output head counts as outside: engines quantise it only where a list names it.
        """
        places = [(layer, name) for name in names]
        if layer is not None and self.draft_layer is not None:
            places = [
                place
                for name in names
                for place in ((self.draft_layer, name), (None, f"{DRAFT_LAYER}.{name}"))
            ]
        covering = (one for one in self.rules if one.covers(places, in_layer=layer is not None))
        return next((rule.form for rule in covering), self.plain)

    def leaves_drafts(self, stored_layer: int) -> bool:
        """Whether lists leave alone all of the draft layer, stored behind the model's layers."""
        names = [(stored_layer, _ANY_MODULE), (None, f"{DRAFT_LAYER}.{_ANY_MODULE}")]
        return bool(self.rules) and all(
            any(rule.ignored.match(*name) for name in names) for rule in self.rules
        )


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
    listed = _own_rules(
        section,
        "quantized_layers",
        section.sections("quantized_layers"),
        lambda own: modelopt_format(own, plain),
        ignored=_names(section, "ignore", "exclude_modules"),
    )
    # ModelOpt's own files, and some configs made from them, name the algorithm only.
    is_modelopt = not section.has("quant_method") and "quant_algo" in section.values
    method = "modelopt" if is_modelopt else section.text("quant_method", allowed=_METHODS)
    return Quantization(
        plain,
        listed + _METHODS[method](section, plain),
        next((dtype for dtype in kv_dtypes if dtype), None),
        method,
    )


def _names(section: Reader, *keys: str) -> ModuleNames:
    """Return the module list under the first of `keys` that is present."""
    key = next((key for key in keys if section.has(key)), keys[0])
    return _compiled(section, key, section.texts(key))


def _compiled(
    section: Reader, key: str, entries: tuple[str, ...], kind: type[ModuleNames] = ModuleNames
) -> ModuleNames:
    try:
        return kind(entries)
    except (re.error, OverflowError, RecursionError):
        section.refuse(key, "module names, globs, and re: expressions")


def _own_rules(
    section: Reader,
    key: str,
    modules: Mapping[str, Reader],
    form: Callable[[Reader], WeightFormat],
    *,
    ignored: ModuleNames = _NONE,
) -> tuple[Rule, ...]:
    """Return the rules of an object under `key`, which gives `modules` formats of their own."""
    names: dict[WeightFormat, list[str]] = {}
    for name, module in modules.items():
        names.setdefault(form(module), []).append(name)
    return tuple(
        Rule(form, _compiled(section, key, tuple(listed)), ignored)
        for form, listed in names.items()
    )


def _all_but(
    form: Callable[[Reader, WeightFormat], WeightFormat],
    *ignored: str,
    targets: ModuleNames | None = None,
) -> Callable[[Reader, WeightFormat], tuple[Rule, ...]]:
    """Return the rules of a method with one format for all but what one of these lists names."""
    return lambda section, plain: (Rule(form(section, plain), targets, _names(section, *ignored)),)


def _awq_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    # zero_point: transformers AwqConfig
    zero_points = section.flag("zero_point", default=True)
    key = "modules_to_not_convert"
    ignored = _compiled(section, key, section.texts(key), NameParts)
    return (Rule(packed_format(section, plain, zero_points=zero_points), ignored=ignored),)


def _gptq_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    form = packed_format(section, plain, zero_points=True)  # stored even where they are all equal
    own, ignored = _dynamic_rules(section, plain)
    targets = None
    key = "modules_in_block_to_quantize"
    if section.has(key):
        targets = _compiled(section, key, _grouped_texts(section, key))
    head = section.flag("lm_head", default=False)
    head_rules = (Rule(form, _HEAD, ignored),) if head else ()
    return (*own, Rule(form, targets, ignored), *head_rules)


def _grouped_texts(section: Reader, key: str) -> tuple[str, ...]:
    """Return the texts of a list, which stand in groups or alone."""
    groups = section.values[key]
    if isinstance(groups, list) and all(isinstance(group, list) for group in groups):
        texts = [text for group in groups for text in group]
        return Reader(section.source, {key: texts}, section.prefix).texts(key)
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
    sparsity = section.section("sparsity_config")
    for part in (section, *([] if sparsity is None else [sparsity])):
        if part.text("format", default="dense").endswith(_SPARSE):
            part.refuse("format", "a dense one: of two in four weights nothing is known")
    own, rules = list[Rule](), list[Rule]()
    for group in section.sections("config_groups").values():
        form = compressed_format(group, plain)
        if form is not None:
            # "Linear" is the class of every matrix; anything else is a module name, which goes
            # before it (vLLM ``compressed_tensors/utils.py``, ``find_matched_target``).
            named = tuple(name for name in group.texts("targets") if name != "Linear")
            if len(named) < len(group.texts("targets")):
                rules.append(Rule(form, ignored=ignored))
            if named:
                own.append(Rule(form, _compiled(group, "targets", named), ignored))
    if not own + rules:
        section.refuse("config_groups", "at least one group with weights")
    return (*own, *rules)


#: Formats of compressed-tensors that keep two weights in four: marlin-24, sparse-24-bitmask.
_SPARSE: Final = ("-24", "-24-bitmask", "sparse-bitmask")


def _modelopt_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    if "quant_algo" not in section.values:
        section.refuse("quant_algo", "the algorithm of the weights, or null")
    # Null narrows the KV cache only; mixed precision is all in the list of modules.
    if section.values["quant_algo"] in _NO_ALGORITHM:
        if section.values["quant_algo"] is not None and not section.sections("quantized_layers"):
            section.refuse("quantized_layers", "the format of every matrix, with MIXED_PRECISION")
        return ()
    ignored = _names(section, "ignore", "exclude_modules")
    form = modelopt_format(section, plain)
    # vLLM 0.33.0 ``modelopt.py``: (LinearBase, ParallelLMHead), unless a list names it.
    return (Rule(form, ignored=ignored), Rule(form, _HEAD, ignored))


def _auto_round_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    """Return the rule for the blocks that are quantised, behind those of ``extra_config``.

    That gives modules settings of their own, or those whose name an expression is found in, of
    which the first counts. A module of 16 bits or more is not quantised.

    Source
        vLLM 0.33.0 ``layers/quantization/inc/config_parser.py:81``.
    """

    def form(changes: Reader) -> WeightFormat:
        changed = Reader(section.source, {**section.values, **changes.values}, changes.prefix)
        is_plain = changed.positive_int("bits", maximum=32) > _MOST_BITS
        return plain if is_plain else auto_round_format(changed, plain)

    modules, rules = {}, []
    for name, changes in section.sections("extra_config").items():
        if _REGEX_CHARACTERS.search(name):
            parts = (part.removeprefix(".*") for part in _ALTERNATIVES.split(name))
            targets = _compiled(section, "extra_config", tuple(f"re:.*{part}" for part in parts))
            rules.append(Rule(form(changes), targets))
        else:
            modules[name] = changes
    own = _own_rules(section, "extra_config", modules, form)
    return (*own, *rules, Rule(auto_round_format(section, plain), _quantised_blocks(section)))


_REGEX_CHARACTERS: Final = re.compile(r"[*+?^$()\[\]{}|\\]")
#: Between what an expression may match as a whole, groups apart.
_ALTERNATIVES: Final = re.compile(r"\|(?![^(]*\))")


def _quantised_blocks(section: Reader) -> ModuleNames | None:
    """Return the blocks that AutoRound quantises, by the beginnings of their names; None: all."""
    for key in ("block_name_to_quantize", "to_quant_block_names"):
        names = section.values.get(key)
        if names:
            blocks = names.split(",") if isinstance(names, str) else _grouped_texts(section, key)
            return _compiled(section, key, tuple(f"{block.strip()}*" for block in blocks))
    return None


def _quark_rules(section: Reader, plain: WeightFormat) -> tuple[Rule, ...]:
    """Return the rule of ``global_quant_config``, behind those of modules that have their own."""
    usual = section.required_section(
        "global_quant_config", "an object with the scheme of the weights"
    )
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
    "bitsandbytes": _all_but(bitsandbytes_format, "llm_int8_skip_modules"),
    "compressed-tensors": _compressed_rules,
    # A scale per row is too small to count.
    "fbgemm_fp8": _all_but(lambda *_: WEIGHT_FORMATS["fp8"], "modules_to_not_convert"),
    "fp8": _all_but(
        lambda section, _plain: block_format(section, "weight_block_size"),
        "modules_to_not_convert",
        "ignored_layers",
    ),
    "gptq": _gptq_rules,
    "modelopt": _modelopt_rules,
    # transformers `integrations/mxfp4.py` replaces expert modules only, whatever the list says.
    "mxfp4": _all_but(
        lambda *_: WEIGHT_FORMATS["mxfp4"],
        "modules_to_not_convert",
        targets=ModuleNames(["experts"]),
    ),
    "quark": _quark_rules,
    "torchao": _all_but(torchao_format, "modules_to_not_convert"),
}

_KV_ALGORITHMS: Final = {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp4"}


def _kv_dtype(section: Reader) -> str | None:
    """Return the KV dtype of a scheme (an object, or an algorithm's name); None leaves it open."""
    if section.values.get("quant_method") == "quark":
        export = section.section("export")
        groups = () if export is None else export.texts("kv_cache_group")
        schemes = section.sections("layer_quant_config")
        for group in groups:
            tensor = _quark_tensor(schemes[group], "output_tensors") if group in schemes else None
            if tensor is not None:
                return _QUARK_DTYPES[tensor.text("dtype", allowed=("fp8_e4m3", "int8"))]
        return None
    if isinstance(section.values.get("kv_cache_scheme"), dict):
        scheme = section.section("kv_cache_scheme") or section
        dtype, _ = _number(scheme)
        if dtype not in _KV_ALGORITHMS.values():
            scheme.refuse("num_bits", "4 or 8 for float, 8 for int")
        return dtype
    keys = ("kv_cache_scheme", "kv_cache_quant_algo")
    if not any(section.has(key) for key in keys):
        return None
    return _KV_ALGORITHMS[section.text(*keys, allowed=_KV_ALGORITHMS)]
