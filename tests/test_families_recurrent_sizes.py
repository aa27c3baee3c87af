"""Parameters, cache and state bytes of the families with recurrent layers, by hand."""

from pathlib import Path

import pytest

from recurrent_models import (
    BUNDLED,
    FALCON_3B,
    FALCON_7B,
    FALCON_HALF,
    GRANITE_1B,
    GRANITE_TINY,
    H56,
    K3,
    KIMI,
    M1,
    M1_SHORT,
    NANO,
    NANO_FP4,
    SUPER,
    ULTRA,
    read,
)
from specroof.cost import kv_bytes_per_token, state_bytes

# --- parameters ----------------------------------------------------------------------------------

# Elements of the modules that transformers 5.23 (`models/*/modeling_*.py`) or, for Kimi K3, mlx-lm
# 0.32 (`models/kimi_k3.py`) builds from the whole config, correction biases of routers included.
# Active: without the experts that a token does not visit, (E - k) * matrices * width * input.
PARAMETERS = [
    # 26 layers * 248 experts * 3 * 1024 * 2304
    (KIMI, 49_122_681_728, 26 * 248 * 3 * 1024 * 2304),
    # 92 layers * 880 experts * 3 * 3072 * 3584, on the latent
    (K3, 2_779_484_476_000, 92 * 880 * 3 * 3072 * 3584),
    (H56, 56_324_350_464, 0),
    # 23 layers * 122 experts of two matrices
    (NANO, 31_577_940_288, 23 * 122 * 2 * 1856 * 2688),
    (NANO_FP4, 31_577_940_288, 23 * 122 * 2 * 1856 * 2688),
    # 40 and 48 layers * 490 experts of two matrices on latents of 1024 and 2048
    (SUPER, 120_668_707_840, 40 * 490 * 2 * 2688 * 1024),
    (ULTRA, 549_308_993_536, 48 * 490 * 2 * 5120 * 2048),
    (M1, 456_089_655_296, 80 * 30 * 3 * 9216 * 6144),
    (M1_SHORT, 456_089_655_296, 80 * 30 * 3 * 9216 * 6144),
    (GRANITE_1B, 1_461_538_368, 0),
    (GRANITE_TINY, 6_939_037_248, 40 * 58 * 3 * 512 * 1536),
    (FALCON_HALF, 521_411_104, 0),
    (FALCON_3B, 3_149_256_192, 0),
    (FALCON_7B, 7_585_513_568, 0),
]


@pytest.mark.parametrize(("name", "total", "idle"), PARAMETERS)
def test_parameters_are_those_of_the_published_code(
    model_configs_folder: Path, name: str, total: int, idle: int
) -> None:
    model = read(model_configs_folder, name)
    assert model.n_params == total
    assert model.n_active_params == total - idle


def test_every_bundled_file_is_measured() -> None:
    assert [name for name, *_ in PARAMETERS] == list(BUNDLED)


# Billions in the name; some makers count both vocabulary matrices, some one, some none.
NAMED = [
    (KIMI, 48, 3),
    (H56, 56, 56),
    (NANO, 30, 3),
    (SUPER, 120, 12),
    (ULTRA, 550, 55),
    (M1, 456, 45.9),  # arXiv:2506.13585, abstract
    (GRANITE_1B, 1, 1),
    (GRANITE_TINY, 7, 1),  # its model card
    (FALCON_HALF, 0.5, 0.5),
    (FALCON_3B, 3, 3),
    (FALCON_7B, 7, 7),
]
# The card of Nemotron 3 Nano says 31.6 B of parameters, 3.6 B of them active.
ROUNDED_DOWN = {NANO: 31.6}


def explains(stated: float, counted: int, table: int) -> bool:
    """Whether a count, less no, one or two vocabulary matrices, rounds to what a name states."""
    last_digit = 0.1 if stated != int(stated) else 1.0
    slack = max(last_digit / 2, 0.01 * stated)
    return any(abs(stated - (counted - n * table) / 1e9) <= slack for n in (0, 1, 2))


@pytest.mark.parametrize(("name", "total", "active"), NAMED)
def test_parameters_explain_the_name(
    model_configs_folder: Path, name: str, total: float, active: float
) -> None:
    model = read(model_configs_folder, name)
    assert explains(ROUNDED_DOWN.get(name, total), model.n_params, model.embedding_params)
    assert explains(active, model.n_active_params, model.embedding_params)
    if name in ROUNDED_DOWN:  # else it need not be listed
        assert not explains(total, model.n_params, model.embedding_params)


# --- what a sequence keeps -----------------------------------------------------------------------

# Layers, times heads or latents, times width, times bytes; recurrent state in float32 and three
# columns of convolution in bfloat16.
KEPT = [
    (KIMI, 7 * (512 + 64) * 2, 20 * (32 * 128 * 128 * 4 + 3 * 32 * 128 * 3 * 2)),
    (K3, 24 * (512 + 64) * 2, 69 * (96 * 128 * 128 * 4 + 3 * 96 * 128 * 3 * 2)),
    (H56, 10 * 2 * 8 * 128 * 2, 54 * (256 * 64 * 256 * 4 + (16_384 + 2 * 8 * 256) * 3 * 2)),
    (NANO, 6 * 2 * 2 * 128 * 2, 23 * (64 * 64 * 128 * 4 + (4096 + 2 * 8 * 128) * 3 * 2)),
    (NANO_FP4, 6 * 2 * 2 * 128 * 1, 23 * (64 * 64 * 128 * 4 + (4096 + 2 * 8 * 128) * 3 * 2)),
    (SUPER, 8 * 2 * 2 * 128 * 2, 40 * (128 * 64 * 128 * 4 + (8192 + 2 * 8 * 128) * 3 * 2)),
    (ULTRA, 12 * 2 * 2 * 128 * 2, 48 * (256 * 64 * 128 * 4 + (16_384 + 2 * 8 * 128) * 3 * 2)),
    (M1, 10 * 2 * 8 * 128 * 2, 70 * 64 * 128 * 128 * 4),
    (GRANITE_1B, 4 * 2 * 4 * 128 * 2, 36 * (48 * 64 * 128 * 4 + (3072 + 2 * 128) * 3 * 2)),
    (GRANITE_TINY, 4 * 2 * 4 * 128 * 2, 36 * (48 * 64 * 128 * 4 + (3072 + 2 * 128) * 3 * 2)),
    (FALCON_HALF, 36 * 2 * 2 * 64 * 2, 36 * (24 * 64 * 128 * 4 + (1536 + 2 * 128) * 3 * 2)),
    (FALCON_3B, 32 * 2 * 2 * 128 * 2, 32 * (32 * 128 * 256 * 4 + (4096 + 2 * 256) * 3 * 2)),
    (FALCON_7B, 44 * 2 * 2 * 128 * 2, 44 * (24 * 128 * 256 * 4 + (3072 + 2 * 256) * 3 * 2)),
]


@pytest.mark.parametrize(("name", "token_bytes", "sequence_bytes"), KEPT)
def test_bytes_of_a_sequence_by_hand(
    model_configs_folder: Path, name: str, token_bytes: int, sequence_bytes: int
) -> None:
    model = read(model_configs_folder, name)
    assert kv_bytes_per_token(model) == token_bytes
    assert state_bytes(model) == sequence_bytes
