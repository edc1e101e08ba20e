/* Every tensor of every config that was counted by the real classes: totals, names, shapes, ties, LoRA counts of peft. */
#include "tests/support/programs.h"
#include "base/json.h"
#include "config/arch.h"
#include "models/model.h"
#include "stack/stack.h"
#include "tests/support/unit.h"
#include "train/inventory.h"
#include "train/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAM_ROOM = 48 << 20, ROOM = 64 << 20, LINE = 1 << 16 };

static const struct stack traced = {2015, 5023, 21, 1015, 50, 19, 2007, 8, 0, 0, 0};

static struct step step_of(enum tuning tuning)
{
    struct step s = {0};

    s.r.stack = traced;
    s.quirks = quirks_of(&traced);
    s.r.precision = PRECISION_BF16;
    s.r.seq_len_tokens = 8;
    s.r.micro_batch_size = s.r.gradient_accumulation_steps = 1;
    s.r.attention = ATTENTION_EAGER;
    s.r.tuning = tuning;
    s.r.lora.rank = 16;
    s.r.lora.dtype = LORA_DTYPE_FP32;
    return s;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* FNV-1a 64 of the sorted lines "name|shape|tied_to", as make_cases.py takes it. */
static void digest(const struct inventory *v, struct arena *a, char ret[17])
{
    char **lines = arena_array(a, char *, v->n);
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    size_t n = 0;

    for (uint32_t i = 0; i < v->n; i++) {
        const struct tensor_info *t = &v->rows[i];
        char buf[512];
        int at;

        if (t->buffer)
            continue;
        at = snprintf(buf, sizeof buf, "%s|", t->name);
        for (uint32_t d = 0; d < t->ndim; d++)
            at += snprintf(buf + at, sizeof buf - (size_t)at, "%s%llu", d ? "x" : "", (unsigned long long)t->shape[d]);
        at += snprintf(buf + at, sizeof buf - (size_t)at, "|%s", t->tied_to ? t->tied_to : "");
        lines[n++] = arena_str(a, buf, (size_t)at);
    }
    qsort(lines, n, sizeof *lines, by_text);
    for (size_t i = 0; i < n; i++) {
        for (const char *c = lines[i]; *c; c++)
            h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
        h = (h ^ '\n') * UINT64_C(0x100000001b3);
    }
    (void)snprintf(ret, 17, "%016llx", (unsigned long long)h);
}

static uint64_t whole(const struct json *o, const char *key)
{
    uint64_t v = 0;

    return json_uint64(json_get(o, key), &v) ? v : 0;
}

static void lora_count(const struct json *c, const struct arch *arch, const char *key, bool all_linear, const char *name, void *block)
{
    struct step s = step_of(TUNING_LORA);
    struct inventory v;
    struct err err = {0};
    struct arena a;
    bool known;

    arena_init(&a, block, ROOM);
    s.r.lora.all_linear = all_linear;
    known = !train_targets(arch, &traced, &a, &s.r.lora, &err);
    if (json_type(json_get(c, key)) != JSON_NUMBER) {
        ck_assert_msg(all_linear || !known, "%s: peft refuses to choose targets, we did not", name);
        return;
    }
    ck_assert_msg(known, "%s: peft has default targets, we have none", name);
    ck_assert_msg(!inventory_of(arch, &s, &a, &v, &err), "%s: %s", name, err.detail);
    ck_assert_msg(v.trainable_parameters == whole(c, key), "%s: %s is %llu, not %llu", name, key,
                  (unsigned long long)v.trainable_parameters, (unsigned long long)whole(c, key));
}

START_TEST(counts_every_tensor_as_the_real_class_does)
{
    static char line[LINE];
    void *config_block = malloc(PROGRAM_ROOM), *block = malloc(ROOM);
    FILE *f = fopen("tests/data/accuracy/inventory.jsonl", "r");
    size_t n = 0;

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        struct json *c = NULL;
        struct err err = {0};
        struct arena config_arena, a;
        struct arch arch;
        struct inventory v;
        struct step s = step_of(TUNING_FULL);
        const char *name;
        char sum[17];

        ck_assert_msg(!json_parse(line, strlen(line), &json_limits_config, &c, &err), "%s", err.detail);
        name = json_str(json_get(c, "config_file"));
        arena_init(&config_arena, config_block, PROGRAM_ROOM);
        arena_init(&a, block, ROOM);
        if (arch_read(json_get(c, "config"), &config_arena, &arch, &err)) {
            ck_assert_msg(err.code == ERR_ARCH_UNKNOWN, "%s: %s %s", name, err.at, err.detail);
            json_free(c);
            continue;
        }
        ck_assert_msg(!inventory_of(&arch, &s, &a, &v, &err), "%s: %s", name, err.detail);
        ck_assert_msg(v.parameters == whole(c, "total"), "%s: %llu parameters, not %llu", name, (unsigned long long)v.parameters,
                      (unsigned long long)whole(c, "total"));
        ck_assert_msg(v.tensors == whole(c, "tensors"), "%s: %u tensors, not %llu", name, v.tensors,
                      (unsigned long long)whole(c, "tensors"));
        digest(&v, &a, sum);
        ck_assert_msg(!strcmp(sum, json_str(json_get(c, "digest"))), "%s: names, shapes or ties differ", name);
        lora_count(c, &arch, "lora_r16_default", false, name, block);
        lora_count(c, &arch, "lora_r16_all_linear", true, name, block);
        json_free(c);
        n++;
    }
    (void)fclose(f);
    ck_assert_uint_ge(n, 204);
    free(block);
    free(config_block);
}
END_TEST

UNIT_TESTS("train/inventory", unit_test(counts_every_tensor_as_the_real_class_does);)
