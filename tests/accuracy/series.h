/*
 * series.h - errors gathered by group and figure, the goals they are judged by, and their tables.
 *
 * A group is the traced runs of one kind of method ("fsdp2"), or the runs of one measurer ("gpjt"); its rows say which.
 */
#ifndef ACCURACY_SERIES_H
#define ACCURACY_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum figure { PEAK, ACTIVE, PHASES, RESERVED, EXPANDABLE, STATIC, RESTING, HOST, MEASURED, PEER_INFERENCE, PEER_FIVE, PEER_LLMEM };

/* Cases of a group. */
struct group {
    const char *name;
    size_t cases, answered, peaks, exact; /* peaks: whose allocated peak the run tells; exact: equal to the byte */
    size_t ranged, within;                /* measured active bytes, and those within low..high */
    size_t verdicts, right;               /* ran out of memory or not */
};

/* Made when it is first asked for; groups come in that order in tables. */
struct group *group_get(const char *name);

/* `slack`: bytes by which the truth may be off: digits that were not printed, a tensor of the tracer's own. Nothing is gathered without both numbers. */
void put(struct group *g, enum figure f, const char *id, const char *what, double ours, double truth, double slack);

/* Whether all goals are met, those of counts too. */
bool report(FILE *f, bool markdown);
/* Deviations of all groups above a share in percent, the largest first in each. */
void worst(FILE *f, enum figure figure, double above_percent, const char *lead);
/* Rows of a table: count, median, p95, worst. Ids begin with their source and a slash. */
void by_source(FILE *f, enum figure figure);

#endif
