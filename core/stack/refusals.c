#include "stack/refusals.h"

#include <string.h>

static const struct row {
    enum refusal what;
    const char *model_type;
    release from, until; /* until: the first release that takes it */
} rows[] = {
    /* modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py: "You are attempting to perform batched generation with padding_side='right'" */
    {REFUSAL_PADDING_RIGHT, "mistral", 0, 4053},
    {REFUSAL_PADDING_RIGHT, "qwen2", 0, 4042},
    {REFUSAL_PADDING_RIGHT, "qwen2", 4049, 4053},
    {REFUSAL_PADDING_RIGHT, "qwen3", 0, 4053},
    /* configuration_llama.py, configuration_gpt_neox.py _rope_scaling_validation */
    {REFUSAL_ROPE, "llama", 0, 4043},
    {REFUSAL_ROPE, "gpt_neox", 0, 4045},
    /* modeling_*.py, __init__ of the attention: "hidden_size must be divisible by num_heads" */
    {REFUSAL_UNEVEN_HEADS, "llama", 0, 4045},
    {REFUSAL_UNEVEN_HEADS, "mistral", 0, 4043},
    {REFUSAL_UNEVEN_HEADS, "qwen2", 0, 4048},
    /* configuration_*.py validate_architecture(): 5.4.0 has it, 5.3.0 not; of later types from their first release on */
    {REFUSAL_UNEVEN_HEADS, "arcee", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "cwm", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "deepseek_v2", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "gemma2", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "gemma3_text", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "internlm3", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "llama", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "jais2", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "minicpm3", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "vaultgemma", 5004, NO_RELEASE},
};

release stack_refuses(enum refusal what, const char *model_type, const struct stack *s)
{
    for (const struct row *row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        if (row->what == what && !strcmp(row->model_type, model_type) && s->transformers >= row->from && s->transformers < row->until)
            return row->until;
    return 0;
}
