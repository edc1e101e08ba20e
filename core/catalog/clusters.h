/*
 * clusters.h - the clusters and machine types that a request may name instead of a GPU.
 *
 * Source    data/clusters.csv, a row a cluster, which names its source: what it consists of, and what an sbatch script says there. An empty cell
 *           (0 or NULL here) means that no source gave the figure.
 * Threads   const table, embedded.
 */
#ifndef CATALOG_CLUSTERS_H
#define CATALOG_CLUSTERS_H

#include <stddef.h>

/* Lists are joined by ';'. */
struct slurm {
    const char *partition, *small_partition; /* small: for one node's `small_gpus` or fewer */
    unsigned small_gpus;
    const char *account, *gpus;        /* options; '%' stands where the number of GPUs a node does. gpus NULL: no source says how jobs are asked for */
    unsigned cpus_per_gpu, gb_per_gpu; /* gb_per_gpu: host memory to ask for; 0: it comes with the GPU */
    const char *options, *time_limit, *modules, *environment;
};

struct cluster {
    const char *name, *aliases;           /* aliases: joined by ';' */
    const char *gpu;                      /* a name of gpus.csv */
    unsigned gpus_per_node, nodes;        /* nodes: all that there are */
    double host_memory_gb_per_node;       /* as sold */
    const char *intra_node, *inter_node;  /* names of links, "ib-hdr100 x2" */
    const char *status;                   /* "retired 2026-..": no jobs any more; NULL: in service, or nobody says */
    struct slurm slurm;
};

/* Compares as gpu_find() does; NULL when there is none. */
const struct cluster *cluster_find(const char *name);

size_t cluster_count(void);
const struct cluster *cluster_at(size_t i); /* in the order of the file */

#endif
