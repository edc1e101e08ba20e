/*
 * slurm.h - how the clusters of clusters.csv take jobs: what an sbatch script says there.
 *
 * Source    data/slurm.csv, whose rows name theirs. An empty cell (0 or NULL here) means that no source says it. Lists are joined by ';'.
 * Threads   const table, embedded.
 */
#ifndef CATALOG_SLURM_H
#define CATALOG_SLURM_H

struct slurm {
    const char *cluster;                     /* a name of clusters.csv */
    const char *partition, *small_partition; /* small: for one node's `small_gpus` or fewer */
    unsigned small_gpus;
    const char *account, *gpus;        /* options; '%' stands where the number of GPUs a node does */
    unsigned cpus_per_gpu, gb_per_gpu; /* gb_per_gpu: host memory to ask for; 0: it comes with the GPU */
    const char *options, *time_limit, *modules, *environment;
};

/* By the cluster's own name; NULL when none is known. */
const struct slurm *slurm_of(const char *cluster);

#endif
