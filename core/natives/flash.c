/* flash.c - the flash-attn package's functions: flash_attn_interface.py 2.7.4, bert_padding.py. Dropout is drawn in the kernel: it keeps nothing. */
#include "natives/functions.h"

/* flash_api.cpp: q, k and v alike in how many dimensions they have */
static bool have_dims(struct script *s, int nd, const struct tensor *of[3])
{
    for (int i = 0; i < 3; i++)
        if (shape_of(of[i])->ndim != nd)
            return script_raise(s, EXC_RuntimeError, "q, k and v must have %d dimensions", nd), false;
    return true;
}

static sv plain(struct script *s, const struct script_args *a)
{
    struct tensor *q = need_tensor(s, a->v[0], "flash_attn_func"), *k = q ? need_beside(s, q, a->v[1], "flash_attn_func") : NULL,
                  *v = k ? need_beside(s, q, a->v[2], "flash_attn_func") : NULL;
    double p = 0;

    if (!v || !float_arg(s, a->v[3], &p) || !have_dims(s, 4, (const struct tensor *[]){q, k, v}))
        return sv_null();
    return wrap(s, q->run, flash_attn_func(q->run, value_in(q), value_in(k), value_in(v)));
}

static sv varlen(struct script *s, const struct script_args *a)
{
    struct tensor *q = need_tensor(s, a->v[0], "flash_attn_varlen_func"), *k = q ? need_beside(s, q, a->v[1], "flash_attn_varlen_func") : NULL,
                  *v = k ? need_beside(s, q, a->v[2], "flash_attn_varlen_func") : NULL,
                  *starts = v ? need_beside(s, q, a->v[3], "flash_attn_varlen_func") : NULL;
    struct tensor *longest = starts ? as_tensor(s, a->v[5]) : NULL;
    double p = 0;

    if (!starts || !float_arg(s, a->v[7], &p) || !have_dims(s, 3, (const struct tensor *[]){q, k, v}))
        return sv_null();
    if (shape_of(starts)->ndim != 1 || shape_of(starts)->size[0] < 2)
        return script_raise(s, EXC_RuntimeError, "batch_size must be positive");
    return wrap(s, q->run,
                flash_attn_varlen(q->run, value_in(q), value_in(k), value_in(v), value_in(starts),
                                  size_of(q->run, value_in(starts), 0) - 1, longest && longest->run == q->run ? value_in(longest) : 0));
}

static sv pad_input(struct script *s, const struct script_args *a)
{
    struct tensor *x = need_tensor(s, a->v[0], "pad_input"), *indices = x ? need_beside(s, x, a->v[1], "pad_input") : NULL;
    int64_t batch = 0, length = 0, rows, size[MAX_DIMS];
    struct run *r;
    val out;
    int nd;

    if (!indices || !int_arg(s, a->v[2], &batch) || !int_arg(s, a->v[3], &length))
        return sv_null();
    r = x->run;
    nd = shape_of(x)->ndim;
    if (!nd || nd == MAX_DIMS || batch < 0 || length < 0)
        return script_raise(s, EXC_RuntimeError, "pad_input() of %d dimensions into %lld rows of %lld", nd, (long long)batch, (long long)length);
    rows = batch;
    if (!size_grow(s, &rows, length))
        return sv_null();
    size[0] = batch;
    size[1] = length;
    for (int i = 1; i < nd; i++)
        size[i + 1] = shape_of(x)->size[i];
    out = index_put_first(r, value_in(x), value_in(indices), rows);
    return wrap(s, r, view(r, out, nd + 1, size));
}

/* IndexFirstAxis: gathers rows of all heads together, and knows their way back */
static sv index_first_axis(struct script *s, const struct script_args *a)
{
    struct tensor *x = need_tensor(s, a->v[0], "index_first_axis"), *indices = x ? need_beside(s, x, a->v[1], "index_first_axis") : NULL;

    if (indices && !shape_of(x)->ndim)
        return script_raise(s, EXC_IndexError, "index_first_axis() of no dimension");
    return indices ? wrap(s, x->run, index_first(x->run, OP_INDEX_FIRST, value_in(x), value_in(indices))) : sv_null();
}

static const struct script_native functions[] = {
    {"flash_attn_func", plain,
     "q, k, v, dropout_p=, softmax_scale=, causal=, window_size=, softcap=, alibi_slopes=!, deterministic=!, return_attn_probs=!", 0,
     NATIVE_PLAIN},
    {"flash_attn_varlen_func", varlen,
     "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=, softmax_scale=, causal=, "
     "window_size=, softcap=, alibi_slopes=!, deterministic=!, return_attn_probs=!, block_table=!",
     0, NATIVE_PLAIN},
    {"bert_padding.index_first_axis", index_first_axis, "input, indices", 0, NATIVE_PLAIN},
    {"bert_padding.pad_input", pad_input, "hidden_states, indices, batch, seqlen", 0, NATIVE_PLAIN},
    {0},
};
const struct script_module flash_module = {.name = "flash_attn", .functions = functions};
