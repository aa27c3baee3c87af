"""Whether the head is the embedding table, which a multimodal file says at two levels.

Which level counts, by family, and how that is known:

- **the top** for Qwen3-VL, Qwen3.5, 3.6 and Qwen4-Exp, with experts or without: transformers puts
  the head beside the language model and asks the configuration of the whole (`lm_head` of
  `Qwen3VLMoeForConditionalGeneration`). The class of the text has another default, which a file
  saved again states: Qwen3-VL-MoE says true inside and false at the top, and its published
  checkpoints have separate heads.
- **either** for GLM-4.5V, MiniMax-M3 and Qwen2-VL: their configuration classes tie where one of
  both says so (`Glm4vMoeConfig`, `MiniMaxM3VLConfig`, `Qwen2VLConfig`, ``__post_init__``).
- **the text** for all others. Mistral 3 and Kimi K2.5: the default at the top is true, so that a
  file saved again states it, but the checkpoints have separate heads: 24.0 billion elements
  of Mistral Small 3.1 are 23.57 of its text with a head and 0.44 of its vision tower, and K2.5 is
  of the size of K2. Llama 4: the head is part of the language model
  (`Llama4ForConditionalGeneration`). In published files of Gemma 3 and 4 and of Kimi both levels
  agree, or neither says anything.

A level that says nothing leaves it to the other one, and then to the family's default.
"""

from typing import Final

from specroof.parsers.foreign import StatedReader
from specroof.reading.json_object import Reader

_KEY: Final = "tie_word_embeddings"
_TOP: Final = ("qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "qwen4_exp")
_EITHER: Final = ("glm4v_moe", "minimax_m3", "minimax_m3_vl", "qwen2_5_vl", "qwen2_vl")


def tied_embeddings(root: Reader, text: Reader, family: str, *, default: bool) -> bool:
    """Return whether head and embedding are one table.

    Parameters
    ----------
    root, text
        The whole file, and the keys of its language model, which may be the same.
    family
        The `model_type` of the language model.
    default
        Where neither says.

    Examples
    --------
    >>> top, text = Reader("c.json", {_KEY: False}), Reader("c.json", {_KEY: True})
    >>> tied_embeddings(top, text, "qwen3_vl_moe_text", default=False)
    False
    >>> tied_embeddings(top, text, "mistral", default=False)
    True
    """
    if isinstance(text, StatedReader) and not (root.has(_KEY) or text.has(_KEY)):
        text.expect(_KEY)
    family = family.removesuffix("_text")
    first, second = (root, text) if family in _TOP else (text, root)
    tied = first.flag(_KEY, default=second.flag(_KEY, default=default))
    if family in _EITHER:
        return tied or second.flag(_KEY, default=default)
    return tied
