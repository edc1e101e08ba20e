/* series.c - errors by group and figure. */
#include "tests/accuracy/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 64, MAX_SAMPLES = 2048, FIGURES = PEER_LLMEM + 1 };

struct sample {
    double error; /* relative, signed */
    const char *id, *what;
};

struct series {
    struct sample *at;
    size_t n;
};

static const char *const figure_names[FIGURES] = {
    [PEAK] = "peak allocated",
    [ACTIVE] = "peak active",
    [PHASES] = "peak of each phase",
    [RESERVED] = "reserved",
    [EXPANDABLE] = "reserved, expandable",
    [STATIC] = "static",
    [RESTING] = "resting",
    [HOST] = "host bytes a node",
    [MEASURED] = "measured",
    [PEER_INFERENCE] = "peer: 1.2 x weights",
    [PEER_FIVE] = "peer: 5 x weights",
    [PEER_LLMEM] = "peer: LLMem's formula",
};

/* In percent; 0: none. The first row that names the group, or none, and the figure. */
static const struct goal {
    const char *group;
    enum figure figure;
    double median, p95, max;
} goals[] = {
    {"one GPU", PEAK, 0.02, 0.3, 1},
    {"one GPU", RESERVED, 1, 4, 0},
    {"one GPU", EXPANDABLE, 1, 4, 0},
    {"one GPU, torch 2.4 with transformers 4.48", PEAK, 0.001, 0.1, 1},
    {"one GPU, torch 2.4 with transformers 4.48", RESERVED, 0, 2, 0},
    {"one GPU, torch 2.4 with transformers 4.48", EXPANDABLE, 0, 2, 0},
    {"one GPU, torch 2.7 with transformers 4.53", PEAK, 0.001, 0.1, 1},
    {"one GPU, torch 2.7 with transformers 4.53", RESERVED, 0, 2, 0},
    {"one GPU, torch 2.7 with transformers 4.53", EXPANDABLE, 0, 2, 0},
    {"one GPU, bitsandbytes", PEAK, 0.001, 0.1, 1},
    {"one GPU, bitsandbytes", RESERVED, 0, 2, 0},
    {"one GPU, bitsandbytes", EXPANDABLE, 0, 2, 0},
    {"one GPU, whole models as recommended", PEAK, 0, 0, 0.001},
    {"several GPUs, whole models as recommended", PEAK, 0, 0, 0.01},
    {"found, one GPU", PEAK, 0.001, 0.1, 1},
    {"found, one GPU", RESERVED, 0, 2, 0},
    {"found, one GPU", EXPANDABLE, 0, 2, 0},
    {"gpjt", ACTIVE, 0, 0, 0.05},
    {"gpjt zero3, 8 GPUs", ACTIVE, 2, 0, 0},
    {"gpjt zero3, 8 GPUs", RESERVED, 0, 10, 0},
    {"published, generating", MEASURED, 3, 0, 0},
    {NULL, PEAK, 0.1, 1, 3},
    {NULL, ACTIVE, 0.1, 1, 3},
    {NULL, PHASES, 0.1, 1, 0},
    {NULL, RESERVED, 3, 10, 0},
    {NULL, STATIC, 0.1, 0, 0},
    {NULL, RESTING, 0.1, 0, 0},
    {NULL, HOST, 0, 0, 0.03},
};

static const double within_range = 0.95; /* of measured active bytes, between low and high */

static struct group groups[MAX_GROUPS];
static struct series all[MAX_GROUPS][FIGURES];
static size_t n_groups;

struct group *group_get(const char *name)
{
    for (size_t i = 0; i < n_groups; i++)
        if (!strcmp(groups[i].name, name))
            return &groups[i];
    if (n_groups == MAX_GROUPS)
        abort();
    groups[n_groups].name = name;
    return &groups[n_groups++];
}

void put(struct group *g, enum figure f, const char *id, const char *what, double ours, double truth, double slack)
{
    struct series *x = &all[g - groups][f];
    double off = ours - truth;

    if (isnan(ours) || isnan(truth) || truth <= 0 || x->n == MAX_SAMPLES)
        return;
    if (!x->at)
        x->at = calloc(MAX_SAMPLES, sizeof *x->at);
    if (!x->at)
        abort();
    if (slack > 0)
        off = fabs(off) <= slack ? 0 : off - copysign(slack, off);
    x->at[x->n++] = (struct sample){off / truth, id, what};
}

static int by_size(const void *a, const void *b)
{
    double x = fabs(((const struct sample *)a)->error), y = fabs(((const struct sample *)b)->error);

    return x < y ? -1 : x > y;
}

static void sort(struct series *s)
{
    qsort(s->at, s->n, sizeof s->at[0], by_size);
}

static double percentile(const struct series *s, double p)
{
    double at = (double)(s->n - 1) * p / 100;
    size_t low = (size_t)at, high = low + 1 < s->n ? low + 1 : low;
    double a = fabs(s->at[low].error), b = fabs(s->at[high].error);

    return 100 * (a + (b - a) * (at - (double)low));
}

static struct goal goal_of(const char *group, enum figure f)
{
    for (size_t i = 0; i < sizeof goals / sizeof *goals; i++)
        if (goals[i].figure == f && (!goals[i].group || !strcmp(goals[i].group, group)))
            return goals[i];
    return (struct goal){NULL, f, 0, 0, 0};
}

static void write_goal(FILE *f, const char *name, double percent)
{
    if (percent > 0)
        fprintf(f, "%s %g %% ", name, percent);
}

static bool missed(double figure, double goal)
{
    return goal > 0 && figure > goal;
}

static bool report_series(FILE *f, const char *bar, const char *group, enum figure figure, struct series *s)
{
    struct goal goal = goal_of(group, figure);
    double median, p95, max;

    sort(s);
    median = percentile(s, 50), p95 = percentile(s, 95), max = percentile(s, 100);
    fprintf(f, "%s%-23s | %-20s | %5zu | %8.4f %% | %8.4f %% | %8.4f %% | ", bar, group, figure_names[figure], s->n, median, p95, max);
    write_goal(f, "median", goal.median);
    write_goal(f, "p95", goal.p95);
    write_goal(f, "max", goal.max);
    if (missed(median, goal.median) || missed(p95, goal.p95) || missed(max, goal.max)) {
        fprintf(f, "MISSED |\n");
        return false;
    }
    fprintf(f, "|\n");
    return true;
}

/* What README says: steps that were traced, not those that ran on a GPU. */
static void report_sum(FILE *f)
{
    size_t steps = 0, exact = 0, one = 0;

    for (const struct group *g = groups; g < groups + n_groups; g++) {
        if (!strncmp(g->name, "measured", 8))
            continue;
        steps += g->peaks;
        exact += g->exact;
        one += strstr(g->name, "one GPU") ? g->peaks : 0;
    }
    fprintf(f, "%zu traced training steps, %zu of them on one GPU: %zu peaks equal to the byte.\n\n", steps, one, exact);
}

static bool report_counts(FILE *f, const char *bar)
{
    bool good = true;

    fprintf(f, "\n%s%-23s | cases | answered | peak equal to the byte |\n", bar, "runs");
    if (*bar)
        fprintf(f, "|---|---|---|---|\n");
    for (const struct group *g = groups; g < groups + n_groups; g++)
        fprintf(f, "%s%-23s | %5zu | %8zu | %13zu of %5zu |\n", bar, g->name, g->cases, g->answered, g->exact, g->peaks);
    /* of what others measured some rows need what is not modelled */
    for (const struct group *g = groups; g < groups + n_groups; g++)
        good = good && (g->answered == g->cases || !strncmp(g->name, "published", 9));
    fprintf(f, "\n");
    report_sum(f);
    for (const struct group *g = groups; g < groups + n_groups; g++) {
        if (g->ranged) {
            fprintf(f, "%s: active bytes within low..high in %zu of %zu.\n", g->name, g->within, g->ranged);
            good = good && (double)g->within >= within_range * (double)g->ranged;
        }
        if (g->verdicts)
            fprintf(f, "%s: ran out of memory or not, right in %zu of %zu.\n", g->name, g->right, g->verdicts);
    }
    return good;
}

bool report(FILE *f, bool markdown)
{
    const char *bar = markdown ? "| " : "";
    bool good = true;

    fprintf(f, "%s%-23s | %-20s | count | median     | p95        | max        | goal |\n", bar, "runs", "figure");
    if (markdown)
        fprintf(f, "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n_groups; i++)
        for (int k = 0; k < FIGURES; k++)
            if (all[i][k].n && !report_series(f, bar, groups[i].name, (enum figure)k, &all[i][k]))
                good = false;
    return report_counts(f, bar) && good;
}

static size_t worst_of(FILE *f, const struct series *s, double above_percent, const char *lead)
{
    size_t shown = 0;

    for (size_t i = s->n; i-- > 0 && shown < 20;) {
        if (100 * fabs(s->at[i].error) <= above_percent)
            break;
        fprintf(f, "%s%+.4f %% %s %s\n", lead, 100 * s->at[i].error, s->at[i].id, s->at[i].what);
        shown++;
    }
    return shown;
}

void worst(FILE *f, enum figure figure, double above_percent, const char *lead)
{
    size_t shown = 0;

    for (size_t i = 0; i < n_groups; i++)
        shown += worst_of(f, &all[i][figure], above_percent, lead);
    if (!shown)
        fprintf(f, "%snone\n", lead);
}

static bool same_source(const char *a, const char *b)
{
    size_t n = strcspn(a, "/");

    return !strncmp(a, b, n + 1);
}

static void source_row(FILE *f, const char *group, const struct series *s, size_t first)
{
    struct series of = {calloc(s->n, sizeof *of.at), 0};
    size_t n = strcspn(s->at[first].id, "/");
    const struct sample *last;

    for (size_t j = first; of.at && j < s->n; j++)
        if (same_source(s->at[first].id, s->at[j].id))
            of.at[of.n++] = s->at[j];
    if (of.n) {
        sort(&of);
        last = &of.at[of.n - 1];
        fprintf(f, "| %.*s | %s | %zu | %.4f %% | %.4f %% | %+.4f %% %s %s |\n", (int)n, s->at[first].id, group, of.n, percentile(&of, 50),
                percentile(&of, 95), 100 * last->error, last->id + n + (last->id[n] == '/'), last->what);
    }
    free(of.at);
}

void by_source(FILE *f, enum figure figure)
{
    for (size_t i = 0; i < n_groups; i++) {
        const struct series *s = &all[i][figure];

        for (size_t k = 0; k < s->n && (figure != ACTIVE || !all[i][PEAK].n); k++) { /* traces are told by their peak alone */
            size_t before = 0;

            while (before < k && !same_source(s->at[before].id, s->at[k].id))
                before++;
            if (before == k)
                source_row(f, groups[i].name, s, k);
        }
    }
}
