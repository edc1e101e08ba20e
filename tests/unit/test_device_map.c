/* device_map "auto" and others: maps of the real packages (tests/data/accuracy/make_device_maps.py), module by module. */
#include "base/json.h"
#include "infer/device_map.h"
#include "models/model.h"
#include "models/program.h"
#include "tests/support/programs.h"
#include "tests/support/unit.h"
#include "tuning/bnb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 << 20, CONFIG = 64 << 20, LINE = 1 << 16 };

static struct json *read_config(const char *name)
{
    static char text[1 << 20];
    char path[256];
    struct json *ret = NULL;
    struct err err = {0};
    size_t n;
    FILE *f;

    (void)snprintf(path, sizeof path, "core/catalog/data/configs/%s.json", name);
    f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    n = fread(text, 1, sizeof text, f);
    (void)fclose(f);
    ck_assert_msg(!json_parse(text, n, &json_limits_config, &ret, &err), "%s", err.detail);
    return ret;
}

static void path_of(const struct module *m, char *text, size_t room)
{
    text[0] = 0;
    if (!m->parent)
        return;
    path_of(m->parent, text, room);
    (void)snprintf(text + strlen(text), room - strlen(text), "%s%s", text[0] ? "." : "", m->name);
}

static uint32_t device_named(const char *s, uint32_t gpus)
{
    return !strcmp(s, "cpu") ? gpus : !strcmp(s, "disk") ? gpus + 1 : (uint32_t)atoi(s);
}

static enum device_map_shares shares_named(const char *s)
{
    return !s || !strcmp(s, "auto") ? SHARES_BALANCED : *s == 'b' ? SHARES_BALANCED_LOW_0 : SHARES_SEQUENTIAL;
}

static enum kbit weights_named(const char *s)
{
    return !s ? KBIT_NONE : !strcmp(s, "int8") ? KBIT_INT8 : KBIT_NF4;
}

static const char *name_of(const struct json *row)
{
    const char *type = json_str(json_get(row, "type"));

    return type ? type : json_str(json_get(row, "config_file"));
}

/* The config of a type in tests/data/families.jsonl. */
static struct json *config_of_type(const char *type)
{
    static char line[LINE];
    FILE *f = fopen("tests/data/families.jsonl", "r");
    struct json *ret = NULL;

    ck_assert_ptr_nonnull(f);
    while (!ret && fgets(line, sizeof line, f)) {
        struct err err = {0};
        struct json *row = NULL;
        const char *own;

        ck_assert(!json_parse(line, strlen(line), &json_limits_config, &row, &err));
        own = json_str(json_get(json_get(row, "config"), "model_type"));
        if (own && !strcmp(own, type))
            ret = row;
        else
            json_free(row);
    }
    (void)fclose(f);
    ck_assert_msg(ret != NULL, "%s", type);
    return ret;
}

static void lay_beside(const struct json *row, const struct tree *t, const uint8_t *device, uint32_t gpus)
{
    uint32_t seen = 0;

    for (uint32_t i = 1; i < t->n_modules; i++) {
        char path[256];
        const char *truth;

        path_of(t->modules[i], path, sizeof path);
        truth = json_str(json_get(json_get(row, "map"), path));
        if (!truth)
            continue;
        seen++;
        ck_assert_msg(device[i] == device_named(truth, gpus), "%s of transformers %s %s, %u GPUs: %s is on %u, not %s",
                      name_of(row), json_str(json_get(row, "transformers")), json_str(json_get(row, "weights")), gpus, path, device[i], truth);
    }
    ck_assert_uint_ge(seen, json_count(json_get(row, "map")) - 2); /* those of releases with other modules: rotary_emb */
}

START_TEST(stands_where_the_packages_put_it)
{
    static char line[LINE];
    void *config_block = malloc(CONFIG), *block = malloc(ROOM);
    FILE *f = fopen("tests/data/accuracy/device_maps.jsonl", "r");
    size_t n = 0;

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        struct json *row = NULL, *config;
        const struct json *own;
        uint64_t gpu_bytes[DEVICE_MAP_GPUS] = {0}, unit = UINT64_C(1) << 30;
        uint32_t gpus = 0;
        struct arena config_arena, arena;
        struct err err = {0};
        struct arch arch;
        uint64_t host = 0;
        uint8_t *device = NULL;
        bool old;

        ck_assert(!json_parse(line, strlen(line), &json_limits_config, &row, &err));
        config = json_get(row, "type") ? config_of_type(name_of(row)) : read_config(name_of(row));
        own = json_get(row, "type") ? json_get(config, "config") : config;
        unit = json_get(row, "type") ? 1 : unit;
        old = json_str(json_get(row, "transformers"))[0] == '4';
        arena_init(&config_arena, config_block, CONFIG);
        arena_init(&arena, block, ROOM);
        ck_assert_msg(!arch_read(own, &config_arena, &arch, &err), "%s", err.detail);
        struct stack stack =
            old ? (struct stack){2007, 4053, 16, 1008, 46, 17, 2007, 6, 0, 0, 0} : (struct stack){2015, 5023, 21, 1015, 50, 19, 2007, 8, 0, 0, 0};
        struct quirks q = quirks_for(&stack, arch.model_type);
        struct model m = {.arch = &arch, .q = &q, .source = arch.program, .family = arch.program->run, .use_cache = true};
        ck_assert(!tree_init(&m.tree, &arena, DTYPE_BF16, 64 + arch.layers * 96, &err));
        ck_assert_msg(!model_declare(&m, &err), "%s", err.detail);
        enum kbit kbit = weights_named(json_str(json_get(row, "weights")));
        ck_assert(!kbit || !bnb_apply(&m.tree, &(struct bnb_options){kbit, DTYPE_BF16, DTYPE_UINT8, false, old, old}, &err));
        json_each (gpu, json_get(row, "gpus")) {
            ck_assert(json_uint64(gpu, &gpu_bytes[gpus]));
            gpu_bytes[gpus++] *= unit;
        }
        ck_assert(json_uint64(json_get(row, "cpu"), &host) || json_get(row, "type"));
        struct device_map_question ask = {.tree = &m.tree,
                                          .gpus = gpus,
                                          .gpu_bytes = gpu_bytes,
                                          .host_bytes = host * unit,
                                          .dtype = DTYPE_BF16,
                                          .weights = kbit,
                                          .by_accelerate = old,
                                          .as_given = true,
                                          .no_host = !host,
                                          .layers_split = !m.names_whole_modules,
                                          .shares = shares_named(json_str(json_get(row, "how")))};
        if (ask.gpus == 1 && !json_get(row, "type"))
            gpu_bytes[0] = (uint64_t)((double)gpu_bytes[0] * 0.9);
        ck_assert_msg(!device_map_infer(&ask, &arena, &device, &err), "%s", err.detail);
        lay_beside(row, &m.tree, device, ask.gpus);
        json_free(row);
        json_free(config);
        n++;
    }
    (void)fclose(f);
    ck_assert_uint_ge(n, 900);
    free(block);
    free(config_block);
}
END_TEST

UNIT_TESTS("infer/device_map", unit_test(stands_where_the_packages_put_it);)
