#include "tests/accuracy/speed.h"

#include "base/json.h"
#include "catalog/gpus.h"
#include "config/arch.h"
#include "plan/system.h"
#include "stack/release.h"
#include "train/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1 << 16 };
static const size_t ROOM = (size_t)1 << 30;

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

static bool read_cost(const struct json *c, struct speed_row *row, const struct device *device, struct arena *arena, struct err *err)
{
    const struct json *t = json_get(c, "training");
    const char **targets = arena_array(arena, const char *, 16);
    struct recipe r = {.framework = strcmp(text(json_get(c, "stack"), "framework", "transformers"), "transformers") ? FRAMEWORK_TORCH : FRAMEWORK_TRANSFORMERS};
    struct arch arch;
    struct step step;

    if (arch_parse(json_get(c, "config"), arena, &arch, err) || !read_stack(json_get(c, "stack"), &r.stack, err))
        return false;
    read_recipe(t, &r, targets);
    r.gradient_accumulation_steps = (uint32_t)(number(t, "global_batch_size", 0) / r.micro_batch_size / row->n_gpus);
    if (!strcmp(text(t, "methods", ""), "ddp")) {
        r.method = METHOD_DDP;
        r.data_parallel = row->n_gpus;
    }
    r.gradient_accumulation_steps += !r.gradient_accumulation_steps;
    return !train_resolve(&r, &arch, device, arena, &step, err) && !train_cost(&arch, &step, device, arena, &row->cost, err);
}

static void read_row(const struct json *c, struct speed_row *row, struct arena *arena)
{
    struct device device;
    struct err err = {0};

    *row = (struct speed_row){.published = number(c, "tokens_per_s", 0), .n_gpus = (unsigned)number(c, "n_gpus", 1)};
    (void)snprintf(row->id, sizeof row->id, "%s", text(c, "id", ""));
    (void)snprintf(row->source, sizeof row->source, "%s", text(c, "source", ""));
    row->answered = !strcmp(text(c, "use", ""), "answer");
    row->refused = !read_system(json_get(c, "cluster"), &device, &row->system, &err) || !read_cost(c, row, &device, arena, &err);
    if (row->refused)
        fprintf(stderr, "%s: %s %s\n", row->id, err.at, err.detail);
}

bool speed_read(struct speed_rows *ret)
{
    static char line[LINE];
    FILE *f = fopen("tests/data/accuracy/speed.jsonl", "r");
    struct arena arena;
    void *block = malloc(ROOM);

    if (!f || !block)
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
        read_row(c, &ret->row[ret->n++], &arena);
        json_free(c);
    }
    return fclose(f) == 0 && ret->n > 0;
}

/* ----------------------------------------------------------------------------------------------------------- figures */
void speed_predict(struct speed_rows *rows, const double constants[PERF_CONSTANTS])
{
    for (size_t i = 0; i < rows->n; i++) {
        struct speed_row *r = &rows->row[i];
        struct perf_system alone = r->system;
        struct step_time t;

        if (r->refused)
            continue;
        if (!r->answered)
            alone.gpus_per_node = alone.nodes = 1;
        perf_step_time_with(constants, &r->cost, &alone, &t);
        if (r->answered)
            r->predicted = t.tokens_per_s;
        else
            r->predicted = t.tokens_per_s * r->n_gpus * t.step_s / (t.compute_s + t.optimizer_s / r->n_gpus);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

struct figures {
    size_t n;
    double median, p90, bias, within; /* |log error|, its log's mean, share within 20 % */
};

static struct figures figures_of(const struct speed_rows *rows, bool answered, const char *source)
{
    double error[SPEED_MAX_ROWS], signs[SPEED_MAX_ROWS];
    struct figures f = {0};

    for (size_t i = 0; i < rows->n; i++) {
        const struct speed_row *r = &rows->row[i];

        if (r->refused || r->answered != answered || (source && strcmp(source, r->source)))
            continue;
        signs[f.n] = log(r->predicted / r->published);
        error[f.n] = fabs(signs[f.n]);
        f.within += error[f.n] <= log(1.2);
        f.n++;
    }
    if (!f.n)
        return f;
    qsort(error, f.n, sizeof *error, by_value);
    qsort(signs, f.n, sizeof *signs, by_value);
    f.median = error[f.n / 2];
    f.p90 = error[f.n * 9 / 10];
    f.bias = signs[f.n / 2];
    f.within /= (double)f.n;
    return f;
}

void speed_print_source(FILE *f, const struct speed_rows *rows, const char *source)
{
    for (int answered = 0; answered < 2; answered++) {
        struct figures x = figures_of(rows, answered, source);

        if (x.n)
            fprintf(f, "%-18s %3zu %6.1f %%\n", source, x.n, 100 * expm1(x.median));
    }
}

static const struct speed_row *find(const struct speed_rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->n; i++)
        if (!strcmp(rows->row[i].id, id))
            return rows->row[i].refused ? NULL : &rows->row[i];
    return NULL;
}

/* Pairs that differ in one decision: how many are in the order that was measured. */
static void judge_pairs(const struct speed_rows *rows, const char *use, size_t *ret_n, double *ret_right)
{
    static char line[LINE];
    FILE *f = fopen("tests/data/accuracy/speed_pairs.jsonl", "r");

    *ret_n = 0;
    *ret_right = 0;
    while (f && fgets(line, sizeof line, f)) {
        struct json_limits limits = {.bytes = sizeof line, .depth = JSON_MAX_DEPTH, .values = 64};
        struct json *c;
        struct err err = {0};
        const struct speed_row *a, *b;

        if (json_parse(line, strlen(line), &limits, &c, &err))
            break;
        a = find(rows, text(c, "a", ""));
        b = find(rows, text(c, "b", ""));
        if (a && b && !strcmp(text(c, "use", ""), use)) {
            double ratio = a->predicted / b->predicted;

            ++*ret_n;
            *ret_right += fabs(log(ratio)) < 0.01 ? 0.5 : (ratio > 1) == !strcmp(text(c, "faster", ""), "a");
        }
        json_free(c);
    }
    if (f)
        (void)fclose(f);
}

static void report_line(FILE *f, const struct speed_rows *rows, bool answered, const char *source, bool markdown)
{
    struct figures x = figures_of(rows, answered, source);

    if (x.n)
        fprintf(f, "%s%-18s | %3zu | %5.1f %% | %5.1f %% | %+5.1f %% | %3.0f %% |\n", markdown ? "| " : "", source ? source : "all", x.n,
                100 * expm1(x.median), 100 * expm1(x.p90), 100 * expm1(x.bias), 100 * x.within);
}

static void report_sources(FILE *f, const struct speed_rows *rows, bool answered, bool markdown)
{
    for (size_t i = 0; i < rows->n; i++) {
        size_t first = 0;

        while (strcmp(rows->row[first].source, rows->row[i].source) || rows->row[first].answered != rows->row[i].answered)
            first++;
        if (first == i && rows->row[i].answered == answered)
            report_line(f, rows, answered, rows->row[i].source, markdown);
    }
    report_line(f, rows, answered, NULL, markdown);
}

static void table(FILE *f, const struct speed_rows *rows, bool answered, const char *use, bool markdown)
{
    size_t n, refused = 0;
    double right;

    fprintf(f, "%ssource             | rows | median | p90 | median signed | within 20 %% |\n", markdown ? "| " : "");
    if (markdown)
        fprintf(f, "|---|---|---|---|---|---|\n");
    report_sources(f, rows, answered, markdown);
    for (size_t i = 0; i < rows->n; i++)
        refused += rows->row[i].refused && rows->row[i].answered == answered;
    if (refused)
        fprintf(f, "\n%zu more is refused: its options cannot run together in the asked stack.\n", refused);
    judge_pairs(rows, use, &n, &right);
    if (n)
        fprintf(f, "\n%.0f of %zu pairs that differ in one decision are in the order measured (a tie within 1 %% counts half).\n", right, n);
}

static void print_rows(const struct speed_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct speed_row *r = &rows->row[i];

        if (!r->refused)
            printf("%-22s %-8s %12.0f %12.0f  %+6.1f %%\n", r->id, r->answered ? "answer" : "kernels", r->published, r->predicted,
                   100 * (r->predicted / r->published - 1));
    }
}

static void predict_as_served(struct speed_rows *rows)
{
    double constants[PERF_CONSTANTS];

    for (int i = 0; i < PERF_CONSTANTS; i++)
        constants[i] = perf_constant((enum perf_constant_id)i)->value;
    speed_predict(rows, constants);
}

bool speed_report(FILE *f, bool markdown)
{
    static struct speed_rows rows;

    if (!speed_read(&rows))
        return false;
    predict_as_served(&rows);
    fprintf(f, "Tokens per second of the whole job, published by others and ours. Requests that are answered:\n\n");
    table(f, &rows, true, "answer", markdown);
    fprintf(f, "\nOne rank's kernels alone, of runs whose method is not answered yet (sharded inside a node, or over one GPU); they took part in fitting\n"
               "the constants of core/perf/constants.c. Of a source that is left out of the fit the median is 5 to 16 %% (`accuracy speed held-out`).\n\n");
    table(f, &rows, false, "kernels", markdown);
    return true;
}

int speed_main(int argc, char **argv)
{
    static struct speed_rows rows;
    const char *what = argc > 1 ? argv[1] : "";

    if (!*what)
        return speed_report(stdout, false) ? 0 : 1;
    if (!speed_read(&rows))
        return 1;
    if (!strcmp(what, "fit"))
        return speed_fit(&rows);
    if (!strcmp(what, "held-out"))
        return speed_held_out(&rows);
    predict_as_served(&rows);
    print_rows(&rows);
    return 0;
}
