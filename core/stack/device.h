/*
 * device.h - what the engine needs to know of a GPU; passed by value, knows no catalogue.
 */
#ifndef STACK_DEVICE_H
#define STACK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

struct device {
    unsigned cc_major, cc_minor;   /* compute capability: picks the attention kernel and cuBLAS's workspace */
    unsigned multiprocessors;      /* grids, and with them the scratch of reductions */
    unsigned threads_per_multiprocessor; /* 2048 on sm_80 and sm_90, 1536 on sm_86, sm_89 and sm_120, 1024 on sm_75 */
    bool untraced;                 /* kernels of another compute capability answer: this one's were never traced */
    uint64_t usable_bytes;         /* what a program sees: torch.cuda.get_device_properties().total_memory */
    uint64_t context_bytes;        /* what a process holds beside the allocator's segments */
    bool addresses_fall;           /* torch/alloc.h: how the driver lays out what is asked of it */
    bool host;                     /* no GPU: a host whose processors compute, without cuBLAS's workspaces */
};

#endif
