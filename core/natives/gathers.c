/* gathers.c - repeat, gather, triangles: tensors made of another's elements. */
#include "natives/functions.h"

sv f_masked_scatter(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "masked_scatter"), *mask = t ? need_beside(s, t, a->v[1], "masked_scatter") : NULL,
                  *source = mask ? need_beside(s, t, a->v[2], "masked_scatter") : NULL;
    int64_t n = source ? true_count(mask) : 0;

    if (!source)
        return sv_null();
    if (n < 0 || shape_of(t)->requires_grad)
        return script_leave(s, "masked_scatter() by data, or into a tensor that wants a gradient");
    return wrap(s, t->run, masked_scatter(t->run, value_in(t), value_in(mask), value_in(source), n));
}

static struct content if_const(const struct tensor *t)
{
    return t->content.kind == CONTENT_CONST ? t->content : content_unknown();
}

/* x.repeat(*sizes) */
sv m_repeat(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "repeat");
    int64_t times[MAX_DIMS];
    int nd = t ? sizes_arg(s, a->n_rest, a->rest, times) : -1, own;

    if (nd < 0)
        return sv_null();
    own = shape_of(t)->ndim;
    if (nd < own)
        return script_raise(s, EXC_RuntimeError,
                            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    for (int i = 0; i < own; i++)
        if (!size_grow(s, &times[nd - own + i], shape_of(t)->size[i]))
            return sv_null();
    for (int i = 0; i < nd; i++)
        if (times[i] < 0)
            return script_raise(s, EXC_RuntimeError, "Trying to create tensor with negative dimension %lld", (long long)times[i]);
    if (!sizes_sane(s, nd, times))
        return sv_null();
    if (is_followed(t)) {
        sv given[2] = {a->v[0], a->n_rest == 1 && seq_items(a->rest[0], &(uint32_t){0}) ? sv_keep(a->rest[0]) : tuple_new(s, a->n_rest, a->rest)};
        sv made = sv_ok(given[1]) ? written_formula(s, "repeat", 2, given) : given[1];

        sv_drop(s, given[1]);
        return made;
    }
    return wrap_content(s, t->run, factory(t->run, OP_REPEAT, (enum dtype)shape_of(t)->dtype, nd, times), if_const(t));
}

/* repeat_interleave(x, n, dim): x.unsqueeze(dim + 1).expand(..).clone(contiguous_format).flatten(dim, dim + 1), Repeat.cpp: a copy of what is once, too */
sv f_repeat_interleave(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "repeat_interleave");
    int64_t n = 0, wide[MAX_DIMS], flat[MAX_DIMS];
    int dim = 0, nd;
    val x;

    if (!t || (!sv_given(a->v[2]) && shape_of(t)->ndim != 1) || as_tensor(s, a->v[1]))
        return t ? script_leave(s, "repeat_interleave() by a tensor, or of all of several dimensions") : sv_null();
    if (!int_arg(s, a->v[1], &n) || (sv_given(a->v[2]) && !dim_arg(s, t, a->v[2], &dim)))
        return sv_null();
    nd = shape_of(t)->ndim;
    if (!nd)
        return script_leave(s, "repeat_interleave() of a tensor without dimensions");
    if (n < 0 || n > INT32_MAX)
        return script_raise(s, EXC_RuntimeError, "repeats must be 0 or more, and fewer than that");
    if (nd == MAX_DIMS)
        return script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS);
    for (int i = 0; i < nd; i++) {
        wide[i + (i > dim)] = flat[i] = shape_of(t)->size[i];
        if (i == dim && !size_grow(s, &flat[i], n))
            return sv_null();
    }
    wide[dim + 1] = n;
    if (!sizes_sane(s, nd, flat))
        return sv_null();
    x = expand(t->run, unsqueeze(t->run, value_in(t), dim + 1), nd + 1, wide);
    if (!run_dead(t->run))
        x = t->run->values[x].contiguous ? clone(t->run, x) : contiguous(t->run, x);
    return wrap_content(s, t->run, view(t->run, x, nd, flat), if_const(t));
}

/* gather(x, dim, index): as large as the index */
sv f_gather(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "gather"), *index = t ? need_beside(s, t, a->v[2], "gather") : NULL;

    if (!index)
        return sv_null();
    if (shape_of(index)->ndim != shape_of(t)->ndim && shape_of(index)->ndim && shape_of(t)->ndim)
        return script_raise(s, EXC_RuntimeError, "Index tensor must have the same number of dimensions as input tensor");
    return wrap_content(s, t->run, gather_op(t->run, value_in(t), value_in(index)), if_const(t));
}

sv f_triangle(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], a->def->name);

    if (!t)
        return sv_null();
    if (is_followed(t))
        return written_formula(s, a->def->name, sv_given(a->v[1]) ? 2 : 1, a->v);
    return wrap(s, t->run, factory(t->run, (enum op)a->def->data, (enum dtype)shape_of(t)->dtype, shape_of(t)->ndim, shape_of(t)->size));
}

static sv or_none(sv v)
{
    return sv_given(v) ? v : sv_none();
}

sv f_clamp(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "clamp");

    if (!t)
        return sv_null();
    if (!sv_given(a->v[1]) && !sv_given(a->v[2]))
        return script_raise(s, EXC_RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None");
    if (as_tensor(s, a->v[1]) || as_tensor(s, a->v[2]))
        return written_formula(s, "clamp_tensor", 3, (sv[]){a->v[0], or_none(a->v[1]), or_none(a->v[2])});
    return wrap_content(s, t->run, clamp_op(t->run, value_in(t), sv_given(a->v[1]), sv_given(a->v[2])), if_const(t));
}

/* unbind(x, dim) */
sv f_unbind(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "unbind");
    const sv *items;
    uint32_t n;
    int dim = 0;
    size_t bytes;
    val *parts;
    sv made;

    if (!t || !dim_arg(s, t, a->v[1], &dim))
        return sv_null();
    if (!shape_of(t)->ndim)
        return script_raise(s, EXC_IndexError, "unbind() of a tensor without dimensions");
    n = (uint32_t)shape_of(t)->size[dim];
    bytes = n * sizeof *parts;
    parts = script_memory(s, bytes);
    if (!parts)
        return sv_null();
    unbind(t->run, value_in(t), dim, parts);
    made = run_dead(t->run) ? run_failed(s, t->run) : tensors_of(s, t->run, n, parts, if_const(t));
    items = is_of_choice(t->content) && sv_ok(made) ? seq_items(made, &n) : NULL;
    for (uint32_t i = 0; items && i < n; i++)
        as_tensor(s, items[i])->content = content_told(t->run, content_selected(t->content, dim, i, n));
    script_memory_give(s, parts, bytes);
    return made;
}
