"""Small configs of the families that mix experts: DeepSeek-V2, GLM, MiniMax, MiMo and Step."""

from tiny_configs import TINY_EXPERTS, TINY_LATENT, Config

DEEPSEEK_V2: Config = {**TINY_LATENT, "model_type": "deepseek_v2"}
GLM_5: Config = {**TINY_LATENT, "model_type": "glm_moe_dsa"}
GLM_4_5: Config = {
    **TINY_EXPERTS,
    "model_type": "glm4_moe",
    "num_hidden_layers": 4,
    "n_routed_experts": 8,
}
MINIMAX_M2: Config = {**TINY_EXPERTS, "model_type": "minimax_m2", "intermediate_size": 32}
MINIMAX_M3: Config = {
    **TINY_EXPERTS,
    "model_type": "minimax_m3_vl",
    "num_hidden_layers": 4,
    "head_dim": 32,
    "intermediate_size": 24,
    "dense_intermediate_size": 96,
    "shared_intermediate_size": 40,
    "moe_layer_freq": [0, 1, 1, 1],
    "sparse_attention_config": {
        "use_sparse_attention": True,
        "sparse_attention_freq": [0, 0, 1, 1, 1],  # the last entry is a draft layer's
        "sparse_disable_index_value": [0, 0, 1, 1, 1],
        "sparse_num_index_heads": 2,
        "sparse_index_dim": 8,
        "sparse_topk_blocks": 3,
        "sparse_block_size": 16,
        "sparse_local_block": 1,
    },
}
#: MiMo-V2-Flash in small: keys wider than values, sliding layers with heads of their own.
MIMO: Config = {
    **TINY_EXPERTS,
    "model_type": "mimo_v2_flash",
    "num_hidden_layers": 3,
    "head_dim": 24,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "hybrid_layer_pattern": [0, 1, 1],
    "moe_layer_freq": [0, 1, 1],
    "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 24,
    "swa_v_head_dim": 16,
    "sliding_window": 128,
    "add_swa_attention_sink_bias": True,
    "add_full_attention_sink_bias": False,
}
#: Step-3.5-Flash in small: more query heads where the window is short, experts by a text.
STEP: Config = {
    **TINY_EXPERTS,
    "model_type": "step3p5",
    "num_hidden_layers": 4,
    "num_attention_groups": 2,
    "head_dim": 16,
    "layer_types": ["full_attention", "sliding_attention"] * 3,
    "sliding_window": 512,
    "attention_other_setting": {
        "attention_type": "sliding_attention",
        "num_attention_heads": 6,
        "num_attention_groups": 2,
        "head_dim": 16,
    },
    "use_head_wise_attn_gate": True,
    "moe_layers_enum": "2,3,4,5",
    "moe_num_experts": 8,
    "moe_top_k": 3,
    "share_expert_dim": 40,
}
