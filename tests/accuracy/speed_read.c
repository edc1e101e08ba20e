/* speed_read.c - rows of speed.jsonl: requests become steps and systems, steps become costs. */
#include "tests/support/programs.h"
#include "tests/accuracy/speed.h"

#include "base/json.h"
#include "catalog/gpus.h"
#include "config/arch.h"
#include "plan/system.h"
#include "stack/release.h"
#include "train/timing.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 1 << 16 };
static const size_t ROOM = (size_t)1 << 30, MODEL_ROOM = (size_t)64 << 20;

/* ----------------------------------------------------------------------------------------------------------- reading */
static const char *text(const struct json *o, const char *key, const char *otherwise)
{
    const struct json *v = json_get(o, key);
    const char *s = v ? json_str(v) : NULL;

    return s ? s : otherwise;
}

static double number(const struct json *o, const char *key, double otherwise)
{
    const struct json *v = json_get(o, key);

    (void)(v && json_number(v, &otherwise));
    return otherwise;
}

static enum tri tri(const struct json *o, const char *key)
{
    bool b = false;

    return !json_get(o, key) || !json_bool(json_get(o, key), &b) ? TRI_UNSET : b ? TRI_TRUE : TRI_FALSE;
}

/* The index of a word in a list that begins with the one left out. */
static int word(const char *s, const char *const *words)
{
    for (int i = 1; words[i]; i++)
        if (!strcmp(words[i], s))
            return i;
    return 0;
}

static void read_lora(const struct json *o, struct lora *l, const char **targets)
{
    static const char *const dtypes[] = {"", "fp32", "bf16", "fp16", NULL};

    l->rank = (uint32_t)number(o, "rank", 0);
    l->dropout = number(o, "dropout", 0);
    l->dtype = (enum lora_dtype)word(text(o, "dtype", ""), dtypes);
    json_each(t, json_get(o, "target_modules"))
        targets[l->n_targets++] = json_str(t);
    l->targets = targets;
}

static bool read_stack(const struct json *o, struct stack *s, struct err *err)
{
    for (int p = 0; p < PACKAGE_COUNT; p++) {
        const char *v = text(o, package_name((enum package)p), NULL);

        if (v && stack_name(s, (enum package)p, v, err)) /* older than the first known: the first answers */
            *err = (struct err){0};
    }
    return stack_complete(s, err) == ERR_OK;
}

static void read_recipe(const struct json *t, struct recipe *r, const char **targets)
{
    static const char *const precisions[] = {"", "bf16", "bf16-autocast", "bf16-mixed", "fp16", "fp16-autocast", "fp16-mixed", "fp32", NULL};
    static const char *const optimizers[] = {"", "adamw_torch", "adamw_torch_fused", "adamw_torch_loop", "sgd", NULL};
    static const char *const kernels[] = {"", "sdpa", "eager", "flash_attention_2", NULL};

    r->seq_len_tokens = (uint32_t)number(t, "seq_len", 0);
    r->micro_batch_size = (uint32_t)number(t, "micro_batch_size", 1);
    r->tuning = strcmp(text(t, "tuning", "full"), "lora") ? TUNING_FULL : TUNING_LORA;
    r->precision = (enum precision)word(text(t, "precision", ""), precisions);
    r->optimizer = (enum optimizer)word(text(t, "optimizer", ""), optimizers);
    r->attention = (enum attention)word(text(t, "attention", ""), kernels);
    r->max_grad_norm = number(t, "max_grad_norm", -1);
    r->gradient_checkpointing = tri(t, "gradient_checkpointing");
    r->checkpoint_reentrant = tri(t, "checkpoint_reentrant");
    r->use_cache = tri(t, "use_cache");
    r->padded = tri(t, "padded") == TRI_TRUE;
    if (r->tuning == TUNING_LORA)
        read_lora(json_get(t, "lora"), &r->lora, targets);
}

static bool read_system(const struct json *c, struct device *device, struct perf_system *ret, struct err *err)
{
    struct system_request a = {
        .gpu = gpu_find(text(c, "gpu", "")),
        .cluster = cluster_find(text(c, "name", "")),
        .intra_node = text(c, "intra_node", NULL),
        .inter_node = text(c, "inter_node", NULL),
        .gpus_per_node = (unsigned)number(c, "gpus_per_node", 1),
        .nodes = (unsigned)number(c, "nodes", 1),
    };
    struct gpu_notes gpu_notes;
    struct system_notes notes;

    if (!a.gpu && a.cluster)
        a.gpu = gpu_find(a.cluster->gpu);
    if (!a.gpu || !gpu_device(a.gpu, device, &gpu_notes))
        return false;
    a.device = *device;
    return plan_system(&a, ret, &notes, err) == ERR_OK;
}

static uint64_t elems(const struct json *buckets, const char *key)
{
    double n = number(buckets, key, -1);

    return n < 0 ? ELEMS_UNSET : (uint64_t)n;
}

static void read_sharding(const struct json *t, const struct json *stack, struct recipe *r)
{
    static const char *const offloads[] = {"none", "optimizer", "optimizer+params", NULL};
    static const char *const reductions[] = {"", "fp32", "bf16", NULL};
    const struct json *b = json_get(t, "buckets");

    r->offload = (enum offload)word(text(t, "offload", "none"), offloads);
    r->shard_group = (uint32_t)number(t, "shard_group", 0);
    r->fsdp.reduce_dtype = (enum half_or_full)word(text(t, "reduce_dtype", ""), reductions);
    r->zero = (struct zero_recipe){
        .reduce_elems = elems(b, "reduce_elems"),
        .allgather_elems = elems(b, "allgather_elems"),
        .prefetch_elems = elems(b, "prefetch_elems"),
        .max_live_elems = elems(b, "max_live_elems"),
        .sub_group_elems = elems(b, "sub_group_elems"),
        .persistence_elems = elems(b, "persistence_elems"),
        .zero_init = tri(stack, "zero_init"),
    };
}

/* false: no program plays it. */
static bool read_method(const struct json *t, const struct json *stack, unsigned n_gpus, struct recipe *r)
{
    r->method = method_named(text(t, "methods", "single"));
    r->tensor_parallel = (uint32_t)number(t, "tensor_parallel", 1);
    r->pipeline_parallel = (uint32_t)number(t, "pipeline_parallel", 1);
    r->data_parallel = n_gpus / (r->tensor_parallel * r->pipeline_parallel);
    read_sharding(t, stack, r);
    r->gradient_accumulation_steps = (uint32_t)(number(t, "global_batch_size", 0) / r->micro_batch_size / r->data_parallel);
    r->gradient_accumulation_steps += !r->gradient_accumulation_steps;
    return r->method < METHOD_COUNT && method_is_modelled(r->method);
}

/* The log of the step stays in `arena`; its model, and what is kept of that, in `model`. */
static bool read_cost(const struct json *c, struct speed_row *row, const struct device *device, struct arena *arena, struct arena *model, struct err *err)
{
    const struct json *t = json_get(c, "training"), *stack = json_get(c, "stack");
    const char **targets = arena_array(arena, const char *, 16);
    struct recipe r = {.flash_attn_named = json_get(stack, "flash_attn") != NULL,
                       .framework = strcmp(text(stack, "framework", "transformers"), "transformers") ? FRAMEWORK_TORCH : FRAMEWORK_TRANSFORMERS};
    struct arch arch;
    struct step step;

    if (arch_read(json_get(c, "config"), model, &arch, err) || !read_stack(stack, &r.stack, err))
        return false;
    read_recipe(t, &r, targets);
    if (!read_method(t, stack, row->n_gpus, &r)) {
        row->unmodelled = true;
        return false;
    }
    return !train_resolve(&r, &arch, device, arena, &step, err) && !train_cost(&arch, &step, device, arena, &row->cost, err);
}

static void read_row(const struct json *c, struct speed_row *row, struct arena *arena, struct arena *model)
{
    struct device device;
    struct err err = {0};

    *row = (struct speed_row){.published = number(c, "tokens_per_s", 0), .n_gpus = (unsigned)number(c, "n_gpus", 1)};
    (void)snprintf(row->id, sizeof row->id, "%s", text(c, "id", ""));
    (void)snprintf(row->source, sizeof row->source, "%s", text(c, "source", ""));
    row->answered = !strcmp(text(c, "use", ""), "answer");
    row->refused = !read_system(json_get(c, "cluster"), &device, &row->system, &err) || !read_cost(c, row, &device, arena, model, &err);
    if (row->refused && !row->unmodelled)
        fprintf(stderr, "%s: %s %s\n", row->id, err.at, err.detail);
}

bool speed_read(struct speed_rows *ret)
{
    static char line[LINE];
    FILE *f = fopen("tests/data/accuracy/speed.jsonl", "r");
    struct arena arena, model;
    void *block = malloc(ROOM), *of_model = malloc(MODEL_ROOM);

    if (!f || !block || !of_model)
        return false;
    arena_init(&arena, block, ROOM);
    ret->n = 0;
    while (ret->n < SPEED_MAX_ROWS && fgets(line, sizeof line, f)) {
        struct json_limits limits = {.bytes = sizeof line, .depth = JSON_MAX_DEPTH, .values = 1 << 12};
        struct json *c;
        struct err err = {0};

        if (json_parse(line, strlen(line), &limits, &c, &err)) {
            fprintf(stderr, "speed.jsonl: %s\n", err.detail);
            break;
        }
        arena_init(&model, of_model, MODEL_ROOM);
        read_row(c, &ret->row[ret->n++], &arena, &model);
        json_free(c);
    }
    free(of_model);
    return fclose(f) == 0 && ret->n > 0;
}
