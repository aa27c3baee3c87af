"""What transformers makes of a config: its parameters, its cache, its arithmetic, its own file."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM, PreTrainedConfig

__all__ = [
    "cached_elements",
    "decode_flops",
    "model_config",
    "n_params",
    "saved_again",
    "text_model",
]

_TOP_K_KEYS = (
    *("num_experts_per_tok", "top_k_experts", "num_experts_per_token", "moe_top_k"),
    *("moe_topk", "moe_k"),
)
#: What holds the towers of Phi-4-multimodal, inside of its language model.
_TOWERS = ".embed_tokens_extend."
#: Experts of ERNIE 4.5 VL that no token of text visits; of Llama 3.2 Vision it skips layers.
_OF_IMAGES = ".vision_moe."
#: Types of a whole whose text class stands for flat files.
_TEXT_TYPES = {"minimax_m3_vl": "minimax_m3_vl_text", "llama4": "llama4_text"}


def model_config(values: Mapping[str, Any]) -> PreTrainedConfig:
    """Return a config file as transformers reads it; a flat one of a multimodal type as text."""
    keys = dict(values)
    model_type = keys.pop("model_type")
    if "text_config" not in keys:
        model_type = _TEXT_TYPES.get(model_type, model_type)
    return CONFIG_MAPPING[model_type].from_dict(keys)


def saved_again(config: PreTrainedConfig) -> str:
    """Return the file that transformers writes."""
    return str(config.to_json_string())


def text_model(config: PreTrainedConfig, device: str) -> torch.nn.Module:
    """Return the language model, in plain arithmetic of single experts, on a device."""
    text = config.get_text_config()
    text.quantization_config = None
    del text.quantization_config
    options = {"attn_implementation": "eager", "experts_implementation": "eager"}
    with torch.device(device):
        try:
            model = AutoModelForCausalLM.from_config(text, **options)
        except ValueError:
            # Text classes without a head of their own: the class of the whole has it.
            model = _WithHead(_headless(text, options), config)
    return model.eval()


def _headless(text: PreTrainedConfig, options: Mapping[str, str]) -> torch.nn.Module:
    """Return a text model without its head, of a class that the auto classes may not know."""
    try:
        return AutoModel.from_config(text, **options)
    except ValueError:
        beside = type(text).__module__.replace("configuration_", "modeling_")
        classes = vars(import_module(beside)).items()
        own = next(model for name, model in classes if name.endswith("TextModel"))
        return own._from_config(text, **options)  # noqa: SLF001 - no class has a public one


class _WithHead(torch.nn.Module):
    """A language model with the head that the class of the whole puts beside it."""

    def __init__(self, model: torch.nn.Module, config: PreTrainedConfig) -> None:
        super().__init__()
        text = config.get_text_config()
        self.model = model
        self.config = text
        self.lm_head = torch.nn.Linear(text.hidden_size, text.vocab_size, bias=False)
        if getattr(config, "tie_word_embeddings", False):
            self.lm_head.weight = model.get_input_embeddings().weight

    def forward(self, input_ids: torch.Tensor, **options: Any) -> Any:
        """Return what the model does, with logits computed."""
        output = self.model(input_ids, **options)
        self.lm_head(output.last_hidden_state)
        return output


def n_params(model: torch.nn.Module) -> tuple[int, int]:
    """Return stored elements, persistent buffers included, and those that one token uses."""
    stored = {id(tensor): (name, tensor) for name, tensor in _tensors(model)}
    total = sum(tensor.numel() for _, tensor in stored.values())
    idle = sum(_idle(name, tensor, model.config) for name, tensor in stored.values())
    return total, total - idle


def _tensors(model: torch.nn.Module) -> Any:
    tensors = model.state_dict(keep_vars=True).items()
    return [(name, tensor) for name, tensor in tensors if _TOWERS not in name]


def _idle(name: str, tensor: torch.Tensor, config: PreTrainedConfig) -> int:
    """Return the elements of the experts that a token does not visit."""
    crossing = getattr(config, "cross_attention_layers", ())
    if _OF_IMAGES in name or any(f".layers.{index}." in name for index in crossing):
        return tensor.numel()
    if ".experts." not in name or tensor.dim() == 1:  # a norm that all experts share
        return 0
    top_k = next(getattr(config, key) for key in _TOP_K_KEYS if getattr(config, key, None))
    n_experts = tensor.shape[0]
    return tensor.numel() * (n_experts - top_k) // n_experts


def decode_flops(model: torch.nn.Module, context_len: int) -> tuple[int, Any]:
    """Return the FLOP of matmuls of one token after some, and the cache that it has then."""
    torch.manual_seed(0)
    tokens = torch.randint(5, model.config.vocab_size, (1, context_len + 1))
    with torch.no_grad():
        output = model(tokens[:, :-1], use_cache=True)
        cache = output.cache
        cached = cached_elements(cache)
        with FlopCounterMode(display=False) as counter:
            model(tokens[:, -1:], cache=cache, use_cache=True)
    return counter.get_total_flops(), cached


def cached_elements(cache: Any) -> int:
    """Return the elements that a cache holds of one sequence, whatever they are called."""
    seen: dict[int, int] = {}
    for layer in cache.layers:
        for value in vars(layer).values():
            for tensor in _flat(value):
                seen[id(tensor)] = tensor.numel()
    return sum(seen.values())


def _flat(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        # Counters of tokens and positions are no cache.
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _flat(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _flat(one)
