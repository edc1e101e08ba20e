/*
 * links.h - the links between GPUs and between nodes that a request or a cluster preset may name.
 *
 * Purpose   "ib-hdr100 x2" -> a row of data/links.csv and how many adapters a node has of it.
 * Units     GB/s are 10^9 bytes a second in one direction: of a GPU inside a node, of an adapter (or of a node, where the row's description
 *           says so) between nodes. measured_bus_gbs is NCCL's bus bandwidth in the set-up that the row names.
 * Source    data/links.csv, whose rows name theirs. An empty cell (0 or NULL here) means that no source gave the figure.
 * Threads   const table, embedded.
 */
#ifndef CATALOG_LINKS_H
#define CATALOG_LINKS_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    const char *name, *kind, *scope; /* scope: "intra", "inter", "host" */
    double theoretical_gbs_per_dir, measured_bus_gbs;
    const char *measured_setup;
    double latency_us;
};

/* Compares as gpu_find() does, a count such as " x8" aside; NULL when there is none or the count is not 1..64. */
const struct link *link_find(const char *text, unsigned *ret_count);

size_t link_count(void);
const struct link *link_at(size_t i); /* in the order of the file */

#endif
