#include "catalog/clusters.h"

#include "base/name.h"

static const struct cluster clusters[] = {
#include "gen/clusters.inc"
};

enum { N_CLUSTERS = sizeof clusters / sizeof *clusters };

size_t cluster_count(void)
{
    return N_CLUSTERS;
}

const struct cluster *cluster_at(size_t i)
{
    return i < N_CLUSTERS ? &clusters[i] : NULL;
}

const struct cluster *cluster_find(const char *name)
{
    for (size_t i = 0; i < N_CLUSTERS; i++)
        if (name_same(name, clusters[i].name) || (clusters[i].aliases && name_in_list(name, clusters[i].aliases)))
            return &clusters[i];
    return NULL;
}
