/*
 * clusters.h - the clusters and machine types that a request may name instead of a GPU.
 *
 * Source    data/clusters.csv, whose rows name theirs. An empty cell (0 or NULL here) means that no source gave the figure.
 * Threads   const table, embedded.
 */
#ifndef CATALOG_CLUSTERS_H
#define CATALOG_CLUSTERS_H

#include <stddef.h>

struct cluster {
    const char *name, *aliases;           /* aliases: joined by ';' */
    const char *gpu;                      /* a name of gpus.csv */
    unsigned gpus_per_node, nodes;        /* nodes: all that there are */
    double host_memory_gb_per_node;       /* as sold */
    const char *intra_node, *inter_node;  /* names of links, "ib-hdr100 x2" */
};

/* Compares as gpu_find() does; NULL when there is none. */
const struct cluster *cluster_find(const char *name);

size_t cluster_count(void);
const struct cluster *cluster_at(size_t i); /* in the order of the file */

#endif
