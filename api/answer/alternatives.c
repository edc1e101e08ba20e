/* Clusters to try where nothing fits: more of the same GPUs, then larger ones. */
#include "api/answer/estimate.h"

#include "catalog/gpus.h"
#include "plan/system.h"

#include <string.h>

/* One board of each size that people buy or rent, of rising memory. */
static const char *const nvidia[] = {"RTX 3060",      "RTX 4060 Ti 16GB", "RTX 4090", "RTX 5090", "L40S",
                                     "A100-80GB SXM", "H200 SXM",         "B200 SXM", "B300 SXM"};
static const char *const amd[] = {"RX 7900 XTX", "MI250X (per GCD)", "MI300X"};

_Static_assert(sizeof nvidia / sizeof *nvidia <= LADDER && sizeof amd / sizeof *amd <= LADDER, "the ladder has room");

enum { NODE = 8, DOUBLINGS = 3, NODES = 4 }; /* GPUs that a node has at most; times more of the same; nodes of the largest: 1, 2, 4, 8 */

static const double LARGER = 1.1; /* less is the same size with another name */

static bool is_amd(const struct estimate *e)
{
    const struct gpu *gpu = e->rq.cluster.gpu.by_numbers ? NULL : gpu_find(e->rq.cluster.gpu.name);

    return gpu && !strcmp(gpu->vendor, "AMD");
}

static void take_system(const struct estimate *e, const struct gpu *gpu, struct plan_alternative *ret)
{
    const struct cluster_request *c = &e->rq.cluster;
    struct system_notes notes = {0};
    struct err err = {0};
    struct system_request asked = {
        .gpu = gpu                 ? gpu
               : c->gpu.by_numbers ? NULL
                                   : gpu_find(c->gpu.name),
        .bf16_tflops = gpu ? 0 : c->gpu.numbers.bf16_tflops.real,
        .fp16_tflops = gpu ? 0 : c->gpu.numbers.fp16_tflops.real,
        .memory_gbs = gpu ? 0 : c->gpu.numbers.memory_gbs.real,
        .tf32 = e->rq.training.tf32 == TRI_TRUE,
        .device = ret->device,
        .intra_node = gpu ? NULL : c->intra_node,
        .inter_node = c->inter_node,
        .intra_node_gbs = gpu ? 0 : c->intra_node_gbs.real,
        .inter_node_gbs = c->inter_node_gbs.real,
        .gpus_per_node = ret->gpus_per_node,
        .nodes = ret->gpus / ret->gpus_per_node,
    };

    ret->is_timed = !plan_system(&asked, &ret->system, &notes, &err);
}

/* Twice as many, four and eight times: within a node where nobody said what a node has, else more nodes. */
static bool more_of_the_same(const struct estimate *e, uint32_t i, struct plan_alternative *ret)
{
    const struct plan_question *q = &e->question;
    uint32_t here = q->gpus_per_node, times = 2U << i;

    *ret =
        (struct plan_alternative){.gpus = q->gpus * times, .gpus_per_node = here, .device = q->device, .capacity_bytes = q->capacity_bytes};
    if (!e->rq.cluster.name && q->gpus == here && here * times <= NODE)
        ret->gpus_per_node = here * times;
    take_system(e, NULL, ret);
    return true;
}

static void find_larger(struct estimate *e)
{
    struct ladder *l = &e->ladder;
    const char *const *names;
    size_t n;

    if (l->is_known)
        return;
    l->is_known = true;
    l->is_amd = is_amd(e);
    names = l->is_amd ? amd : nvidia;
    n = l->is_amd ? sizeof amd / sizeof *amd : sizeof nvidia / sizeof *nvidia;
    for (size_t k = 0; k < n; k++) {
        const struct gpu *gpu = gpu_find(names[k]);
        struct gpu_notes notes = {0};
        struct device device;

        if (!gpu || (double)gpu->usable_bytes < LARGER * (double)e->question.capacity_bytes)
            continue;
        if (!gpu_device(gpu, &device, &notes)) /* the ladder ends there */
            return;
        l->gpu[l->n++] = gpu;
    }
}

static bool take_gpu(const struct estimate *e, const struct gpu *gpu, struct plan_alternative *ret)
{
    struct gpu_notes notes = {0};

    if (!gpu_device(gpu, &ret->device, &notes))
        return false;
    ret->gpu = gpu->name;
    ret->capacity_bytes = ret->device.usable_bytes;
    take_system(e, gpu, ret);
    return true;
}

/* What data centres have: nodes of eight, once one of the larger GPUs, then more. */
static bool nodes_of_the_largest(const struct estimate *e, uint32_t i, struct plan_alternative *ret)
{
    const struct gpu *gpu = i < NODES ? gpu_find(e->ladder.is_amd ? "MI300X" : "H200 SXM") : NULL;

    *ret = (struct plan_alternative){.gpus = (uint32_t)NODE << i, .gpus_per_node = NODE, .at_any_rate = true};
    return gpu && take_gpu(e, gpu, ret);
}

bool alternative_cluster(void *of, uint32_t i, struct plan_alternative *ret)
{
    struct estimate *e = of;
    const struct plan_question *q = &e->question;

    if (i < DOUBLINGS)
        return more_of_the_same(e, i, ret);
    find_larger(e);
    i -= DOUBLINGS;
    if (i >= e->ladder.n)
        return nodes_of_the_largest(e, i - e->ladder.n, ret);
    *ret = (struct plan_alternative){.gpus = q->gpus, .gpus_per_node = q->gpus_per_node};
    return take_gpu(e, e->ladder.gpu[i], ret);
}
