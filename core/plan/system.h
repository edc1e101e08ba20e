/*
 * system.h - a GPU and its links, by name or by numbers, as the numbers that step times are computed from.
 *
 * Purpose   catalogue rows and what a request states -> struct perf_system; what no source gives is filled in, and said in notes.
 * Links     a number of the request (GB/s of a direction: per GPU inside a node, per node between nodes) goes before a name, a name before the
 *           preset's, that before what the GPU has. `nvlink` without a number is the GPU's own; a bridge joins pairs only.
 * Rates     of a collective: the bus bandwidth that a source measured on that link, else a share of the link's own (shares in system.c).
 * Errors    ERR_FIELD_VALUE at /cluster/intra_node, /cluster/inter_node for a name that is no link, and at /cluster/gpu for a GPU whose
 *           rate or bandwidth nothing gives.
 */
#ifndef PLAN_SYSTEM_H
#define PLAN_SYSTEM_H

#include "base/err.h"
#include "catalog/clusters.h"
#include "catalog/gpus.h"
#include "perf/perf.h"

/* 0, NULL: left out. */
struct system_request {
    const struct gpu *gpu; /* NULL: by the numbers below */
    const struct cluster *cluster;
    double bf16_tflops, fp16_tflops, memory_gbs; /* go before the row's */
    bool tf32;                                   /* the program lets fp32 products be rounded to TF32 */
    struct device device;                        /* compute capability and multiprocessors: always */
    const char *intra_node, *inter_node;
    double intra_node_gbs, inter_node_gbs;
    unsigned gpus_per_node, nodes; /* at least 1 */
};

enum { SYSTEM_MAX_NOTES = 8 };

struct system_notes {
    unsigned n;
    char text[SYSTEM_MAX_NOTES][256];
};

MUST_CHECK enum err_code plan_system(const struct system_request *asked, struct perf_system *ret, struct system_notes *ret_notes,
                                     struct err *err);

#endif
