/*
 * speed.h - published measurements of training speed beside ours: tests/data/accuracy/speed.jsonl, written by make_speed.py there.
 */
#ifndef ACCURACY_SPEED_H
#define ACCURACY_SPEED_H

#include "perf/perf.h"

#include <stdio.h>

enum { SPEED_MAX_ROWS = 512 };

struct speed_row {
    char id[48], source[32];
    bool answered;           /* else: another program's run of the same kernels, see make_speed.py */
    bool refused;            /* the run or the system has an error, or no program plays the method */
    bool unmodelled;
    double published, predicted; /* tokens/s of the whole job */
    struct step_time time;
    unsigned n_gpus;
    struct cost cost;
    struct perf_system system;
};

struct speed_rows {
    struct speed_row row[SPEED_MAX_ROWS];
    size_t n;
};

/* Reads and runs every row; memory for their costs is never given back. */
bool speed_read(struct speed_rows *ret);
void speed_predict(struct speed_rows *rows, const double constants[PERF_CONSTANTS]);
void speed_print_source(FILE *f, const struct speed_rows *rows, const char *source);

bool speed_report(FILE *f, bool markdown); /* the section of docs/accuracy.md */
int speed_main(int argc, char **argv); /* accuracy speed [rows|kernels ID|fit|held-out] */

/* fit.c */
int speed_fit(struct speed_rows *rows);
int speed_held_out(struct speed_rows *rows);

#endif
