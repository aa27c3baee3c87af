"""The first layers of a model, as an early exit drafts with them: LayerSkip, Kangaroo."""

import json

import pytest

from specroof import OptionError, load_model
from specroof.architecture.base import Linear
from specroof.architecture.model import Architecture, Block, Layer
from specroof.catalog.files import bundled
from specroof.parsers import parse_config

HYBRIDS = ["Qwen--Qwen3-Next-80B-A3B-Instruct", "openai--gpt-oss-120b", "Qwen--Qwen3-8B"]


def cut_off(stem: str, count: int) -> Architecture:
    """Return the model of a config that has the first layers only: another way to the same."""
    config = json.loads(bundled("model_configs", ".json")[stem].read_text(encoding="utf-8"))
    config["num_hidden_layers"] = count
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:count]
    return parse_config(json.dumps(config), source=f"{stem}.json")


@pytest.mark.parametrize("stem", HYBRIDS)
@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_first_layers_are_those_of_a_config_that_has_no_others(stem: str, count: int) -> None:
    first = load_model(stem.replace("--", "/")).first_layers(count)
    expected = cut_off(stem, count)
    assert first.n_layers == count
    assert first.layers == expected.layers
    assert first.n_params == expected.n_params
    assert first.first_layers(1).layers == cut_off(stem, 1).layers


def test_layers_of_a_model_built_by_hand_follow_each_other_as_listed() -> None:
    kinds = [Layer((Block("feed_forward", (Linear("up_proj", 8, n),)),), 2) for n in (16, 32)]
    model = Architecture("toy", "llama", 8, 9, tuple(kinds), Linear("lm_head", 8, 9))
    assert [layer.count for layer in model.first_layers(3).layers] == [2, 1]


@pytest.mark.parametrize("count", [0, 37, 2.0, True])
def test_other_counts_are_refused(count: int) -> None:
    with pytest.raises(OptionError, match=r"^count is .* from 1 to 36$"):
        load_model("Qwen/Qwen3-8B").first_layers(count)
