/*
 * device_play.h - generate() of a model that a device_map has spread: what each GPU holds.
 *
 * Purpose   the model is run once, as on one GPU that has room for all; each block belongs to the GPU of the module that made it, and each GPU's blocks are
 *           played on an allocator of its own. Hidden states are copied where the next layer stands on another GPU; what stands on the host or on disk comes
 *           to the first GPU module by module and goes again (accelerate's AlignDevicesHook).
 * Source    accelerate 1.15.0 big_modeling.py dispatch_model(), hooks.py AlignDevicesHook; the map: device_map.h.
 * Packed    weights of bitsandbytes, GPTQ, AWQ and fp8 stand where their module does, with scales and workspaces; bitsandbytes' go to no host
 *           (validate_environment()), which whoever asks sees by host_bytes. The block that transformers takes ahead is cut as the weights are.
 * Not known copies of position tables and masks that each layer on another GPU is handed, a few rows of head_dim a token: not counted.
 * Units     bytes.
 * Errors    as generate().
 * Threads   pure.
 */
#ifndef INFER_DEVICE_PLAY_H
#define INFER_DEVICE_PLAY_H

#include "infer/device_map.h"
#include "infer/generate.h"

struct device_share {
    uint64_t weights_bytes, peak_allocated_bytes, peak_reserved_bytes;
    uint32_t first_layer, n_layers; /* decoder layers; they follow each other */
    bool embeddings, head;
};

struct device_spread {
    uint32_t gpus;
    struct device_share share[DEVICE_MAP_GPUS];
    uint64_t host_bytes, disk_bytes;    /* weights that stand there */
    uint32_t host_layers, disk_layers;
    uint64_t moved_bytes;               /* between GPUs, of a token of one sequence */
    uint32_t crossings;                 /* of GPUs, of a token */
    bool names_no_whole;                /* its class has no _no_split_modules: before 5.1 that raises */
    bool cuts_a_layer;                  /* between GPUs: its forward raises */
};

struct device_play_question {
    struct generate_question model; /* replay is not read */
    uint32_t gpus;
    const uint64_t *gpu_bytes; /* as device_map_question has these */
    uint64_t host_bytes;
    bool by_accelerate, as_given, no_host;
    enum device_map_shares shares;
};

MUST_CHECK enum err_code device_play(const struct device_play_question *q, struct arena *arena, struct generated *ret, struct device_spread *ret_spread,
                                     struct err *err);

#endif
