/* fit.c - the constants of core/perf/constants.c by coordinate search over the rows of speed.jsonl; prints what to write there. */
#include "tests/accuracy/speed.h"

#include <math.h>
#include <string.h>

/* A few sources cannot tell eleven constants apart: a factor e from what is expected costs as much as an error of 2 %. */
static double leaving(const double *constants)
{
    double sum = 0;

    for (int i = 0; i < PERF_CONSTANTS; i++) {
        double prior = perf_constant((enum perf_constant_id)i)->prior, l = prior > 0 ? log(constants[i] / prior) : 0;

        sum += 0.02 * l * l;
    }
    return sum;
}

/* Rows of several GPUs that wait for each other test the links and fit nothing. Every source and GPU model the same weight per square root of its rows; |log error|, so that one odd row does not pull. */
static double loss(struct speed_rows *rows, const double *constants)
{
    double sum = 0, weights = 0;

    speed_predict(rows, constants);
    for (size_t i = 0; i < rows->n; i++) {
        const struct speed_row *r = &rows->row[i];
        double alike = 0, w;

        if (r->refused || (r->answered && r->n_gpus > 1))
            continue;
        for (size_t k = 0; k < rows->n; k++)
            alike += !rows->row[k].refused && !strcmp(rows->row[k].source, r->source) &&
                     rows->row[k].system.memory_bytes_per_s == r->system.memory_bytes_per_s;
        w = 1 / sqrt(alike);
        sum += w * fabs(log(r->predicted / r->published));
        weights += w;
    }
    return sum / weights + leaving(constants);
}

static double search(struct speed_rows *rows, double *c)
{
    static const double steps[] = {1.2, 1.06, 1.02};
    double best = loss(rows, c);

    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
        for (bool better = true; better;) {
            better = false;
            for (int i = 0; i < PERF_CONSTANTS; i++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    double was = c[i], now;

                    if (perf_constant((enum perf_constant_id)i)->prior <= 0)
                        continue;
                    c[i] *= sign > 0 ? steps[s] : 1 / steps[s];
                    now = perf_constant((enum perf_constant_id)i)->unit[0] == 'o' && c[i] > 1 ? INFINITY : loss(rows, c); /* shares end at 1 */
                    if (now < best - 1e-5)
                        best = now, better = true;
                    else
                        c[i] = was;
                }
        }
    return best;
}

static int fit(void)
{
    static struct speed_rows rows;
    double c[PERF_CONSTANTS], before;

    if (!speed_read(&rows))
        return 1;
    for (int i = 0; i < PERF_CONSTANTS; i++)
        c[i] = perf_constant((enum perf_constant_id)i)->value;
    before = loss(&rows, c);
    printf("mean weighted |log error| %.4f before, %.4f after\n", before, search(&rows, c));
    for (int i = 0; i < PERF_CONSTANTS; i++)
        printf("%-24s %.4g\n", perf_constant((enum perf_constant_id)i)->name, c[i]);
    return 0;
}

int speed_main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "fit"))
        return fit();
    return speed_report(stdout, false, argc > 1 && !strcmp(argv[1], "rows")) ? 0 : 1;
}
