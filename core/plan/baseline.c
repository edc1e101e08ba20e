#include "plan/baseline.h"

#include "config/arch.h"
#include "stack/release.h"
#include "train/inventory.h"
#include "train/recipe.h"

#include <string.h>

/* Families whose CausalLM of transformers 4.29.2 hands the loss fp32 logits: lm_head(hidden).to(torch.float32) in modeling_codegen.py and
 * modeling_gptj.py, lm_logits.to(torch.float32) in modeling_gpt_neo.py. */
static bool upcasts_logits(enum family family)
{
    return family == FAMILY_CODEGEN || family == FAMILY_GPT_NEO || family == FAMILY_GPTJ;
}

/* dp_real.py, tp_real.py: lm_fp32 */
static bool named_so(const char *id)
{
    return strstr(id, "codegen") || strstr(id, "neo");
}

static enum llmem_kind kind_of(const struct tensor_info *t)
{
    bool bias = t->ndim == 1;

    if (t->kind == MODULE_EMBEDDING)
        return LLMEM_EMBEDDING;
    if (t->kind == MODULE_LINEAR)
        return bias ? LLMEM_LINEAR_BIAS : LLMEM_LINEAR_WEIGHT;
    return LLMEM_OTHER;
}

static uint32_t list_tensors(const struct inventory *v, struct llmem_tensor *ret)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->n; i++) {
        const struct tensor_info *t = &v->rows[i];

        if (!t->buffer)
            ret[n++] = (struct llmem_tensor){
                .elems = t->elems,
                .kind = kind_of(t),
                .input_embedding = t->input_embeddings,
                .lm_head = t->output_embeddings,
                .tied = t->tied_to != NULL,
            };
    }
    return n;
}

/* What AutoModelForCausalLM builds, whatever class the config names: in which dtype is nobody's question, so it is that of most candidates, whose model this
 * is then, too (models/program_stand.c). The newest stack has every family. */
static enum err_code list_model(const struct arch *arch, struct arena *arena, struct inventory *ret, struct err *err)
{
    struct step step = {.r = {.precision = PRECISION_BF16_AUTOCAST, .tuning = TUNING_FULL, .seq_len_tokens = 1, .micro_batch_size = 1}};
    struct arch causal = *arch;
    struct stack newest = {0};
    enum err_code rc = stack_complete(&newest, err);

    if (rc)
        return rc;
    step.r.stack = newest;
    step.quirks = quirks_for(&step.r.stack, arch->model_type);
    causal.architecture = "";
    return inventory_of(&causal, &step, arena, ret, err);
}

enum err_code baseline_model(const struct arch *arch, const char *model_id, struct arena *arena, struct llmem_model *ret, struct err *err)
{
    struct inventory v = {0};
    struct llmem_tensor *tensors;
    enum err_code rc = list_model(arch, arena, &v, err);

    if (rc)
        return rc;
    tensors = arena_array(arena, struct llmem_tensor, v.n + 1);
    if (!tensors)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for LLMem's list of tensors");
    *ret = (struct llmem_model){
        .tensors = tensors,
        .n = list_tensors(&v, tensors),
        .layers = arch->layers,
        .hidden = arch->hidden,
        .ffn = arch->ffn,
        .vocab = arch->vocab,
        .embed_dim = arch->embed_dim,
        .logits_fp32 =
            {[LLMEM_PAPER] = upcasts_logits(arch->family), [LLMEM_REPOSITORY] = named_so(model_id ? model_id : arch->model_type)},
    };
    return ERR_OK;
}

enum err_code baseline_answer(const struct baseline_question *q, struct arena *scratch, struct llmem_answer *ret, struct err *err)
{
    unsigned char *mark = scratch->cur;
    struct llmem_question asked = {
        .variant = q->variant,
        .seq_len_tokens = q->seq_len_tokens,
        .gpus = q->gpus,
        .tensor_parallel = q->tensor_parallel,
        .micro_batch_size = q->micro_batch_size,
        .base_bytes = q->base_bytes,
        .capacity_bytes = q->capacity_bytes,
    };
    enum err_code rc = baseline_model(q->arch, q->model_id, scratch, &asked.model, err);

    if (!rc) {
        memcpy(asked.left_out, q->left_out, sizeof asked.left_out);
        llmem_answer(&asked, ret);
    }
    arena_rewind(scratch, mark);
    return rc;
}
