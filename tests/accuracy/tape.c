/*
 * tape.c - prints the tape of a run, one birth or death a line, to be laid beside the oracle's.
 *
 *   tape CONFIG.json OPTIONS.json STACK [figures]    STACK: new (2.15/5.23/0.21) or old (2.2/4.40/0.10); figures: those of a replay instead
 */
#include "tests/accuracy/accuracy.h"

#include "base/json.h"
#include "config/arch.h"
#include "stack/release.h"
#include "tests/support/traced.h"
#include "train/measure.h"
#include "train/trainer.h"
#include "tuning/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s = malloc(1 << 20);

    *n = f ? fread(s, 1, 1 << 20, f) : 0;
    if (f)
        (void)fclose(f);
    return s;
}

static const char *text(const struct json *o, const char *key, const char *otherwise)
{
    const struct json *v = json_get(o, key);
    const char *s = v ? json_str(v) : NULL;

    return s ? s : otherwise;
}

static bool flag(const struct json *o, const char *key)
{
    const struct json *v = json_get(o, key);

    bool b = false;

    return v && json_bool(v, &b) && b;
}

static double number(const struct json *o, const char *key, double otherwise)
{
    const struct json *v = json_get(o, key);

    (void)(v && json_number(v, &otherwise));
    return otherwise;
}

static enum precision precision_of(const char *s)
{
    static const char *const names[] = {"", "bf16", "bf16-autocast", "bf16-mixed", "fp16", "fp16-autocast", "fp16-mixed", "fp32"};

    for (int i = 1; i < 8; i++)
        if (!strcmp(s, names[i]))
            return (enum precision)i;
    return PRECISION_BF16;
}

static int figures(const struct arch *arch, const struct step *step, const struct device *device, struct arena *a)
{
    struct measured m;
    struct err err = {0};

    if (train_measure(arch, step, device, a, &m, &err)) {
        fprintf(stderr, "%s %s\n", err.at, err.detail);
        return 1;
    }
    printf("static %llu peak %llu reserved %llu resting %llu first %llu\n", (unsigned long long)m.static_bytes,
           (unsigned long long)m.peak_allocated_bytes, (unsigned long long)m.peak_reserved_bytes, (unsigned long long)m.resting_bytes,
           (unsigned long long)m.first_steps_peak_bytes);
    for (int i = 0; i < PHASE_COUNT; i++)
        printf("%s %llu\n", phase_name((enum phase)i), (unsigned long long)m.phase_peaks_bytes[i]);
    return 0;
}

int tape_main(int argc, char **argv)
{
    static const char *const stages[] = {"init",     "batch",     "forward", "loss",      "backward", "between",
                                         "clip",     "optimizer", "zero_grad", "rest"};
    size_t n, room = (size_t)1 << 31;
    struct arena a;
    struct json *config, *o;
    struct err err = {0};
    struct arch arch;
    struct step step = {0};
    struct recipe *r = &step.r;
    struct device device = {8, 0, 108, 2048, UINT64_C(84974239744), 0};
    struct trainer *t;
    const struct json *lora;
    char *s, buf[256];

    if (argc < 4)
        return 2;
    arena_init(&a, malloc(room), room);
    s = slurp(argv[1], &n);
    if (json_parse(s, n, &json_limits_config, &config, &err) || arch_parse(config, &a, &arch, &err)) {
        fprintf(stderr, "%s %s\n", err.at, err.detail);
        return 1;
    }
    s = slurp(argv[2], &n);
    if (json_parse(s, n, &json_limits_config, &o, &err)) {
        fprintf(stderr, "%s\n", err.detail);
        return 1;
    }
    if (strstr(argv[3], "new"))
        r->stack = traced_new;
    else
        r->stack = traced_old;
    step.quirks = quirks_of(&r->stack);
    r->seq_len_tokens = (uint32_t)number(o, "seq_len", 1024);
    r->micro_batch_size = (uint32_t)number(o, "micro_batch_size", 1);
    r->gradient_accumulation_steps = (uint32_t)number(o, "gradient_accumulation_steps", 1);
    r->precision = precision_of(text(o, "precision", "bf16"));
    if (!strcmp(text(o, "weights_dtype", ""), "bf16") && r->precision == PRECISION_BF16_MIXED)
        r->precision = PRECISION_BF16_AUTOCAST;
    r->gradient_checkpointing = flag(o, "gradient_checkpointing") ? TRI_TRUE : TRI_FALSE;
    r->checkpoint_reentrant = strstr(argv[3], "new") ? TRI_FALSE : TRI_TRUE;
    if (json_get(o, "use_reentrant") && json_type(json_get(o, "use_reentrant")) == JSON_BOOL)
        r->checkpoint_reentrant = flag(o, "use_reentrant") ? TRI_TRUE : TRI_FALSE;
    r->use_cache = strstr(argv[3], "new") && strcmp(text(o, "train_loop", ""), "plain") ? TRI_FALSE : arch.use_cache ? TRI_TRUE : TRI_FALSE;
    if (json_get(o, "use_cache") && json_type(json_get(o, "use_cache")) == JSON_BOOL)
        r->use_cache = flag(o, "use_cache") ? TRI_TRUE : TRI_FALSE;
    r->attention = !strcmp(text(o, "attention_used", text(o, "attention", "sdpa")), "eager") ? ATTENTION_EAGER
                   : !strcmp(text(o, "attention_used", text(o, "attention", "sdpa")), "flash_attention_2") ? ATTENTION_FLASH_2
                                                                                                           : ATTENTION_SDPA;
    r->padded = flag(o, "padded");
    r->max_grad_norm = number(o, "max_grad_norm", 1.0);
    r->optimizer = !strcmp(text(o, "optimizer", "adamw_torch"), "sgd")                 ? OPTIMIZER_SGD
                   : !strcmp(text(o, "optimizer", "adamw_torch"), "adamw_torch_fused") ? OPTIMIZER_ADAMW_TORCH_FUSED
                   : !strcmp(text(o, "optimizer", "adamw_torch"), "adamw_torch_loop")  ? OPTIMIZER_ADAMW_TORCH_LOOP
                                                                                       : OPTIMIZER_ADAMW_TORCH;
    r->tuning = !strcmp(text(o, "tuning", "full"), "lora") ? TUNING_LORA : TUNING_FULL;
    lora = json_get(o, "lora");
    r->lora.rank = lora ? (uint32_t)number(lora, "rank", 16) : 16;
    r->lora.dropout = lora ? number(lora, "dropout", 0) : 0;
    r->lora.dtype = lora && !strcmp(text(lora, "dtype", "fp32"), "bf16") ? LORA_DTYPE_BF16 : LORA_DTYPE_FP32;
    if (r->tuning == TUNING_LORA) {
        static const char *given[16];
        const struct json *targets = lora ? json_get(lora, "target_modules") : NULL;

        if (targets && json_type(targets) == JSON_ARRAY) {
            json_each(v, targets)
                given[r->lora.n_targets++] = json_str(v);
            r->lora.targets = given;
        } else if (targets && json_str(targets) && !strcmp(json_str(targets), "all-linear")) {
            r->lora.all_linear = true;
        } else if (!targets_default(arch.model_type, r->stack.peft, &r->lora.targets, &r->lora.n_targets)) {
            fprintf(stderr, "no default targets\n");
            return 1;
        }
    }
    if (!strcmp(text(o, "method", ""), "ddp")) {
        static const char *ddp_targets[TRACED_TARGETS];
        struct recipe asked;
        const char *wrong = traced_ddp_recipe(o, &arch, strstr(argv[3], "new") != NULL, ddp_targets, &asked);

        if (wrong || train_resolve(&asked, &arch, &device, &a, &step, &err)) {
            fprintf(stderr, "%s\n", wrong ? wrong : err.detail);
            return 1;
        }
    }
    if (argc > 4)
        return figures(&arch, &step, &device, &a);
    t = arena_new(&a, struct trainer);
    if (trainer_run(t, &arch, &step, &device, &a, &err)) {
        fprintf(stderr, "%s %s: %s (after %u births)\n", err_slug(err.code), err.at, err.detail, t->run.n_births);
        if (!t->run.n_births)
            return 1;
    }
    printf("kind,id,bytes,phase,fwd_phase,op,node,path,recompute,mark\n");
    for (uint32_t i = 0; i < t->run.n_events; i++) {
        uint32_t e = t->run.events[i], id = e & EVENT_BLOCK;
        const struct birth *b;

        if (!event_is_of_block(e))
            continue;
        b = &t->run.births[id];
        printf("%s,%u,%llu,%s,%s,%s,%s,%s,%d,%d\n", e & EVENT_DEATH ? "free" : "alloc", id, (unsigned long long)b->bytes,
               stages[b->stage], stages[b->forward_stage], op_rows[b->op].aten, op_rows[b->node].node,
               module_path(&t->model.tree, b->module, buf, sizeof buf), b->recompute, b->mark);
    }
    return err.code != 0;
}
