"""What others published: files of numbers, and the models and the chip that they were got with.

A number is held against the sizes it was published for. Where those differ from a checkpoint's
config, a builder here states every one of them, and the bundled config stands beside it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import BF16, TENSOR, WEIGHT_FORMATS, Core, Linear, WeightFormat
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import Options
from specroof.hardware.profile import HardwareProfile
from specroof.hardware.schema import parse_hardware

GOLDEN: Final = Path(__file__).parent / "golden"

#: One byte per weight without scales, as published estimators count FP8.
PLAIN_FP8: Final = WEIGHT_FORMATS["fp8"]


def published(name: str) -> dict[str, Any]:
    """Return a file of published numbers."""
    loaded: dict[str, Any] = yaml.safe_load((GOLDEN / name).read_text(encoding="utf-8"))
    return loaded


def published_options(file: dict[str, Any], **changes: Any) -> Options:
    """Return the formulas that the numbers of a file were published under."""
    return Options(**{**file["options"]["formulas"], **changes})


def published_hardware(
    *,
    bf16: float = 2250.0e12,
    fp8: float = 4500.0e12,
    fp4: float = 9000.0e12,
    memory_bytes_per_s: float = 8.0e12,
) -> HardwareProfile:
    """Return one B200 as the estimators have it.

    Dense FLOP/s and bytes/s. Source: Finn 2026, "The economics of speculative decoding": 2.25, 4.5
    and 9 PFLOP/s over 8 TB/s. Its chart rounds the ridges instead: 281, 563 and 1125 FLOP/byte.
    """
    text = f"""
format_version: 1
name: B200 of published estimators
sources: {{peak.flops_per_s: Finn 2026, peak.memory_bytes_per_s: Finn 2026,
  peak.memory_bytes: Finn 2026}}
peak:
  flops_per_s: {{bf16: {bf16:.17e}, fp8: {fp8:.17e}, fp4: {fp4:.17e}}}
  memory_bytes_per_s: {memory_bytes_per_s:.17e}
  memory_bytes: 192.0e+9
"""
    return parse_hardware(text, source="published_models.py")


def crossing(rising: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Return where a rising function reaches a level, by bisection."""
    assert rising(low) < level < rising(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return high


def one_block(core: Core | None, *linears: Linear, kv_dtype: str = "bf16") -> Architecture:
    """Return a model of one layer with one block and a head of one weight, for one formula."""
    name = "feed_forward" if core is None or isinstance(core, Experts) else "attention"
    return Architecture(
        name="one block",
        family="published",
        hidden_size=1,
        vocab_size=1,
        layers=(Layer((Block(name, linears, core),)),),
        head=Linear("lm_head", 1, 1, shard=TENSOR, kind="head"),
        kv_dtype=kv_dtype,
    )


def matrix(name: str, n_weights: int, weight: WeightFormat = BF16) -> Linear:
    """Return a matrix of which only the number of weights was published."""
    return Linear(name, n_weights, 1, weight, shard=TENSOR)


# --- Finn 2026 ---------------------------------------------------------------------------------


def v4_flash_latent() -> LatentAttention:
    """Return DeepSeek-V4-Flash's attention as plain absorbed MLA.

    64 heads, a latent of 512 and a rotary key of 64: 2 * 64 * (2 * 512 + 64) = 139 264 FLOP per
    pair, 576 elements per token. Source: Finn 2026, "The economics of speculative decoding".
    """
    return LatentAttention(n_heads=64, latent_dim=512, rope_dim=64)


def v4_flash_compressed() -> CompressedAttention:
    """Return DeepSeek-V4-Flash's HCA: the window of 128 raw tokens, one entry per 128 tokens.

    64 heads, entries of 512 of which 64 rotary. Source: Finn 2026, "The economics of speculative
    decoding"; window from the checkpoint's config.
    """
    return CompressedAttention(n_heads=64, entry_dim=512, rope_dim=64, window=128, ratio=128)


def chart_v4_flash() -> Architecture:
    """Return the one layer of DeepSeek-V4-Flash that stands for all 43 in the chart.

    107 million attention weights in FP8; plain MLA with an FP8 cache; 256 experts, 6 of them and
    a shared one per token, 25.2 million weights each at 0.53 bytes, one matmul for all of them.
    Source: Finn 2026, "The economics of speculative decoding", constants of the chart.
    """
    experts = Experts(
        n_experts=256,
        top_k=6,
        in_features=8_400_000,  # with one hidden feature and three matrices: 25.2 million weights
        hidden_features=1,
        weight=chart_mxfp4(),
        n_shared=1,
    )
    attention = Block("attention", (matrix("proj", 107_000_000, PLAIN_FP8),), v4_flash_latent())
    model = one_block(None, kv_dtype="fp8")
    return replace(
        model,
        name="DeepSeek-V4-Flash, chart",
        layers=(Layer((attention, Block("feed_forward", (), experts))),),
    )


def chart_mxfp4() -> WeightFormat:
    """Return MXFP4 as the chart rounds it: 0.53 bytes for 0.5 + 1/32."""
    return WeightFormat("mxfp4 of the chart", 0.53, "fp4")


def simulated_qwen36() -> Architecture:
    """Return Qwen3.6-35B-A3B by the parameter split of the simulator inference-lab, all bf16.

    40 layers with 256 experts, 8 of them and a shared one per token, 3 * 2048 * 512 weights each:
    1 132 462 080 routed parameters active and 32 338 083 840 resident, the shared ones included.
    1 725 693 952 other parameters that every token multiplies, LM head included. Ten layers of
    attention with 16 query heads, 2 KV heads and a width of 256. Thirty layers with a state of
    1 114 112 bytes, which are 557 056 bf16 values, and no arithmetic on it: one value head of
    557 056 values with a key of width 0 and one convolution column stands for them.
    Source: github.com/doublewordai/inference-lab, commit 24d401127, catalog/models.
    """
    full = Block("attention", (), GroupedQueryAttention(16, 2, head_dim=256, value_dim=256))
    state_only = GatedDeltaNet(
        n_key_heads=0, n_value_heads=1, key_dim=0, value_dim=557_056, conv_kernel=1, conv_columns=1
    )
    experts = Block("feed_forward", (), Experts(256, 8, 2048, 512, n_shared=1))
    others = Block("feed_forward", (matrix("others", 1_725_693_952),))
    return replace(
        one_block(None),
        name="Qwen3.6-35B-A3B, simulator",
        layers=(
            Layer((full, experts), 10),
            Layer((Block("attention", (), state_only), experts), 30),
            Layer((others,)),
        ),
    )


# --- Modal 2026 --------------------------------------------------------------------------------


def calculator_v4(name: str) -> Architecture:
    """Return DeepSeek-V4-Flash or -Pro by the sizes that reproduce Modal's calculator.

    Attention and indexer projections in plain FP8, experts and the shared one in MXFP4 (0.53125
    bytes) as one matmul, FP8 cache, entries of 512 + 64; the indexer has 64 heads of 128 and
    query rank * 64 * 128 + hidden size * 64 weights. LM head in bf16, vocabulary 129 280.
    """
    sizes = published("modal-2026-calculator.yaml")["options"]["sizes"][name]
    hidden_size = sizes["hidden_size"]
    n_experts, inner = sizes["experts"]
    moe = Block(
        "feed_forward",
        (),
        Experts(n_experts, 6, hidden_size, inner, WEIGHT_FORMATS["mxfp4"], n_shared=1),
    )
    projections = matrix("proj", sizes["attention_weights"], PLAIN_FP8)
    scorer = matrix("indexer_proj", sizes["query_rank"] * 64 * 128 + hidden_size * 64, PLAIN_FP8)

    def layer(ratio: int, count: int) -> Layer:
        sparse = ratio == 4
        core = CompressedAttention(
            sizes["n_heads"],
            entry_dim=512,
            rope_dim=64,
            window=128,
            ratio=ratio,
            indexer=Indexer(n_heads=64, head_dim=128, top_k=sizes["top_k"]) if sparse else None,
        )
        linears = (projections, scorer) if sparse else (projections,)
        return Layer((Block("attention", linears, core), moe), count)

    return Architecture(
        name=f"{name}, calculator",
        family="deepseek_v4",
        hidden_size=hidden_size,
        vocab_size=129_280,
        layers=tuple(layer(ratio, count) for ratio, count in sizes["layers"].items()),
        head=Linear("lm_head", hidden_size, 129_280, shard=TENSOR, kind="head"),
        kv_dtype="fp8",
    )


def calculator_qwen35_27b(*, gated: bool = False) -> Architecture:
    """Return Qwen3.5-27B as Modal's calculator has it (reconstructed), all bf16.

    Hidden size 5120. 16 layers of attention with 24 query heads, 4 KV heads, width 256 and
    73 400 320 weights, the query projection ungated; 48 layers of Gated DeltaNet with 16 key and
    48 value heads of 128, 115 343 360 weights, no projections to b and a, 4 convolution columns:
    a state of 1 654 784 bytes. 267 386 880 feed-forward weights per layer. LM head 1 271 398 400.

    With `gated`, what the checkpoint has besides: the query projection's gate, 5120 * 6144
    weights, and b and a, 2 * 48 * 5120.
    """
    gate, write_and_decay = (5120 * 6144, 2 * 48 * 5120) if gated else (0, 0)
    mlp = Block("feed_forward", (matrix("mlp", 267_386_880),))
    full = Block(
        "attention",
        (matrix("proj", 73_400_320 + gate),),
        GroupedQueryAttention(24, 4, head_dim=256, value_dim=256),
    )
    linear = Block(
        "attention",
        (matrix("proj", 115_343_360 + write_and_decay),),
        GatedDeltaNet(16, 48, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=4),
    )
    return Architecture(
        name="Qwen3.5-27B, calculator",
        family="qwen3_5",
        hidden_size=5120,
        vocab_size=248_320,
        layers=(Layer((full, mlp), 16), Layer((linear, mlp), 48)),
        head=Linear("lm_head", 5120, 248_320, shard=TENSOR, kind="head"),
        state_dtype="bf16",
    )


# --- a model, looked at differently ------------------------------------------------------------


def with_counted_head(model: Architecture) -> Architecture:
    """Return the model with an LM head that ``count="attention+ffn"`` does not leave out."""
    return replace(model, head=replace(model.head, kind="dense"))


def with_shared_experts_among_the_routed(model: Architecture) -> Architecture:
    """Return a model with one shared expert, that expert in the routed ones' format and matmul."""

    def merged(block: Block) -> Block:
        if not isinstance(block.core, Experts):
            return block
        linears = tuple(linear for linear in block.linears if not linear.name.startswith("shared_"))
        return replace(block, linears=linears, core=replace(block.core, n_shared=1))

    layers = tuple(
        replace(layer, blocks=tuple(merged(block) for block in layer.blocks))
        for layer in model.layers
    )
    return replace(model, layers=layers)
