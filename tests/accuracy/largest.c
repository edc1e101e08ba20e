/* largest.c - the groups of storages that are alive at the peak: operator, category, phase, bytes each and count, beside the trace's. */
#include "tests/accuracy/accuracy.h"

#include <string.h>

static struct {
    size_t groups, met;
    char missed[64][200];
    size_t n_missed;
} largest;

static bool group_met(const struct json *memory, const struct json *g)
{
    json_each (l, json_get(memory, "largest")) {
        const char *op = json_str(json_get(l, "op")), *category = json_str(json_get(l, "category")),
                   *phase = json_str(json_get(l, "phase"));

        if (op && category && phase && !strcmp(op, json_str(json_get(g, "op"))) && !strcmp(category, json_str(json_get(g, "category"))) &&
            !strcmp(phase, json_str(json_get(g, "phase"))) && number(l, "bytes_each") == number(g, "bytes_each") &&
            number(l, "count") == number(g, "count"))
            return true;
    }
    return false;
}

/* Every group larger than the eleventh. */
void largest_judge(const char *id, const struct json *memory, const struct json *truth, bool loud)
{
    double eleventh = 0;
    size_t i = 0;

    json_each (g, truth)
        if (++i == 11)
            eleventh = number(g, "bytes");
    json_each (g, truth) {
        bool met;

        if (number(g, "bytes") <= eleventh)
            break;
        met = group_met(memory, g);
        largest.groups++;
        largest.met += met;
        if (!met && largest.n_missed < 64)
            (void)snprintf(largest.missed[largest.n_missed++], sizeof largest.missed[0], "%s: %s %s in %s, %.0f x %.0f", id,
                           json_str(json_get(g, "op")), json_str(json_get(g, "category")), json_str(json_get(g, "phase")),
                           number(g, "count"), number(g, "bytes_each"));
        if (!met && loud)
            printf("  missed  %s\n", largest.missed[largest.n_missed - 1]);
    }
}

bool largest_report(FILE *f, bool markdown)
{
    fprintf(f,
            "%zu of %zu of the largest groups of storages alive at the peak of one GPU met as (op, category, phase, bytes each, count).\n",
            largest.met, largest.groups);
    for (size_t i = 0; i < largest.n_missed; i++)
        fprintf(f, "%s%s\n", markdown ? "- not met: " : "not met: ", largest.missed[i]);
    return largest.met == largest.groups;
}
