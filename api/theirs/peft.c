/*
 * Keys of peft's LoraConfig within training.lora.
 *
 * Source    peft 0.21.2, 0.16.0, 0.13.2 and 0.10.0 tuners/lora/config.py, config.py: every field is here (tests/data/members) or in the
 *           request's own table.
 */
#include "api/theirs/theirs.h"

const struct their_key peft_keys[] = {
    MOVES("lora_bias", "a bias of each adapter's second matrix"),
    MOVES_BUT("true|false|gaussian|orthogonal", "init_lora_weights", "adapters that are made of the weights"),
    MOVES("layer_replication", "layers that are repeated"),
    MOVES("trainable_token_indices", "rows of the embedding that are trained"),
    MOVES("use_qalora|use_bdlora|velora_config|monteclora_config|kasa_config|arrow_config|alora_invocation_tokens|megatron_config",
          "another kind of adapter"),
    MOVES("loftq_config|eva_config|corda_config|lora_ga_config", "adapters that are made of the weights"),
    MOVES_BUT("lora", "peft_type", "adapters other than LoRA"),
    MOVES("runtime_config", "peft's runtime options"),
    MOVES("ensure_weight_tying", "adapters that are tied"),
    KNOWN(
        "fan_in_fan_out|use_rslora|inference_mode|task_type|auto_mapping|peft_version|base_model_name_or_path|revision|"
        "megatron_core|qalora_group_size|adapter_name"),
    {0},
};
