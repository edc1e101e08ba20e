/*
 * fit.c - the constants of core/perf/constants.c by coordinate search over the rows of speed.jsonl.
 *
 *   accuracy speed fit        prints what to write there
 *   accuracy speed held-out   fits without one source at a time and prints how far its rows then are: what a stranger's figure would be
 */
#include "tests/accuracy/speed.h"

#include <math.h>
#include <string.h>

/* A few sources cannot tell eighteen constants apart: a factor e from what is expected costs as much as an error of 2 %. */
static double leaving(const double *constants)
{
    double sum = 0;

    for (int i = 0; i < PERF_CONSTANTS; i++) {
        double prior = perf_constant((enum perf_constant_id)i)->prior, l = prior > 0 ? log(constants[i] / prior) : 0;

        sum += 0.02 * l * l;
    }
    return sum;
}

/* Rows of several GPUs that wait for each other test the links and fit nothing. */
static bool counts(const struct speed_row *r, const char *without)
{
    return !r->refused && strcmp(r->source, without) != 0;
}

/* Every source and GPU model has the weight of the root of its rows; |log error|, so that one odd row does not pull. */
static double loss(struct speed_rows *rows, const double *constants, const char *without)
{
    double sum = 0, weights = 0;

    speed_predict(rows, constants);
    for (size_t i = 0; i < rows->n; i++) {
        const struct speed_row *r = &rows->row[i];
        double alike = 0, w;

        if (!counts(r, without))
            continue;
        for (size_t k = 0; k < rows->n; k++)
            alike += counts(&rows->row[k], without) && !strcmp(rows->row[k].source, r->source) &&
                     rows->row[k].system.memory_bytes_per_s == r->system.memory_bytes_per_s;
        w = 1 / sqrt(alike);
        sum += w * fabs(log(r->predicted / r->published));
        weights += w;
    }
    return sum / weights + leaving(constants);
}

/* One constant a step up or down, where that is better; shares end at 1. */
static bool improve(struct speed_rows *rows, double *c, int i, double factor, const char *without, double *best)
{
    double was = c[i], now;

    c[i] *= factor;
    now = perf_constant((enum perf_constant_id)i)->unit[0] == 'o' && c[i] > 1 ? INFINITY : loss(rows, c, without);
    if (now < *best - 1e-5) {
        *best = now;
        return true;
    }
    c[i] = was;
    return false;
}

static double search(struct speed_rows *rows, double *c, const char *without)
{
    static const double steps[] = {1.2, 1.06, 1.02};
    double best = loss(rows, c, without);

    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
        for (bool better = true; better;) {
            better = false;
            for (int i = 0; i < PERF_CONSTANTS; i++)
                if (perf_constant((enum perf_constant_id)i)->prior > 0)
                    better |= improve(rows, c, i, steps[s], without, &best) || improve(rows, c, i, 1 / steps[s], without, &best);
        }
    return best;
}

static void from_priors(double *c)
{
    for (int i = 0; i < PERF_CONSTANTS; i++) {
        const struct perf_constant *k = perf_constant((enum perf_constant_id)i);

        c[i] = k->prior > 0 ? k->prior : k->value;
    }
}

int speed_fit(struct speed_rows *rows)
{
    double c[PERF_CONSTANTS];

    from_priors(c);
    printf("mean weighted |log error| %.4f", loss(rows, c, ""));
    printf(" before, %.4f after, deviation from what was expected included\n", search(rows, c, ""));
    for (int i = 0; i < PERF_CONSTANTS; i++)
        printf("%-20s %.3g\n", perf_constant((enum perf_constant_id)i)->name, c[i]);
    return 0;
}

int speed_held_out(struct speed_rows *rows)
{
    printf("%-18s rows, median |error| of a source when fitted without it\n", "source");
    for (size_t i = 0; i < rows->n; i++) {
        const char *source = rows->row[i].source;
        double c[PERF_CONSTANTS];
        size_t first = 0;

        while (strcmp(rows->row[first].source, source))
            first++;
        if (first < i || !counts(&rows->row[i], ""))
            continue;
        from_priors(c);
        (void)search(rows, c, source);
        speed_predict(rows, c);
        speed_print_source(stdout, rows, source);
        (void)fflush(stdout); /* minutes pass from one to the next */
    }
    return 0;
}
