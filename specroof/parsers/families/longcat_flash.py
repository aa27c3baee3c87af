"""LongCat-Flash: two latent attentions and two dense feed-forwards a layer, experts beside them.

Source
    LongCat-Flash report, arXiv:2509.01322, section 2; transformers 5.23,
    `models/longcat_flash/modeling_longcat_flash.py` and `configuration_longcat_flash.py`.
"""

from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import LayerPart, decoder, feed_forward_block, router
from specroof.parsers.families.deepseek_v3 import latent_block, latent_shape
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import MAX_LAYERS


def parse_longcat_flash(config: ModelConfig) -> Architecture:
    """Return a LongCat-Flash; each half of its layers is a layer here, as it is to its cache.

    Experts run beside the first half's dense feed-forward and all that is behind it. Of those that
    a token picks, some give back what they get and have no weights: as many as their share in all
    experts, where a token picks uniformly.
    """
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over(
        "attention_method mla_scale_kv_lora mla_scale_q_lora num_hidden_layers router_dtype "
        "zero_expert_type"
    )
    n_layers = keys.positive_int("num_layers", maximum=MAX_LAYERS // 2)
    latent = latent_shape(keys)
    width = keys.positive_int("intermediate_size", "ffn_hidden_size")
    n_experts = keys.positive_int("n_routed_experts")
    # configuration_longcat_flash.py: zero_expert_num 256
    n_rows = n_experts + keys.positive_int("zero_expert_num", minimum=0, default=256)
    picked = keys.positive_int("moe_topk", "num_experts_per_tok", maximum=n_rows)
    top_k = max(1, round(picked * n_experts / n_rows))
    expert_width = keys.positive_int("expert_ffn_hidden_size", "moe_intermediate_size")
    router_bias = keys.flag("router_bias", default=False)

    # Formats are those of the whole layer, whose matrices go by the number of the half.
    def formats(half: int) -> LayerWeights:
        return LayerWeights(config.quantization, half // 2)

    def attention(half: int, _: LayerWeights) -> Block:
        return latent_block(latent, formats(half), module=f"self_attn.{half % 2}")

    def experts(half: int, _: LayerWeights) -> Block | None:
        if half % 2:
            return None
        weights = formats(half)
        # They share the norm of the feed-forward; each row has a correction bias.
        return Block(
            "feed_forward",
            (router("router", hidden_size, n_rows, weights, bias=router_bias),),
            Experts(
                n_experts,
                top_k,
                hidden_size,
                expert_width,
                weight=weights("mlp.experts.0.gate_proj"),
            ),
            vector_params=n_rows,
            joins_next=True,
        )

    def feed_forward(half: int, _: LayerWeights) -> Block:
        module = f"mlps.{half % 2}"
        return feed_forward_block(hidden_size, width, formats(half), module=module)

    halves = range(2 * n_layers)
    note = (
        f"of the {picked} experts that a token picks, {top_k} are counted: "
        f"{n_rows - n_experts} of {n_rows} have no weights"
    )
    return decoder(
        config,
        LayerPart(halves, attention),
        LayerPart(halves, experts),
        LayerPart(halves, feed_forward),
        notes=(note,) if n_rows > n_experts else (),
    )
