#include "catalog/slurm.h"

#include <stddef.h>
#include <string.h>

static const struct slurm rows[] = {
#include "gen/slurm.inc"
};

const struct slurm *slurm_of(const char *cluster)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(cluster, rows[i].cluster))
            return &rows[i];
    return NULL;
}
