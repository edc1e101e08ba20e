#include "parallel/gap.h"

static uint32_t least_one(uint32_t degree)
{
    return degree ? degree : 1;
}

/* transformers' view(.., -1, head_dim) of what a rank projects: half a head has no place. */
static enum err_code heads_gap(const struct parallel_shape *s, uint32_t tp, struct err *err)
{
    const char *at = "/training/tensor_parallel";

    if (s->heads % tp)
        return err_set(err, ERR_FIELD_CONFLICT, at, "%u attention heads cannot be shared by %u GPUs: a head is computed on one", s->heads, tp);
    if (s->kv_heads % tp)
        return err_set(err, ERR_FIELD_CONFLICT, at, "%u key-value heads cannot be shared by %u GPUs: a head is computed on one", s->kv_heads, tp);
    return ERR_OK;
}

enum err_code parallel_gap(const struct parallel_shape *s, struct err *err)
{
    uint32_t tp = least_one(s->tensor_parallel), pp = least_one(s->pipeline_parallel);

    if (s->gpus % ((uint64_t)tp * pp))
        return err_set(err, ERR_FIELD_CONFLICT, tp > 1 ? "/training/tensor_parallel" : "/training/pipeline_parallel",
                       "%u GPUs are no whole number of groups of %u x %u: tensor_parallel x pipeline_parallel must divide them", s->gpus, tp, pp);
    if (pp > s->layers)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/pipeline_parallel", "%u stages cannot share %u layers", pp, s->layers);
    return heads_gap(s, tp, err);
}
