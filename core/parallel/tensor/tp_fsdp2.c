/* tp_fsdp2.c - what tensor parallelism leaves a rank, sharded again by fully_shard over the data-parallel ranks of its mesh. */
#include "parallel/fsdp2/inside.h"
#include "parallel/programs.h"
#include "parallel/tensor/tp.h"

static void *wrap(struct wrapping *w)
{
    return tp_cut(w) ? fsdp2_wrap(w) : NULL;
}

const struct method_program tp_fsdp2_program = {
    .source = "transformers/distributed/tensor_parallel.py, torch/distributed/fsdp/_fully_shard",
    .wrap = wrap,
    .begin_micro_step = fsdp2_begin_micro_step,
    .pre_forward = fsdp2_pre_forward,
    .items = fsdp2_items,
    .post_forward = fsdp2_post_forward,
    .optimizer_step = fsdp2_optimizer_step,
    .host_bytes = fsdp2_host_bytes,
};
