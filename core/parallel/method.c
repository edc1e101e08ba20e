#include "parallel/method.h"

#include <string.h>

enum method method_named(const char *name)
{
    enum method m = METHOD_SINGLE;

    while (m < METHOD_COUNT && strcmp(method_rows[m].name, name) != 0)
        m++;
    return m;
}

bool method_plays_offload(enum method m, enum offload what)
{
    bool engine = m == METHOD_ZERO1 || m == METHOD_ZERO2 || m == METHOD_ZERO3;

    return what != OFFLOAD_ACTIVATIONS || m == METHOD_SINGLE || m == METHOD_DDP || engine || method_is_fsdp1(m) || (method_is_fsdp2(m) && m != METHOD_TP_FSDP2);
}

bool method_offloads(enum method m, enum offload what)
{
    if (what == OFFLOAD_ACTIVATIONS)
        return m != METHOD_PP;
    if (m == METHOD_ZERO0) /* runtime/engine.py: what is not sharded stays */
        return false;
    if (method_is_zero(m)) /* parameters are on the host only where they are sharded */
        return what == OFFLOAD_OPTIMIZER || m == METHOD_ZERO3;
    return (method_is_fsdp1(m) || method_is_fsdp2(m)) && what == OFFLOAD_OPTIMIZER_PARAMS;
}
