/*
 * device_map.h - device_map "auto", "balanced_low_0", "sequential": which module of a declared model stands on which GPU, on the host or on disk.
 *
 * Purpose   device_map_infer() is get_balanced_memory() and infer_auto_device_map() in one: each GPU but the last is given an equal share and a buffer,
 *           modules are put one after the other where there is room, a decoder layer is not split where the class names it, tied weights stay together;
 *           what no GPU has room for goes to the host, then to disk, with room left on the first GPU for the largest layer that comes back.
 * Source    transformers 5.23 integrations/accelerate.py get_balanced_memory(), infer_auto_device_map(), get_max_memory(); before 5 accelerate 1.15.0
 *           utils/modeling.py, functions of the same names. Maps of the real packages: tests/data/accuracy/device_maps.jsonl.
 *           quantizers/quantizer_bnb_4bit.py, _8bit.py: param_element_size() (5), adjust_target_dtype(), get_special_dtypes_update() (before),
 *           adjust_max_memory().
 * Models    models whose decoder layers are the one class that is not split; at most one pair of tied weights.
 * Units     bytes.
 * Errors    ERR_NOMEM.
 * Threads   pure.
 */
#ifndef INFER_DEVICE_MAP_H
#define INFER_DEVICE_MAP_H

#include "torch/module.h"
#include "tuning/kbit.h"

enum { DEVICE_MAP_GPUS = 64 };

/* balanced_low_0 gives the first GPU what the others have no room for; sequential fills each. */
enum device_map_shares { SHARES_BALANCED, SHARES_BALANCED_LOW_0, SHARES_SEQUENTIAL };

struct device_map_question {
    const struct tree *tree;
    uint32_t gpus;                /* 1 to DEVICE_MAP_GPUS */
    const uint64_t *gpu_bytes;    /* of each: free before the model, or of max_memory */
    uint64_t host_bytes;          /* for modules; what is above goes to disk */
    enum dtype dtype;             /* that weights are loaded in */
    enum kbit weights;            /* by bitsandbytes, which wants a tenth of each device left; KBIT_NONE: as declared */
    bool by_accelerate;           /* accelerate's rule, not transformers' own */
    bool as_given;                /* the bytes are max_memory: one GPU's is not cut to 90 %, the host's not either */
    bool no_host;                 /* max_memory without "cpu": what no GPU has room for goes to disk */
    bool layers_split;            /* the class has no _no_split_modules */
    enum device_map_shares shares;
};

/* *ret: of each module by its number the device of what it holds itself: a GPU's index, `gpus` the host, `gpus` + 1 disk; DEVICE_MAP_SPLIT: it is split. */
enum { DEVICE_MAP_SPLIT = 255 };
MUST_CHECK enum err_code device_map_infer(const struct device_map_question *q, struct arena *arena, uint8_t **ret, struct err *err);

#endif
