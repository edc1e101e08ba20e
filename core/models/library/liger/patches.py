"""What apply_liger_kernel_to_* of liger-kernel 0.8.5's monkey_patch.py does to a model that stands, type by type."""

BOTH = ("input_layernorm", "post_attention_layernorm")
FOUR = BOTH + ("pre_feedforward_layernorm", "post_feedforward_layernorm")
AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
HEADS = ("self_attn.q_norm", "self_attn.k_norm")
LATENTS = ("self_attn.q_a_layernorm", "self_attn.kv_a_layernorm")

# Which gate, which norms of a layer, whether the gradient of one is written over the gradient of its result (of the layers', of the last).
# The release in which the function came, as its minor number.
PATCHES = {
    "llama": ("swiglu", BOTH, True, True, 3),
    "mistral": ("swiglu", BOTH, True, True, 3),
    "ministral": ("swiglu", BOTH, True, True, 8),
    "qwen2": ("swiglu", BOTH, True, True, 3),
    "qwen3": ("swiglu", BOTH + HEADS, True, True, 5),
    "smollm3": ("swiglu", BOTH, True, True, 6),
    "gemma": ("geglu", BOTH, True, True, 3),
    "gemma2": ("geglu", FOUR, False, False, 3),
    "gemma3_text": ("geglu", FOUR + HEADS, False, False, 5),
    "phi3": ("swiglu", BOTH, True, True, 3),
    "olmo2": ("swiglu", AFTER, False, True, 5),
    "olmo3": ("swiglu", AFTER, False, True, 6),
    "exaone4": ("swiglu", AFTER + HEADS, False, False, 6),
    "glm4": ("swiglu", BOTH + ("post_self_attn_layernorm", "post_mlp_layernorm"), False, False, 5),
    "granite": ("swiglu", BOTH, True, True, 5),
    "mixtral": ("swiglu", BOTH, True, True, 3),
    "qwen3_moe": ("swiglu", BOTH + HEADS, True, True, 5),
    "gpt_oss": (None, BOTH, True, True, 6),
    "qwen3_next": ("swiglu", BOTH + HEADS, False, False, 8),
    "qwen3_5_text": ("swiglu", BOTH + HEADS, False, False, 8),
    "deepseek_v2": ("swiglu", BOTH + LATENTS, True, True, 8),
    "deepseek_v3": ("swiglu", BOTH + LATENTS, True, True, 8),
    "falcon_h1": ("swiglu", ("input_layernorm", "pre_ff_layernorm"), True, True, 8),
    "nemotron": ("relu_squared", (), False, False, 8),
}
# Norms whose weight counts from one and is cast: LigerRMSNormForGemma*, LigerRMSNormForQwen3Next.
FROM_ONE = ("gemma", "gemma2", "gemma3_text", "qwen3_next", "qwen3_5_text")
# Norms of heads came later than the function: 0.7.0 leaves qwen3_moe's.
HEADS_SINCE = {"qwen3_moe": 8}
# What raises NotImplementedError there.
RAISES = {"glm4": "rope", "granite": "fused_linear_cross_entropy", "qwen3_5_text": "rope"}
# What 0.8.5 cannot load beside transformers 5.23: model/output_classes.py has no LigerQwen3_5MoeCausalLMOutputWithPast there.
FAILS = ("qwen3_5_moe", "qwen3_5_moe_text")
# rope is left as it is, with a warning: interleaved and partial.
KEEPS_ROPE = ("deepseek_v2", "deepseek_v3")
# Their functions set CrossEntropyLoss of the modelling file, which since loss_by_function reads no such name; before 0.4.1 all functions did.
NAMES_CROSS_ENTROPY = ("mistral", "ministral", "nemotron")
# Chunks of logits as large as so many times all hidden states: model/gpt_oss.py _GPT_OSS_FLCE_CHUNK_MEM_CONST.
CHUNK_MEMORY = {"gpt_oss": 8}
# Types whose function came before 0.8 and did something else there.
OTHERWISE_BEFORE = {"falcon_h1": 8, "qwen3_next": 8, "gpt_oss": 8}

# The other types of 0.8.5's MODEL_TYPE_TO_APPLY_LIGER_FN: their classes or losses have no program here.
UNREAD = (
    "deepseek_v4", "gemma3", "gemma4", "gemma4_text", "glm4v", "glm4v_moe", "hunyuan_v1_dense", "hunyuan_v1_moe", "internvl", "llama4", "llama4_text",
    "llava", "mllama", "mllama_text_model", "muse_glimmer", "paligemma", "pixtral", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl",
    "qwen2_vl_text", "qwen3_5", "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_vl_text", "smolvlm")
