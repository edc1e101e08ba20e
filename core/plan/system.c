#include "plan/system.h"

#include "base/name.h"
#include "catalog/links.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of a link's own bandwidth, where no source measured a collective on it. NVLink: 367.6 of 450, 200 of 300, 682 of 900 (median of the rows of
 * links.csv). PCIe: 28 of 63 over 8 GPUs, 6.2 of 15.5 without peer-to-peer. Between nodes: 78.3 of 2 x 50 pipelined against the ring inside,
 * which is 0.83 of the adapters (efa-v1). */
static const double NVLINK_SHARE = 0.76, PCIE_SHARE = 0.44, NETWORK_SHARE = 0.83;

/* PCIe 3.0 x16, where not even the generation is known. */
static const double PCIE_DEFAULT_GBS = 15.75;

/* Matrix products of a capability without tensor cores for a dtype run in fp32's. */
static const double GIGA = 1e9, TERA = 1e12;

PRINTF(2, 3) static void note(struct system_notes *notes, const char *fmt, ...)
{
    va_list args;

    if (notes->n == SYSTEM_MAX_NOTES)
        return;
    va_start(args, fmt);
    (void)vsnprintf(notes->text[notes->n], sizeof notes->text[0], fmt, args);
    va_end(args);
    notes->n++;
}

static const char *gpu_name(const struct system_request *a)
{
    return a->gpu ? a->gpu->name : "this GPU";
}

static bool is_geforce(const struct system_request *a)
{
    return a->gpu && a->gpu->aliases && strstr(a->gpu->aliases, "GeForce");
}

/* --------------------------------------------------------------------------------------------------------------- rates */
static double first_of(double a, double b, double c)
{
    return a > 0 ? a : b > 0 ? b : c;
}

/* Of the row's own peak: what a peak that the request names itself comes to is not known. */
static double best_products(const struct system_request *a, const struct gpu *g)
{
    bool bf16 = g->bf16_tflops > 0;
    double peak = bf16 ? g->bf16_tflops : g->fp16_tflops, asked = bf16 ? a->bf16_tflops : a->fp16_tflops;

    return peak > 0 && asked <= 0 ? g->matmul_bf16_best_tflops / peak : 0;
}

/* fp32 products are not rounded to TF32 unless a program asks for it: torch.backends.cuda.matmul.allow_tf32 is false, TrainingArguments.tf32 sets it. */
static void rates(const struct system_request *a, struct perf_system *s, struct system_notes *notes)
{
    static const struct gpu none = {0};
    const struct gpu *g = a->gpu ? a->gpu : &none;
    double bf16 = first_of(a->bf16_tflops, g->bf16_tflops, 0), fp16 = first_of(a->fp16_tflops, g->fp16_tflops, 0);
    double fp32 = a->tf32 && g->tf32_tflops > 0 ? g->tf32_tflops : g->fp32_tflops;

    if (fp16 <= 0 && bf16 > 0)
        fp16 = bf16;
    if (bf16 <= 0 && fp16 > 0 && a->device.cc_major >= 8)
        bf16 = fp16;
    if (fp32 <= 0 && fp16 > 0) {
        fp32 = fp16 / 16;
        note(notes, "no source gives the fp32 rate of %s: a sixteenth of the half rate stands for it", gpu_name(a));
    }
    if (bf16 <= 0 && fp32 > 0) {
        bf16 = fp32;
        note(notes, "%s has no tensor cores for bf16: its products are timed at the rate of fp32", gpu_name(a));
    }
    for (int t = 0; t < DTYPE_COUNT; t++)
        s->flops_per_s[t] = fp32 * TERA;
    s->flops_per_s[DTYPE_FP16] = fp16 * TERA;
    s->flops_per_s[DTYPE_BF16] = bf16 * TERA;
    s->best_products = best_products(a, g);
    s->memory_bytes_per_s = first_of(a->memory_gbs, g->mem_bw_gbs, 0) * GIGA;
    s->multiprocessors = a->device.multiprocessors;
    s->geforce = is_geforce(a);
    s->board_power_w = g->board_power_w;
    s->cache_bytes = g->l2_bytes ? g->l2_bytes : gpu_cache_bytes(a->device.cc_major, a->device.cc_minor, a->device.multiprocessors);
    s->capability = 10 * a->device.cc_major + a->device.cc_minor;
}

/* --------------------------------------------------------------------------------------------------------------- links */
static struct perf_link link_of(double gbs, double share)
{
    return (struct perf_link){.bytes_per_s = gbs * GIGA * share};
}

static struct perf_link row_link(const struct link *l, unsigned count, double share)
{
    double theoretical = l->theoretical_gbs_per_dir * count * share, measured = l->measured_bus_gbs;
    double gbs = theoretical <= 0 ? measured
                 : measured > 0   ? (name_same(l->scope, "inter") ? fmin(theoretical, measured) : measured)
                                  : theoretical;

    return (struct perf_link){gbs * GIGA, l->latency_us * 1e-6, l->name[0] == 'p'};
}

static double pcie_gbs(const struct gpu *g)
{
    char name[8] = "pcie?";
    unsigned count;
    const struct link *l;

    if (!g || !g->pcie_gen)
        return 0;
    name[4] = g->pcie_gen[0];
    l = link_find(name, &count);
    return l ? l->theoretical_gbs_per_dir : 0;
}

/* Two GeForce cards stand in a desktop, whose processor has sixteen lanes for both. Pairs on PCIe 4.0 reach 6.2 (links.csv, pcie4-x8), 6.1 and 7.7 GB/s
 * (DDP of BERT-large on RTX 4090 and 3090, lambdal/deeplearning-benchmark), where sixteen lanes each would give 13.6. */
static double lanes(const struct system_request *a)
{
    return is_geforce(a) && a->gpus_per_node == 2 ? 0.5 : 1;
}

static void note_lanes(const struct system_request *a, struct system_notes *notes)
{
    if (lanes(a) < 1)
        note(notes, "two GeForce cards are taken to share a desktop's sixteen PCIe lanes, eight each; intra_node_gbs names a wider link");
}

static struct perf_link pcie(const struct system_request *a, struct system_notes *notes)
{
    double gbs = pcie_gbs(a->gpu);

    if (gbs <= 0) {
        note(notes, "no source gives the PCIe generation: 3.0 x16 stands for it");
        gbs = PCIE_DEFAULT_GBS;
    }
    note_lanes(a, notes);
    return (struct perf_link){gbs * lanes(a) * GIGA * PCIE_SHARE, 0, true};
}

/* A generation by its number alone: of as many lanes as the machine has. */
static struct perf_link named_pcie(const struct system_request *a, const struct link *l, unsigned count, struct system_notes *notes)
{
    struct perf_link link = row_link(l, count, PCIE_SHARE);

    if (strlen(l->name) != strlen("pcie4"))
        return link;
    note_lanes(a, notes);
    link.bytes_per_s *= lanes(a);
    return link;
}

/* Grace's GPUs reach their host over NVLink-C2C. */
static double bus_gbs(const struct gpu *g)
{
    unsigned count;
    const struct link *c2c = g && g->pcie_gen && strstr(g->pcie_gen, "C2C") ? link_find("nvlink-c2c", &count) : NULL;
    double pcie_rate = pcie_gbs(g);

    return c2c ? c2c->theoretical_gbs_per_dir : pcie_rate > 0 ? pcie_rate : PCIE_DEFAULT_GBS;
}

/* What a source measured on the generation's own row, at the GPU's own width. */
static struct perf_link nvlink(const struct gpu *g)
{
    char name[24] = "nvlink?";
    unsigned count;
    const struct link *l;
    double share = NVLINK_SHARE;

    if (g->nvlink_gen && g->nvlink_gen[0] >= '1' && g->nvlink_gen[0] <= '9') {
        name[6] = g->nvlink_gen[0];
        if (strstr(g->nvlink_gen, "bridge"))
            memcpy(name + 7, "-bridge", sizeof "-bridge");
        l = link_find(name, &count);
        if (l && l->measured_bus_gbs > 0 && l->theoretical_gbs_per_dir > 0)
            share = l->measured_bus_gbs / l->theoretical_gbs_per_dir;
    }
    return link_of(g->nvlink_gbs_per_dir, share);
}

static bool bridged(const struct gpu *g)
{
    return g->nvlink_gen && strstr(g->nvlink_gen, "bridge");
}

/* Nobody named a link: NVLink where the board has it, and a bridge, which the buyer chooses, not. */
static struct perf_link own_link(const struct system_request *a, bool named, struct system_notes *notes)
{
    const struct gpu *g = a->gpu;
    bool has = g && g->nvlink_gbs_per_dir > 0;

    if (named && !has) {
        note(notes, "no source gives the NVLink of %s: PCIe stands for it", gpu_name(a));
        return pcie(a, notes);
    }
    if (has && bridged(g) && a->gpus_per_node > 2 && named)
        note(notes, "an NVLink bridge joins two GPUs: %u of a node reach each other over PCIe", a->gpus_per_node);
    if (has && (!bridged(g) || (named && a->gpus_per_node == 2)))
        return nvlink(g);
    if (!named)
        note(notes, "no link inside the node was named: PCIe stands for it");
    return pcie(a, notes);
}

static enum err_code named_link(const char *name, const char *at, const struct link **ret, unsigned *ret_count, struct err *err)
{
    *ret = link_find(name, ret_count);
    if (!*ret)
        return err_set(err, ERR_FIELD_VALUE, at,
                       "'%.60s' is no link of the catalogue: names are those of links.csv, several adapters as 'ib-hdr x2'", name);
    return ERR_OK;
}

static enum err_code intra(const struct system_request *a, struct perf_system *s, struct system_notes *notes, struct err *err)
{
    const char *name = a->intra_node ? a->intra_node : a->cluster ? a->cluster->intra_node : NULL;
    const struct link *l = NULL;
    unsigned count = 1;
    enum err_code rc = ERR_OK;

    if (a->intra_node_gbs > 0) {
        s->intra = link_of(a->intra_node_gbs, NVLINK_SHARE);
        return ERR_OK;
    }
    if (name)
        rc = named_link(name, "/cluster/intra_node", &l, &count, err);
    if (rc || a->gpus_per_node < 2)
        return rc;
    if (!l || name_same(l->name, "nvlink"))
        s->intra = own_link(a, l != NULL, notes);
    else if (l->theoretical_gbs_per_dir <= 0 && l->measured_bus_gbs <= 0)
        return err_set(err, ERR_FIELD_VALUE, "/cluster/intra_node", "no source gives the bandwidth of '%.60s': state intra_node_gbs", name);
    else if (l->name[0] == 'p')
        s->intra = named_pcie(a, l, count, notes);
    else
        s->intra = row_link(l, count, NVLINK_SHARE);
    return ERR_OK;
}

/* What clusters of such GPUs have for each of them (clusters.csv, the vendors' nodes): adapters of 50 Gb/s on V100 (median of 12.5 to 100), 200 on A100 (a DGX
 * has eight), 400 from H100 on. Boards for one or two a machine: the one adapter of a cloud's node. */
static const struct {
    unsigned from, until; /* compute capability */
    double gbs_per_gpu;
} networks[] = {{70, 75, 6.25}, {80, 86, 25}, {90, 120, 50}};

static const double NETWORK_OF_NODE_GBS = 12.5;

static struct perf_link unnamed_network(const struct system_request *a, struct system_notes *notes)
{
    unsigned capability = 10 * a->device.cc_major + a->device.cc_minor;

    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (capability >= networks[i].from && capability < networks[i].until) {
            note(notes, "no network between the nodes was named: %.0f Gb/s for each GPU stand for it, as clusters of %s have; inter_node names another",
                 8 * networks[i].gbs_per_gpu, gpu_name(a));
            return link_of(networks[i].gbs_per_gpu * a->gpus_per_node, NETWORK_SHARE);
        }
    note(notes, "no network between the nodes was named: one adapter of 100 Gb/s a node stands for it; inter_node names another");
    return link_of(NETWORK_OF_NODE_GBS, NETWORK_SHARE);
}

static enum err_code inter(const struct system_request *a, struct perf_system *s, struct system_notes *notes, struct err *err)
{
    const char *name = a->inter_node ? a->inter_node : a->cluster ? a->cluster->inter_node : NULL;
    const struct link *l = NULL;
    unsigned count = 1;
    enum err_code rc = ERR_OK;

    if (a->inter_node_gbs > 0) {
        s->inter = link_of(a->inter_node_gbs, NETWORK_SHARE);
        return ERR_OK;
    }
    if (name)
        rc = named_link(name, "/cluster/inter_node", &l, &count, err);
    if (rc || a->nodes < 2)
        return rc;
    if (!l) {
        s->inter = unnamed_network(a, notes);
    } else if (l->theoretical_gbs_per_dir <= 0 && l->measured_bus_gbs <= 0) {
        return err_set(err, ERR_FIELD_VALUE, "/cluster/inter_node", "no source gives the bandwidth of '%.60s': state inter_node_gbs", name);
    } else {
        s->inter = row_link(l, count, NETWORK_SHARE);
    }
    return ERR_OK;
}

/* The NVLink domain of a rack joins its nodes: inside it they are one (links.csv, nvlink5-nvl72). */
enum { DOMAIN_GPUS = 72 };

static void join_domain(const struct system_request *a, struct perf_system *s, struct system_notes *notes)
{
    const char *name = a->intra_node ? a->intra_node : a->cluster ? a->cluster->intra_node : "";
    unsigned n = a->gpus_per_node * a->nodes;

    if (!name || !name_same(name, "nvlink5-nvl72") || a->intra_node_gbs > 0 || a->nodes < 2 || n > DOMAIN_GPUS)
        return;
    s->gpus_per_node = n;
    s->nodes = 1;
    note(notes, "all %u GPUs are taken to stand in one NVLink domain of %d", n, (int)DOMAIN_GPUS);
}

enum err_code plan_system(const struct system_request *asked, struct perf_system *ret, struct system_notes *ret_notes, struct err *err)
{
    struct perf_system s = {.gpus_per_node = asked->gpus_per_node, .nodes = asked->nodes};
    struct system_notes notes = {0};
    enum err_code rc;

    rates(asked, &s, &notes);
    s.bus_bytes_per_s = bus_gbs(asked->gpu) * lanes(asked) * GIGA;
    if (s.flops_per_s[DTYPE_BF16] <= 0 || s.memory_bytes_per_s <= 0)
        return err_set(err, ERR_FIELD_VALUE, "/cluster/gpu", "no source gives the %s of %s: state it in an object",
                       s.memory_bytes_per_s <= 0 ? "memory bandwidth (memory_gbs)" : "rate (bf16_tflops)", gpu_name(asked));
    rc = intra(asked, &s, &notes, err);
    if (!rc)
        rc = inter(asked, &s, &notes, err);
    if (rc)
        return rc;
    join_domain(asked, &s, &notes);
    *ret = s;
    *ret_notes = notes;
    return ERR_OK;
}
