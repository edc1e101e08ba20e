/* kernels.c - the types whose attention axolotl's kernels of adapters can be put into. */
#include "models/kernels.h"

#include "base/name.h"

/*
 * axolotl 0.19.0 monkeypatch/lora_kernels.py get_attention_cls_from_config(): QKV_PATCHES and ORIGINAL_O_CODE are found in the text of its forward, of
 * transformers 5.16.1, which it pins, and 5.23.0; read by program on 2026-11-27.
 */
static const char patched[] =
    "apertus;arcee;bamba;cohere2;cwm;dots1;ernie4_5;ernie4_5_moe;exaone4;exaone_moe;gemma;gemma2;gemma3;gemma3_text;glm;glm4;gpt_oss;granite;granitemoe;"
    "granitemoehybrid;granitemoeshared;helium;hunyuan_v1_dense;hunyuan_v1_moe;hy_v3;jamba;llama;ministral;ministral3;mistral;mixtral;nanochat;nemotron;"
    "qwen2;qwen2_moe;qwen3;qwen3_moe;qwen3_next;seed_oss;smollm3;solar_open;vaultgemma";
/* nn.LayerNorm is fp32 under autocast: "self and mat2 must have the same dtype" of addmm_() (traced). */
static const char cast[] = "jais2;phimoe;starcoder2";
/* The gated delta rule's projections too, or an attention of axolotl's own. */
static const char unread[] = "gemma4;gemma4_text;nemotron_h;qwen3_5;qwen3_5_text;qwen3_5_moe;qwen3_5_moe_text";

enum lora_kernels_fit lora_kernels_fit(const char *model_type)
{
    if (name_in_list(model_type, patched))
        return LORA_KERNELS_FIT;
    if (name_in_list(model_type, cast))
        return LORA_KERNELS_CAST;
    return name_in_list(model_type, unread) ? LORA_KERNELS_UNREAD : LORA_KERNELS_RAISE;
}
