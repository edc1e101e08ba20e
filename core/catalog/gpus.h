/*
 * gpus.h - the GPUs that a request may name.
 *
 * Purpose   a name as people type it -> a row of data/gpus.csv -> the struct device that the engine reads.
 * Models    NVIDIA by CUDA's compute capability. AMD as the nearest data-centre NVIDIA part (8.0): PyTorch's allocator is the same,
 *           the kernels are not. No others: PyTorch's CUDA allocator does not run on them.
 * Source    data/gpus.csv, whose cells name theirs. An empty cell (0 or NULL here) means that no source gave the figure; what
 *           gpu_device() puts in its place it says in notes.
 * Threads   const tables, embedded.
 */
#ifndef CATALOG_GPUS_H
#define CATALOG_GPUS_H

#include "stack/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu {
    const char *name;
    const char *aliases;            /* joined by ';' */
    const char *vendor, *arch;
    const char *compute_capability; /* "8.0"; AMD: "gfx90a" */
    unsigned multiprocessors;       /* SMs, CUs, or work-group processors: what torch counts */
    double memory_gb_marketing;
    uint64_t memory_bytes;          /* one total as a driver reported it */
    uint64_t usable_bytes;          /* the lowest total that any program saw */
    double context_mib;             /* before CUDA 11.7, when all kernels were loaded at start: not what a process of today holds */
    double board_power_w;           /* as its limit is set when it is sold */
    uint64_t l2_bytes;              /* as deviceQuery prints it */
    double mem_bw_gbs;              /* 10^9 bytes a second */
    double fp32_tflops, tf32_tflops, fp16_tflops, bf16_tflops; /* dense peaks */
    double matmul_bf16_best_tflops; /* best published single product; of fp16 where the GPU has no bf16 */
    const char *nvlink_gen;         /* "3", "3 bridge": joins pairs, "5 NVL72", AMD: "xGMI" */
    double nvlink_gbs_per_dir;      /* of a GPU */
    const char *pcie_gen;           /* "4", "5/C2C" */
};

/* Compares without case, blanks, '-' and '_', over names and aliases; NULL when there is none. "A100-40GB", "a100 80gb". */
const struct gpu *gpu_find(const char *name);

/* GeForce and Radeon: boards that people have at home. */
bool gpu_is_consumer(const struct gpu *gpu);
bool gpu_is_of_rocm(const struct gpu *gpu);

size_t gpu_count(void);
const struct gpu *gpu_at(size_t i); /* in the order of the file */

/* What was put in the place of figures that no source gives: one sentence each, for `assumptions`. */
enum { GPU_MAX_NOTES = 4 };

struct gpu_notes {
    unsigned n;
    char text[GPU_MAX_NOTES][256];
};

/* false: a device without CUDA or ROCm. */
bool gpu_device(const struct gpu *gpu, struct device *ret, struct gpu_notes *ret_notes);

/* --- for a GPU that a request describes by numbers ----------------------------------------------------------------------------- */

/* "8.6" -> 8, 6; false for anything else. */
bool gpu_capability(const char *text, unsigned *ret_major, unsigned *ret_minor);

/* Resident threads of a multiprocessor. Source: CUDA C++ Programming Guide 13, "Technical Specifications per Compute Capability".
 * A capability that is not in it gets that of the highest known one below it. */
bool gpu_traced(unsigned cc_major, unsigned cc_minor); /* its kernels' temporaries were traced; else those of 8.0 answer, and the answer says so */
unsigned gpu_threads_per_multiprocessor(unsigned cc_major, unsigned cc_minor);

/*
 * L2 cache of a GPU whose row has none, by capability and, where dies of one capability differ, by how many multiprocessors the product has.
 * Source: NVIDIA's tuning guides, "Increased L2 capacity": Ampere (40 MB of A100, 6 MB of V100), Hopper (50 MB), Ada (98,304 KB of AD102, 16 times
 * GA102), Blackwell (126 MB of B200). GA10x: the GA102 whitepaper's 512 KB for each 32-bit memory controller, of which a product has its bus width. T4:
 * deviceQuery's 4 MB. Ada, Blackwell, reported at launch, not verified: RTX 4070 36, 4070 Super 48, 4080 64, 5080 64, 5090 96 MB.
 * No source was found for other cut dies of 8.9 and 12.0: those have at least the figure of the row below them. AMD's by the capability that answers.
 */
uint64_t gpu_cache_bytes(unsigned cc_major, unsigned cc_minor, unsigned multiprocessors);

/*
 * What a process holds beside the allocator's segments, and how the driver lays those out. Hopper: measured on an H100 80GB (driver 580.159,
 * CUDA 13.0, torch 2.11; tests/data/accuracy/measured.jsonl): 527 MiB once the context stands, 767 when the kernels of a step are loaded (751
 * without cuDNN's attention). Others: reported for CUDA 11.7 and later, whose kernels are loaded when first used (pytorch/pytorch issue 107667);
 * their addresses were not measured, and rise.
 */
enum { GPU_CONTEXT_MIB = 300, GPU_CONTEXT_HOPPER_MIB = 767 };
/* A Hopper's sentence; takes the MiB and whose they are. */
#define GPU_PROCESS_HOPPER                                                                                                                        \
    "a process holds %d MiB of %s beside its tensors, and its segments lie as on an H100 with driver 580.159, CUDA 13.0 and torch 2.11, both "      \
    "measured there"
void gpu_process(struct device *d); /* by its compute capability */

#endif
