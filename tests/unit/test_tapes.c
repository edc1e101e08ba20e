/*
 * The walk against tapes of real PyTorch, block by block: births in order with their size, operator, autograd node and phase; the
 * deaths between two births as a set, because their order does not matter to the allocator.
 */
#include "tests/support/programs.h"
#include "meters/peak.h"
#include "models/model.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/trainer.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256 << 20, TAPE_MAX = 1 << 20, KERNELS = 512, TAPES_MAX = 128, CODE = 4 };

static const char folder[] = "tests/data/tapes/";

/* --- the traced tape ----------------------------------------------------------------------------------------------------------- */

struct traced_kernel {
    char code[CODE];
    const char *op, *node;
};

struct traced_tape {
    char *text, *at;               /* at: the first token of the tape */
    const char *stack, *config, *options;
    struct traced_kernel kernels[KERNELS];
    size_t n_kernels;
};

static char *next(char **at, const char *ends)
{
    char *s = *at + strspn(*at, ends), *e = s + strcspn(s, ends);

    *at = *e ? e + 1 : e;
    *e = 0;
    return s;
}

static bool tape_read(const char *path, struct traced_tape *ret)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    memset(ret, 0, sizeof *ret);
    ret->at = ret->text = malloc(TAPE_MAX);
    if (!f || !ret->text)
        return false;
    n = fread(ret->text, 1, TAPE_MAX - 1, f);
    ret->text[n] = 0;
    (void)fclose(f);
    while (islower((unsigned char)*ret->at)) {
        char *line = next(&ret->at, "\n"), *word = next(&line, " ");

        if (!strcmp(word, "stack")) {
            ret->stack = line;
        } else if (!strcmp(word, "config")) {
            ret->config = line;
        } else if (!strcmp(word, "options")) {
            ret->options = line;
        } else if (!strcmp(word, "kernel") && ret->n_kernels < KERNELS) {
            struct traced_kernel *k = &ret->kernels[ret->n_kernels++];

            (void)snprintf(k->code, sizeof k->code, "%s", next(&line, " "));
            k->op = next(&line, " ");
            k->node = line;
        } else {
            return false;
        }
    }
    return ret->stack && ret->config && ret->options;
}

static const struct traced_kernel *kernel_of(const struct traced_tape *t, const char *code, size_t n)
{
    for (size_t i = 0; i < t->n_kernels; i++)
        if (strlen(t->kernels[i].code) == n && !memcmp(t->kernels[i].code, code, n))
            return &t->kernels[i];
    return NULL;
}

/* --- the walk beside it -------------------------------------------------------------------------------------------------------- */

static char message[2048];

static __attribute__((format(printf, 1, 2))) bool differs(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return false;
}

/* reshape() is a view, an unsafe view or an alias; what they keep and how they go back is the same. */
static const char *node_text(const char *node)
{
    return !strcmp(node, "UnsafeViewBackward0") || !strcmp(node, "ReshapeAliasBackward0") ? "ViewBackward0" : node;
}

struct walked {
    struct trainer *t;
    uint32_t at;               /* next event */
    uint32_t births;           /* so far */
    bool *dying;               /* by birth: the traced tape says that it dies after the last birth */
};

static void kernel_text(const struct trainer *t, uint32_t birth, char *buf, size_t n)
{
    const struct birth *b = &t->run.births[birth];
    char path[160];

    (void)snprintf(buf, n, "%llu bytes of %s %s in %s%s at %s", (unsigned long long)b->bytes, op_rows[b->op].aten, op_rows[b->node].node,
                   stage_name((enum stage)b->stage), b->recompute ? ", recomputed," : "", module_path(&t->model.tree, b->module, path, sizeof path));
}

/* Our deaths up to the next birth against `dying`, which holds `n`. */
static bool same_deaths(struct walked *w, uint32_t n)
{
    const struct run *r = &w->t->run;
    char buf[512];

    for (; w->at < r->n_events && (!event_is_of_block(r->events[w->at]) || r->events[w->at] & EVENT_DEATH); w->at++) {
        uint32_t block = r->events[w->at] & EVENT_BLOCK;

        if (!event_is_of_block(r->events[w->at]))
            continue;
        if (!w->dying[block]) {
            kernel_text(w->t, block, buf, sizeof buf);
            return differs("after birth %u, birth %u dies in the walk alone: %s", w->births - 1, block, buf);
        }
        w->dying[block] = false;
        n--;
    }
    for (uint32_t i = 0; n && i < w->births; i++)
        if (w->dying[i]) {
            kernel_text(w->t, i, buf, sizeof buf);
            return differs("after birth %u, birth %u dies in the traced run alone: %s", w->births - 1, i, buf);
        }
    return true;
}

static bool same_birth(struct walked *w, const struct traced_kernel *k, unsigned long long units, const char *where)
{
    const struct run *r = &w->t->run;
    const struct birth *b;
    char here[64], buf[512];
    unsigned long long ours;

    if (w->at == r->n_events)
        return differs("birth %u is missing: %llu bytes of %s %s in %s", w->births, units * 512, k->op, k->node, where);
    b = &r->births[r->events[w->at++]];
    ours = b->bytes ? (b->bytes + 511) / 512 : 1;
    (void)snprintf(here, sizeof here, "%s%s%s%s", stage_name((enum stage)b->stage), b->forward_stage != b->stage ? "/" : "",
                   b->forward_stage != b->stage ? stage_name((enum stage)b->forward_stage) : "", b->recompute ? "!" : "");
    if (ours == units && !strcmp(op_rows[b->op].aten, k->op) && !strcmp(node_text(op_rows[b->node].node), node_text(k->node)) && !strcmp(here, where)) {
        w->births++;
        return true;
    }
    kernel_text(w->t, w->births, buf, sizeof buf);
    return differs("birth %u: walked %s (%s); traced %llu bytes of %s %s (%s)", w->births, buf, here, units * 512, k->op, k->node, where);
}

static bool same_tape(struct traced_tape *traced, struct trainer *t, struct arena *a)
{
    struct walked w = {.t = t, .dying = arena_array(a, bool, t->run.n_births + 1)};
    const char *where = "";
    uint32_t deaths = 0;

    for (char *token; *(token = next(&traced->at, " \n"));)
        if (*token == '=') {
            where = token + 1;
        } else if (*token == '-') {
            unsigned long back = strtoul(token + 1, NULL, 10);

            if (back >= w.births)
                return differs("the tape is broken at %s", token);
            w.dying[w.births - 1 - back] = true;
            deaths++;
        } else {
            size_t n = strspn(token, "abcdefghijklmnopqrstuvwxyz");
            const struct traced_kernel *k = kernel_of(traced, token, n);

            if (!k)
                return differs("the tape is broken at %s", token);
            if ((w.births && !same_deaths(&w, deaths)) || !same_birth(&w, k, strtoull(token + n, NULL, 10), where))
                return false;
            deaths = 0;
        }
    if (!same_deaths(&w, deaths))
        return false;
    if (w.at != t->run.n_events) {
        char buf[512];

        kernel_text(t, w.births, buf, sizeof buf);
        return differs("birth %u is the walk's alone: %s", w.births, buf);
    }
    return w.births > 0;
}

static bool walk_and_compare(const char *name)
{
    char path[512];
    struct traced_tape traced;
    struct arena a;
    struct json *config, *options;
    struct err err = {0};
    struct arch arch;
    struct step step;
    struct stack stack;
    struct trainer *t;
    const char *targets[TRACED_TARGETS], *wrong;
    void *block = malloc(ROOM);
    bool same;

    (void)snprintf(path, sizeof path, "%s%s", folder, name);
    ck_assert_msg(tape_read(path, &traced), "%s is no tape", path);
    arena_init(&a, block, ROOM);
    ck_assert_msg(!json_parse(traced.config, strlen(traced.config), &json_limits_config, &config, &err), "%s: %s", name, err.detail);
    ck_assert_msg(!json_parse(traced.options, strlen(traced.options), &json_limits_config, &options, &err), "%s: %s", name, err.detail);
    ck_assert_msg(!arch_read(config, &a, &arch, &err), "%s: %s %s", name, err.at, err.detail);
    ck_assert_msg(traced_stack(traced.stack, &stack), "%s: stack %s", name, traced.stack);
    wrong = traced_step(options, &arch, &stack, targets, &step);
    ck_assert_msg(!wrong, "%s: %s", name, wrong);
    t = arena_new(&a, struct trainer);
    ck_assert_msg(!trainer_run(t, &arch, &step, &traced_device, &a, &err), "%s: %s %s", name, err.at, err.detail);
    same = same_tape(&traced, t, &a);
    json_free(config);
    json_free(options);
    free(traced.text);
    free(block);
    return same;
}

/* --- all of them --------------------------------------------------------------------------------------------------------------- */

static char names[TAPES_MAX][64];
static int n_names;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_tapes(void)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d && (e = readdir(d)) && n_names < TAPES_MAX;)
        if (strlen(e->d_name) > 5 && strlen(e->d_name) < sizeof names[0] && !strcmp(e->d_name + strlen(e->d_name) - 5, ".tape"))
            memcpy(names[n_names++], e->d_name, strlen(e->d_name) + 1);
    if (d)
        (void)closedir(d);
    qsort(names, (size_t)n_names, sizeof names[0], by_name);
}

START_TEST(walks_as_pytorch_ran)
{
    ck_assert_msg(walk_and_compare(names[_i]), "%s: %s", names[_i], message);
}
END_TEST

START_TEST(has_a_tape_of_every_family)
{
    bool seen[FAMILY_COUNT] = {false};
    void *block = malloc(1 << 20);

    for (int i = 0; i < n_names; i++) {
        char path[512];
        struct traced_tape traced;
        struct arena a;
        struct json *config;
        struct err err = {0};
        struct arch arch;

        (void)snprintf(path, sizeof path, "%s%s", folder, names[i]);
        ck_assert_msg(tape_read(path, &traced), "%s is no tape", path);
        arena_init(&a, block, 1 << 20);
        ck_assert(!json_parse(traced.config, strlen(traced.config), &json_limits_config, &config, &err) && !arch_read(config, &a, &arch, &err));
        seen[arch.family] = true;
        json_free(config);
        free(traced.text);
    }
    for (int f = 0; f < FAMILY_COUNT; f++)
        ck_assert_msg(seen[f], "family %d has no tape", f);
    free(block);
}
END_TEST

UNIT_TESTS("train/trainer against tapes",
           list_tapes();
           unit_test(has_a_tape_of_every_family);
           tcase_add_loop_test(unit_.tcase, walks_as_pytorch_ran, 0, n_names);)
