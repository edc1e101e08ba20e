/* routing.c - top k, sorting, histograms, grouped products, operators that write into their tensor: what experts are made of. */
#include "natives/functions.h"

sv pair_of(struct script *s, struct run *r, val two[2], struct content values, struct content places)
{
    sv pair, module, cls, made;

    if (run_dead(r)) { /* a region that runs again has all it saved: what this operator made is gone */
        calls_unheard(r);
        consume(r, two[0]);
        consume(r, two[1]);
        return run_failed(s, r);
    }
    pair = tensors_of(s, r, 2, two, values);
    if (!sv_ok(pair))
        return pair;
    as_tensor(s, seq_items(pair, &(uint32_t){0})[1])->content = places;
    module = script_import(s, "torch._return_types");
    cls = sv_ok(module) ? script_get(s, module, script_symbol(s, "pair")) : sv_null();
    made = sv_ok(cls) ? script_call(s, cls, 1, &pair) : sv_null();
    sv_drop(s, cls);
    sv_drop(s, pair);
    return made;
}

/* topk(x, k, dim=-1) */
sv f_topk(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "topk");
    int64_t k = 0;
    int dim;
    val two[2];

    if (!t)
        return sv_null();
    dim = -1;
    if (!int_arg(s, a->v[1], &k) || !dim_arg(s, t, a->v[2], &dim))
        return sv_null();
    if (!shape_of(t)->ndim)
        return script_leave(s, "topk() of a tensor without dimensions");
    if (k < 0 || k > shape_of(t)->size[dim])
        return script_raise(s, EXC_RuntimeError, "selected index k out of range");
    topk(t->run, value_in(t), dim, k, two);
    return pair_of(s, t->run, two, content_unknown(), dim == shape_of(t)->ndim - 1 ? content_of_choice(t, dim, k) : content_unknown());
}

/* sort(x) and argsort(x) of integers of one dimension */
sv f_sort(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], a->def->name);
    val two[2];

    if (!t)
        return sv_null();
    if (shape_of(t)->ndim != 1 || dtype_is_float((enum dtype)shape_of(t)->dtype))
        return written_formula(s, a->def->name, 2, (sv[]){a->v[0], sv_given(a->v[1]) && a->v[1].tag == SV_INT ? a->v[1] : sv_int(-1)});
    sort_integers(t->run, value_in(t), two);
    if (!a->def->data)
        return pair_of(s, t->run, two, t->content.kind == CONTENT_CHOSEN ? t->content : content_unknown(), content_unknown());
    calls_unheard(t->run);
    consume(t->run, two[0]);
    return wrap(s, t->run, two[1]);
}

/* histc(x, bins): what falls where is data, how many bins there are is not */
sv f_histc(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "histc");
    int64_t bins = 100;

    if (!t || !int_arg(s, a->v[1], &bins))
        return sv_null();
    if (bins < 1)
        return script_raise(s, EXC_RuntimeError, "bins must be > 0");
    return wrap_content(s, t->run, factory(t->run, OP_HISTC, (enum dtype)shape_of(t)->dtype, SHAPE(bins)), content_counted(t, bins));
}

/* bincount(x, minlength=): cuda/SummaryOps.cu looks at the least and the highest first */
sv f_bincount(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "bincount");
    int64_t bins = 0;
    val seen[2], out;

    if (!t || !int_arg(s, a->v[2], &bins))
        return sv_null();
    if (bins < 0)
        return script_raise(s, EXC_RuntimeError, "minlength should be >= 0");
    if (t->content.kind != CONTENT_CHOSEN)
        return script_leave(s, "how many bins there are is data: bincount()");
    calls_unheard(t->run);
    for (int i = 0; i < 2; i++) {
        seen[i] = owned(t->run, factory(t->run, i ? OP_MAX : OP_MIN, (enum dtype)shape_of(t)->dtype, 0, NULL));
        if (!t->run->q->bincount_by_aminmax)
            value_unref(t->run, seen[i]);
    }
    bins = bins > t->content.n ? bins : t->content.n;
    out = factory(t->run, OP_ZEROS, DTYPE_INT64, SHAPE(bins));
    for (int i = 0; i < 2 && t->run->q->bincount_by_aminmax; i++)
        value_unref(t->run, seen[i]);
    return wrap_content(s, t->run, out, content_counted(t, bins));
}

/* native/GroupedMMUtils.h check_valid_strides_and_return_transposed(): TMA reads rows, or columns, that begin at multiples of 16 bytes. */
static bool lines_begin_aligned(const struct value *v)
{
    int64_t last = v->stride[v->ndim - 1], before = v->stride[v->ndim - 2];
    int64_t line = before == 1 && last >= v->size[v->ndim - 2] ? last : before;

    return line * dtype_bytes((enum dtype)v->dtype) % 16 == 0;
}

/* grouped_mm(a, b, offs=): tokens times the matrix of their expert */
sv f_grouped_mm(struct script *s, const struct script_args *a)
{
    struct tensor *x = need_tensor(s, a->v[0], "grouped_mm"), *w = x ? need_beside(s, x, a->v[1], "grouped_mm") : NULL,
                  *offs = w ? need_beside(s, x, a->v[2], "grouped_mm") : NULL;

    if (!offs)
        return sv_null();
    if (sv_given(a->v[3]) || shape_of(x)->ndim != 2 || shape_of(w)->ndim != 3)
        return script_leave(s, "grouped_mm() with a bias, or but of [tokens, inner] and [experts, inner, columns]");
    if (shape_of(offs)->ndim != 1 || shape_of(offs)->size[0] != shape_of(w)->size[0] || !shape_of(w)->size[0])
        return script_raise(s, EXC_RuntimeError, "offs must have an end for each matrix of mat_b");
    if (shape_of(x)->size[1] != shape_of(w)->size[1])
        return script_raise(s, EXC_RuntimeError, "contraction dimension of mat_a and mat_b must match");
    if (shape_of(x)->dtype != shape_of(w)->dtype)
        return script_raise(s, EXC_RuntimeError, "Expected mat_a and mat_b to have the same dtype");
    if (!lines_begin_aligned(shape_of(x)) || !lines_begin_aligned(shape_of(w)))
        return script_raise(s, EXC_RuntimeError, "strides should be multiple of 16 bytes");
    return wrap(s, x->run, grouped_mm(x->run, value_in(x), value_in(w), value_in(offs)));
}

/* The tensor has the history of what was written into it, which ends. */
sv tensor_becomes(struct script *s, struct tensor *t, sv self, val out)
{
    if (run_dead(t->run)) {
        calls_held(t->run, CALLED_CONSUME, out); /* the result was the last that a recomputation saves */
        return run_failed(s, t->run);
    }
    if (t->run->values[out].floating)
        calls_held(t->run, CALLED_HOLD, out);
    rebase_history(t->run, t->v, out);
    calls_held(t->run, CALLED_DROP, out);
    t->content = content_unknown();
    return run_dead(t->run) ? run_failed(s, t->run) : sv_keep(self);
}

bool may_be_written(struct script *s, struct tensor *t, const char *what)
{
    if (!check_in_place(t->run, value_in(t)))
        (void)run_failed(s, t->run);
    else if (t->param && !t->v)
        (void)script_leave(s, "%s of a parameter or a buffer, and a gradient passes", what);
    return !script_failed(s);
}

void tensor_written(struct tensor *t)
{
    if (!t->run->calls)
        rebase_history(t->run, value_in(t), 0);
}

sv tensor_copied(struct script *s, struct tensor *t, sv self, struct tensor *from)
{
    if (!may_be_written(s, t, "copy_()"))
        return sv_null();
    if (!on_device(natives_of(s), from) || !on_device(natives_of(s), t))
        return script_leave(s, "copy_() from the host of what a gradient passes through");
    return tensor_becomes(s, t, self, copy_in_place(t->run, value_in(t), value_in(from)));
}

/* A formula that is written down, in place. */
sv written_in_place(struct script *s, struct tensor *t, const char *name, uint32_t n, const sv *argv)
{
    sv made = written_formula(s, name, n, argv);
    val out;

    if (!sv_ok(made))
        return made;
    out = value_in(as_tensor(s, made));
    calls_held(t->run, CALLED_LEND, out);
    sv_drop(s, made);
    return tensor_becomes(s, t, argv[0], out);
}

/* x.add_(y), x += y: y a tensor or a number */
sv m_write_with(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], a->def->name), *other = t ? as_tensor(s, a->v[1]) : NULL;
    bool alpha = a->n > 2 && sv_given(a->v[2]);
    val b;

    if (!t)
        return sv_null();
    if (!is_followed(t) && !(other && is_followed(other))) {
        t->content = content_unknown(); /* a buffer's too */
        tensor_written(t);
        return sv_keep(a->v[0]);
    }
    if (!on_device(natives_of(s), t))
        return script_raise(s, EXC_RuntimeError, "Expected all tensors to be on the same device");
    if (!may_be_written(s, t, a->def->name))
        return sv_null();
    if (alpha && other && is_followed(other))
        return written_in_place(s, t, a->def->data == OP_SUB ? "sub_alpha_" : "add_alpha_", 3, a->v);
    b = other && on_device(natives_of(s), other) && (shape_of(other)->ndim || shape_of(other)->requires_grad) ? value_in(other) : 0;
    return tensor_becomes(s, t, a->v[0], write_in_place(t->run, (enum op)a->def->data, value_in(t), b));
}

/* x.clamp_(min, max) */
sv m_clamp_(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], a->def->name);

    if (!t)
        return sv_null();
    if (as_tensor(s, a->v[1]) || as_tensor(s, a->v[2]))
        return script_leave(s, "clamp_() by tensors");
    if (!is_followed(t)) {
        t->content = content_unknown();
        tensor_written(t);
        return sv_keep(a->v[0]);
    }
    if (!may_be_written(s, t, "clamp_()"))
        return sv_null();
    return tensor_becomes(s, t, a->v[0], clamp_in_place(t->run, value_in(t), sv_given(a->v[1]), sv_given(a->v[2])));
}

/* scores.masked_fill_(mask, value) where a gradient passes: the mask is saved, the storage stays. */
sv masked_fill_followed(struct script *s, struct tensor *t, const struct script_args *a)
{
    if (!may_be_written(s, t, "masked_fill_()"))
        return sv_null();
    return written_in_place(s, t, "masked_fill_", 3, (sv[]){a->v[0], a->rest[0], a->rest[1]});
}

/* What is known once a number stands at the places of an index. */
static struct content scattered(struct script *s, const struct tensor *t, const struct script_args *a, sv number)
{
    const struct tensor *index = as_tensor(s, a->v[2]);
    double value = 0;
    int dim = 0;

    if (a->def->data || !index || !is_number(number) || !script_double(s, number, &value) || !dim_arg(s, t, a->v[1], &dim))
        return content_unknown();
    return content_scattered(t, dim, index, value);
}

/* x.scatter_(dim, index, value or src) and its like: written in place; a formula where a gradient passes */
sv m_scatter_(struct script *s, const struct script_args *a)
{
    bool named = a->n > 4 && sv_given(a->v[4]), alpha = a->def->data; /* index_add_: its last is alpha, else it is src= */
    sv source = named && !alpha ? a->v[4] : a->v[3];
    struct tensor *t = need_tensor(s, a->v[0], a->def->name), *from = t ? as_tensor(s, source) : NULL;

    if (!t)
        return sv_null();
    if (from && shape_of(from)->dtype != shape_of(t)->dtype && (shape_of(from)->ndim || alpha))
        return script_raise(s, EXC_RuntimeError, "%s(): self and what is written must have the same scalar type", a->def->name);
    if (!is_followed(t) && !(from && is_followed(from))) {
        t->content = scattered(s, t, a, from ? sv_null() : source);
        tensor_written(t);
        return sv_keep(a->v[0]);
    }
    if (!sv_given(source))
        return script_leave(s, "%s() of other arguments", a->def->name);
    if (!may_be_written(s, t, a->def->name))
        return sv_null();
    return written_in_place(s, t, a->def->name, named && alpha ? 5 : 4, (sv[]){a->v[0], a->v[1], a->v[2], source, a->v[4]});
}

/* index_select(x, 0, index) of what wants no gradient */
sv f_index_select(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "index_select"), *index = t ? need_beside(s, t, a->v[2], "index_select") : NULL;
    int64_t size[MAX_DIMS];
    int dim = 0;

    if (!index || !dim_arg(s, t, a->v[1], &dim))
        return sv_null();
    if (is_followed(t))
        return written_formula(s, "index_select", 3, a->v);
    for (int i = 0; i < shape_of(t)->ndim; i++)
        size[i] = i == dim ? numel(index->run, value_in(index)) : shape_of(t)->size[i];
    return wrap(s, t->run, factory(t->run, OP_INDEX_SELECT, (enum dtype)shape_of(t)->dtype, shape_of(t)->ndim, size));
}
