/* The cluster of a request: the GPU as the engine knows it, and the system that step times are computed on. */
#include "api/answer/estimate.h"
#include "api/request/named.h"

#include "catalog/clusters.h"
#include "catalog/gpus.h"
#include "plan/system.h"

#include <string.h>

bool cluster_has_no_gpu(const struct estimate *e)
{
    return asks_inference(&e->rq) && names_no_gpu(&e->rq.cluster);
}

/* What runs on a host alone: the capability only says that it computes in bf16. */
enum err_code cluster_host(struct estimate *e)
{
    const struct quantity *host = &e->rq.cluster.host_memory_bytes_per_node;

    if (!host->set)
        return err_set(e->call->err, ERR_FIELD_MISSING, "/cluster/host_memory_bytes_per_node",
                       "the memory of the host, which all stands in where no GPU computes");
    e->question.device = (struct device){.cc_major = 8, .multiprocessors = 108, .threads_per_multiprocessor = 2048, .usable_bytes = host->whole, .host = true};
    e->question.capacity_bytes = e->question.host_memory_bytes_per_node = host->whole;
    e->question.gpus = e->question.gpus_per_node = 1;
    e->question.system = NULL;
    return ERR_OK;
}

static enum err_code named_gpu(struct estimate *e, struct device *ret)
{
    struct gpu_request *asked = &e->rq.cluster.gpu;
    const struct gpu *gpu = gpu_find(asked->name);
    struct gpu_notes notes = {0};

    if (names_no_gpu(&e->rq.cluster))
        return err_set(e->call->err, ERR_FIELD_VALUE, "/cluster/gpu", "a host without a GPU is answered for workload inference alone");
    if (!gpu)
        return err_set(e->call->err, ERR_FIELD_VALUE, "/cluster/gpu",
                       "'%.40s' is no GPU that is known: GET /gpus lists them, or give an object of its numbers", asked->name);
    if (!gpu_device(gpu, ret, &notes))
        return err_set(e->call->err, ERR_FIELD_VALUE, "/cluster/gpu",
                       "%.60s has neither CUDA nor ROCm: PyTorch's allocator does not run on it", gpu->name);
    for (unsigned i = 0; i < notes.n; i++)
        note_of(&e->assumptions, NOTE_OF_INTERNALS, "%s", notes.text[i]);
    if (gpu_is_of_rocm(gpu) && e->rq.allocator.expandable_segments == TRI_TRUE)
        note(&e->warnings,
             "PyTorch for ROCm reads expandable_segments since its pull requests 177974 and 179930 (spring of 2026, ROCm 7); before, it warns and goes on "
             "without: peak_reserved_bytes is then that of a request without it");
    asked->name = gpu->name;
    return ERR_OK;
}

/* What the engine needs and the numbers leave out is an A100's. */
static enum err_code described_gpu(struct estimate *e, struct device *ret)
{
    struct gpu_numbers *n = &e->rq.cluster.gpu.numbers;
    struct device d = {.cc_major = 8, .multiprocessors = 108};

    if (n->compute_capability && !gpu_capability(n->compute_capability, &d.cc_major, &d.cc_minor))
        return err_set(e->call->err, ERR_FIELD_VALUE, "/cluster/gpu/compute_capability", "'%.8s' is none, like \"8.0\"",
                       n->compute_capability);
    if (!n->compute_capability) {
        n->compute_capability = "8.0";
        note_of(&e->assumptions, NOTE_OF_YOURS, "cluster.gpu.compute_capability 8.0, an A100's: left out");
    }
    if (n->multiprocessors.set)
        d.multiprocessors = (unsigned)n->multiprocessors.whole;
    else
        note_of(&e->assumptions, NOTE_OF_YOURS, "cluster.gpu.multiprocessors 108, an A100's: left out");
    n->multiprocessors = (struct quantity){.set = true, .whole = d.multiprocessors};
    gpu_process(&d);
    if (d.addresses_fall)
        note_of(&e->assumptions, NOTE_OF_INTERNALS, GPU_PROCESS_HOPPER, GPU_CONTEXT_HOPPER_MIB, "this GPU");
    else
        note_of(&e->assumptions, NOTE_OF_INTERNALS, "a process holds %d MiB before its first tensor", GPU_CONTEXT_MIB);
    d.threads_per_multiprocessor = gpu_threads_per_multiprocessor(d.cc_major, d.cc_minor);
    d.untraced = !gpu_traced(d.cc_major, d.cc_minor);
    d.usable_bytes = n->memory_bytes.whole;
    *ret = d;
    return ERR_OK;
}

static bool has_rates(const struct gpu_numbers *n)
{
    return (n->bf16_tflops.set || n->fp16_tflops.set) && n->memory_gbs.set;
}

/* Links that are named wrong are an error. A GPU whose rates nothing gives leaves the candidates without step times, and says so. */
static enum err_code read_system(struct estimate *e)
{
    const struct cluster_request *c = &e->rq.cluster;
    const struct gpu_numbers *n = &c->gpu.numbers;
    struct system_notes notes = {0};
    struct system_request asked = {
        .gpu = c->gpu.by_numbers ? NULL : gpu_find(c->gpu.name),
        .cluster = c->name ? cluster_find(c->name) : NULL,
        .bf16_tflops = n->bf16_tflops.real,
        .fp16_tflops = n->fp16_tflops.real,
        .memory_gbs = n->memory_gbs.real,
        .tf32 = e->rq.training.tf32 == TRI_TRUE,
        .device = e->question.device,
        .intra_node = c->intra_node,
        .inter_node = c->inter_node,
        .intra_node_gbs = c->intra_node_gbs.real,
        .inter_node_gbs = c->inter_node_gbs.real,
        .gpus_per_node = c->gpus_per_node.set ? (unsigned)c->gpus_per_node.whole : 1,
        .nodes = c->nodes.set ? (unsigned)c->nodes.whole : 1,
    };
    enum err_code rc = plan_system(&asked, &e->system, &notes, e->call->err);

    for (unsigned i = 0; i < notes.n; i++)
        note(&e->assumptions, "%s", notes.text[i]);
    if (rc && !strcmp(e->call->err->at, "/cluster/gpu")) {
        note(&e->warnings, c->gpu.by_numbers && !has_rates(n)
                               ? "/cluster/gpu: bf16_tflops (or fp16_tflops) and memory_gbs are left out, so candidates have no step times"
                               : "/cluster/gpu: no source gives this GPU's rates, so candidates have no step times");
        return ERR_OK;
    }
    if (!rc)
        e->question.system = &e->system;
    return rc;
}

/* low_bytes..high_bytes span what plan/verdict.c reads otherwise. */
static void say_untraced(struct estimate *e)
{
    const struct device *d = &e->question.device;

    if (d->cc_major < 8)
        note(&e->warnings,
             "kernels of compute capability %u.%u were not traced: those of 8.0 answer for it; high_bytes is with attention written out",
             d->cc_major, d->cc_minor);
    else
        note(
            &e->warnings,
            "this GPU's kernels were not traced: those of compute capability %u.%u answer for it; low_bytes..high_bytes span the flash and the "
            "memory-efficient kernel of attention",
            d->cc_major, d->cc_minor);
}

enum err_code cluster_read(struct estimate *e)
{
    struct plan_question *q = &e->question;
    const struct quantity *free_bytes = &e->rq.cluster.free_memory_bytes;
    enum err_code rc;

    if (cluster_has_no_gpu(e))
        return cluster_host(e);
    rc = e->rq.cluster.gpu.by_numbers ? described_gpu(e, &q->device) : named_gpu(e, &q->device);
    if (!rc)
        rc = read_system(e);
    if (rc)
        return rc;
    q->gpus = (uint32_t)request_gpus(&e->rq);
    q->gpus_per_node = e->rq.cluster.gpus_per_node.set ? (uint32_t)e->rq.cluster.gpus_per_node.whole : 1;
    q->host_memory_bytes_per_node = e->rq.cluster.host_memory_bytes_per_node.whole;
    q->capacity_bytes = q->device.usable_bytes;
    if (free_bytes->set && free_bytes->whole < q->capacity_bytes)
        q->capacity_bytes = free_bytes->whole;
    if (q->device.untraced)
        say_untraced(e);
    return ERR_OK;
}
