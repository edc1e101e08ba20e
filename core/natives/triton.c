/* triton.c - what host code of Triton kernels calls: a launch, which allocates nothing, and the arithmetic around it. */
#include "natives/functions.h"

#include "torch/autograd.h"
#include "torch/work.h"

enum { MOST = 1 << 28 }; /* of a dimension of multiply() */

/* Each tensor is read or written once. */
static bool add_tensors(struct script *s, sv list, uint64_t *bytes, uint64_t *elems)
{
    uint32_t n;
    const sv *items = seq_items(list, &n);

    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = sv_is_none(items[i]) ? NULL : need_tensor(s, items[i], "a launch");
        uint64_t each;

        if (sv_is_none(items[i]))
            continue;
        if (!t)
            return false;
        if (natives_of(s)->run && !on_device(natives_of(s), t))
            return script_raise(s, EXC_ValueError, "Pointer argument cannot be accessed from Triton (cpu tensor?)"), false;
        each = (uint64_t)numel(t->run, value_in(t));
        *bytes += each * dtype_bytes((enum dtype)shape_of(t)->dtype);
        *elems = each > *elems ? each : *elems;
    }
    return items != NULL;
}

/* launch(reads, writes): tuples of tensors */
static sv launch_kernel(struct script *s, const struct script_args *a)
{
    struct run *r = natives_of(s)->run;
    uint64_t bytes = 0, elems = 0;

    if (!script_charge(s, 1) || !add_tensors(s, a->v[0], &bytes, &elems) || !add_tensors(s, a->v[1], &bytes, &elems))
        return script_failed(s) ? sv_null() : script_raise(s, EXC_TypeError, "launch() takes two tuples of tensors");
    if (r)
        calls_unheard(r), work_add(r, OP_TRITON, elems, bytes, 1);
    return sv_none();
}

/* multiply(out, rows, inner, columns, bytes): products whose factors are packed, `rows` over all groups; `bytes` of the second one */
static sv multiply(struct script *s, const struct script_args *a)
{
    const struct tensor *out = need_tensor(s, a->v[0], "out");
    int64_t rows = 0, inner = 0, columns = 0, bytes = 0;

    if (!out || !int_arg(s, a->v[1], &rows) || !int_arg(s, a->v[2], &inner) || !int_arg(s, a->v[3], &columns) || !int_arg(s, a->v[4], &bytes) ||
        !script_charge(s, 1))
        return sv_null();
    if (rows < 0 || inner < 0 || columns < 0 || bytes < 0 || rows > MOST || inner > MOST || columns > MOST || bytes > (int64_t)MOST * MOST)
        return script_raise(s, EXC_ValueError, "multiply() of a size that nothing has");
    if (natives_of(s)->run) {
        uint64_t moved = (uint64_t)(rows * (inner + columns)) * dtype_bytes((enum dtype)shape_of(out)->dtype) + (uint64_t)bytes;
        double flops = 2.0 * (double)rows * (double)inner * (double)columns;

        calls_unheard(out->run);
        work_add_product(out->run, OP_TRITON_DOT, shape_of(out)->dtype, flops < 9e18 ? (uint64_t)flops : UINT64_C(9000000000000000000), moved);
    }
    return sv_none();
}

/* attend(query, key, causal, backward): a kernel that does what flash attention's does */
static sv attend(struct script *s, const struct script_args *a)
{
    const struct tensor *q = need_tensor(s, a->v[0], "query"), *k = q ? need_beside(s, q, a->v[1], "key") : NULL;
    const struct value *x = k ? shape_of(q) : NULL, *y = k ? shape_of(k) : NULL;
    bool causal = true, backward = false;

    if (!k || !bool_arg(s, a->v[2], &causal) || !bool_arg(s, a->v[3], &backward) || !script_charge(s, 1))
        return sv_null();
    if (x->ndim != 4 || y->ndim != 4)
        return script_raise(s, EXC_ValueError, "attend() takes [batch, heads, tokens, width]");
    calls_unheard(q->run);
    launch_attention(q->run, backward ? OP_FLASH_BACKWARD : OP_FLASH,
                     (struct attended){x->size[0], x->size[1], x->size[2], y->size[2], x->size[3], causal}, value_in(q), value_in(k));
    return sv_none();
}

static sv multiprocessors(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);

    (void)a;
    return n->run ? sv_int(n->run->device.multiprocessors) : script_leave(s, "the device's multiprocessors, before there is one");
}

/* max_shared_mem of a block that asks for it: CUDA C++ Programming Guide, technical specifications per compute capability */
static sv shared_memory(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    unsigned major = n->run ? n->run->device.cc_major : 0, minor = n->run ? n->run->device.cc_minor : 0;

    (void)a;
    if (!n->run)
        return script_leave(s, "the device's shared memory, before there is one");
    if (major < 8)
        return sv_int(major == 7 && minor == 5 ? 65536 : 98304);
    if (major == 9 || major == 10)
        return sv_int(232448);
    return sv_int(major == 8 && (!minor || minor == 7) ? 166912 : 101376);
}

static sv cdiv(struct script *s, const struct script_args *a)
{
    int64_t x = 0, y = 1;

    if (!int_arg(s, a->v[0], &x) || !int_arg(s, a->v[1], &y))
        return sv_null();
    return y > 0 ? sv_int(x / y + (x % y > 0)) : script_raise(s, EXC_ZeroDivisionError, "division by zero");
}

static sv next_power_of_2(struct script *s, const struct script_args *a)
{
    int64_t x = 0, p = 1;

    if (!int_arg(s, a->v[0], &x))
        return sv_null();
    while (p < x && p < (int64_t)1 << 62)
        p *= 2;
    return sv_int(p);
}

static const struct script_native functions[] = {
    {"attend", attend, "query, key, causal, backward, /", 0, NATIVE_PLAIN},
    {"launch", launch_kernel, "reads, writes, /", 0, NATIVE_PLAIN},
    {"multiply", multiply, "out, rows, inner, columns, bytes, /", 0, NATIVE_PLAIN},
    {"multiprocessors", multiprocessors, "", 0, NATIVE_PLAIN},
    {"shared_memory", shared_memory, "", 0, NATIVE_PLAIN},
    {"cdiv", cdiv, "x, y, /", 0, NATIVE_PLAIN},
    {"next_power_of_2", next_power_of_2, "n, /", 0, NATIVE_PLAIN},
    {0},
};
const struct script_module triton_module = {.name = "triton", .functions = functions};
