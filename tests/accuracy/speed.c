#include "tests/accuracy/speed.h"

#include "base/json.h"
#include "perf/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1 << 16 };

static const char *text(const struct json *o, const char *key)
{
    const struct json *v = json_get(o, key);
    const char *s = v ? json_str(v) : NULL;

    return s ? s : "";
}

/* ----------------------------------------------------------------------------------------------------------- figures */
void speed_predict(struct speed_rows *rows, const double constants[PERF_CONSTANTS])
{
    for (size_t i = 0; i < rows->n; i++) {
        struct speed_row *r = &rows->row[i];
        struct step_time t;

        if (r->refused)
            continue;
        perf_step_time_with(constants, &r->cost, &r->system, &t);
        r->predicted = t.tokens_per_s;
        r->time = t;
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
        a = find(rows, text(c, "a"));
        b = find(rows, text(c, "b"));
        if (a && b && !strcmp(text(c, "use"), use)) {
            double ratio = a->predicted / b->predicted;

            ++*ret_n;
            *ret_right += fabs(log(ratio)) < 0.01 ? 0.5 : (ratio > 1) == !strcmp(text(c, "faster"), "a");
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
        fprintf(f, "\n%zu more refused: no program plays their options together.\n", refused);
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

/* Where the time of one row goes: seconds of the log's kernels by operator, each micro-step that the log holds once. */
static int print_kernels(const struct speed_rows *rows, const char *id)
{
    const struct speed_row *row = find(rows, id);
    static struct rates rates;
    double constants[PERF_CONSTANTS], sum[OP_COUNT] = {0};
    unsigned launches[OP_COUNT] = {0};

    if (!row)
        return 1;
    perf_constants(constants);
    rates_of(constants, &row->cost, &row->system, &rates);
    for (uint32_t i = 0; i < row->cost.n_kernels; i++) {
        sum[row->cost.kernels[i].op] += kernel_s(&rates, &row->cost.kernels[i]);
        launches[row->cost.kernels[i].op] += row->cost.kernels[i].launches;
    }
    for (int op = 0; op < OP_COUNT; op++)
        if (launches[op])
            printf("%9.3f ms %7u  %s\n", 1e3 * sum[op], launches[op], op_rows[op].aten);
    printf("compute %.3f, exposed %.3f, optimizer %.3f, offload %.3f ms\n", 1e3 * row->time.compute_s, 1e3 * row->time.communication_exposed_s,
           1e3 * row->time.optimizer_s, 1e3 * row->time.offload_s);
    return 0;
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
    fprintf(f, "\nRuns of a program that is not answered, whose kernels are the same; they took part in fitting the constants of core/perf/constants.c, as did those\n"
               "above. What a source that is left out of the fit is met within, `accuracy speed held-out` says.\n\n");
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
    if (!strcmp(what, "kernels"))
        return print_kernels(&rows, argc > 2 ? argv[2] : "");
    print_rows(&rows);
    return 0;
}
