/* tensor_methods.c - methods of torch.Tensor: what they are called with, over core/torch's operators. v[0] is the tensor. */
#include "natives/functions.h"

#include <math.h>

static struct tensor *self_of(struct script *s, const struct script_args *a)
{
    return need_tensor(s, a->v[0], a->def->name);
}

/* ------------------------------------------------------------------------------------------------------------- shapes */
/* One row in another shape is the row still; of several, each. */
static struct content in_shape(const struct tensor *t, val out, int nd)
{
    const struct value *x = shape_of(t);
    bool row = x->ndim && x->size[x->ndim - 1] == numel(t->run, value_in(t));

    if (is_of_choice(t->content))
        return out ? content_reshaped(t, &t->run->values[out]) : content_unknown();
    return t->content.kind == CONTENT_CONST || x->ndim <= nd || (t->content.kind >= CONTENT_PACKED && row) ? t->content : content_unknown();
}

static sv m_view(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int64_t size[MAX_DIMS];
    int nd;
    val out;

    if (!t || (nd = sizes_arg(s, a->n_rest, a->rest, size)) < 0)
        return sv_null();
    out = a->def->data ? reshape(t->run, value_in(t), nd, size) : view(t->run, value_in(t), nd, size);
    return wrap_content(s, t->run, out, in_shape(t, out, nd));
}

static sv m_expand(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int64_t size[MAX_DIMS];
    int nd;

    if (!t || (nd = sizes_arg(s, a->n_rest, a->rest, size)) < 0)
        return sv_null();
    return wrap_content(s, t->run, expand(t->run, value_in(t), nd, size), content_spread(t->content));
}

static sv m_permute(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    uint32_t n = a->n_rest;
    const sv *dims = n == 1 ? seq_items(a->rest[0], &n) : a->rest;
    int order[MAX_DIMS];
    bool taken[MAX_DIMS] = {false};

    if (!t)
        return sv_null();
    if (!dims) {
        dims = a->rest;
        n = 1;
    }
    if (n != (uint32_t)shape_of(t)->ndim)
        return script_raise(s, EXC_RuntimeError, "permute(): %u dimensions of a tensor that has %d", n, shape_of(t)->ndim);
    for (uint32_t i = 0; i < n; i++) {
        if (!dim_arg(s, t, dims[i], &order[i]))
            return sv_null();
        if (taken[order[i]])
            return script_raise(s, EXC_RuntimeError, "permute(): duplicate dims are not allowed.");
        taken[order[i]] = true;
    }
    return wrap_content(s, t->run, permute(t->run, value_in(t), (int)n, order), content_permuted(t->content, (int)n, order));
}

static sv m_transpose(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int d0 = 0, d1 = 1, order[MAX_DIMS];

    if (!t || !dim_arg(s, t, a->v[1], &d0) || !dim_arg(s, t, a->v[2], &d1))
        return sv_null();
    for (int d = 0; d < MAX_DIMS; d++)
        order[d] = d == d0 ? d1 : d == d1 ? d0 : d;
    return wrap_content(s, t->run, transpose(t->run, value_in(t), d0, d1), content_permuted(t->content, shape_of(t)->ndim, order));
}

static sv m_t(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? wrap_content(s, t->run, t_op(t->run, value_in(t)), content_permuted(t->content, shape_of(t)->ndim, (int[]){1, 0})) : sv_null();
}

static sv m_unsqueeze(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int dim = 0;

    if (!t || !new_dim_arg(s, t, a->v[1], &dim))
        return sv_null();
    return wrap_content(s, t->run, unsqueeze(t->run, value_in(t), dim), content_with_dim(t, dim));
}

static sv m_squeeze(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int dim = 0;
    val x;

    if (!t)
        return sv_null();
    if (sv_ok(a->v[1])) {
        if (!dim_arg(s, t, a->v[1], &dim))
            return sv_null();
        x = squeeze(t->run, value_in(t), dim);
        return wrap_content(s, t->run, x, in_shape(t, x, shape_of(t)->ndim));
    }
    x = value_in(t);
    for (int i = shape_of(t)->ndim; i-- > 0 && !run_dead(t->run);)
        if (size_of(t->run, x, i) == 1)
            x = squeeze(t->run, x, i);
    if (is_of_choice(t->content) && x != value_in(t))
        return wrap_content(s, t->run, x, in_shape(t, x, shape_of(t)->ndim));
    return wrap_of(s, t, a->v[0], x);
}

static sv m_flatten(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int first = 0, last, nd = 0;
    int64_t size[MAX_DIMS];
    sv result;
    val out;

    if (!t)
        return sv_null();
    last = -1;
    if (!dim_arg(s, t, a->v[1], &first) || !dim_arg(s, t, a->v[2], &last))
        return sv_null();
    if (first > last)
        return script_raise(s, EXC_RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim");
    if (!shape_of(t)->ndim)
        size[nd++] = 1;
    for (int i = 0; i < shape_of(t)->ndim; i++)
        if (i > first && i <= last)
            size[nd - 1] *= shape_of(t)->size[i];
        else
            size[nd++] = shape_of(t)->size[i];
    out = reshape(t->run, value_in(t), nd, size);
    result = wrap_content(s, t->run, out, is_of_choice(t->content) ? in_shape(t, out, nd) : t->content);
    if (sv_ok(result) && t->content.kind == CONTENT_PADDED)
        ((struct tensor *)(void *)result.o)->rows = t->rows ? t->rows : shape_of(t)->size[shape_of(t)->ndim - 1];
    return result;
}

static sv m_contiguous(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? wrap_of(s, t, a->v[0], contiguous(t->run, value_in(t))) : sv_null();
}

static bool has_dim_arg(struct script *s, const struct tensor *t, sv v, int *ret)
{
    if (!shape_of(t)->ndim)
        return script_raise(s, EXC_IndexError, "Dimension specified as 0 but tensor has no dimensions"), false;
    return dim_arg(s, t, v, ret);
}

static sv m_size(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int dim = 0;

    if (!t)
        return sv_null();
    if (!sv_given(a->v[1]))
        return sizes_value(s, shape_of(t));
    return has_dim_arg(s, t, a->v[1], &dim) ? sv_int(shape_of(t)->size[dim]) : sv_null();
}

static sv m_dim(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? sv_int(shape_of(t)->ndim) : sv_null();
}

static sv m_numel(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? sv_int(numel(t->run, value_in(t))) : sv_null();
}

static sv m_stride(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int dim = 0;

    if (!t)
        return sv_null();
    if (!sv_given(a->v[1])) {
        sv all[MAX_DIMS];

        for (int i = 0; i < shape_of(t)->ndim; i++)
            all[i] = sv_int(shape_of(t)->stride[i]);
        return tuple_new(s, (uint32_t)shape_of(t)->ndim, all);
    }
    return has_dim_arg(s, t, a->v[1], &dim) ? sv_int(shape_of(t)->stride[dim]) : sv_null();
}

static sv m_is_contiguous(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? sv_bool(shape_of(t)->contiguous) : sv_null();
}

sv tensors_of(struct script *s, struct run *r, uint32_t n, val *parts, struct content c)
{
    const size_t bytes = n * sizeof(sv);
    sv *items = script_memory(s, bytes), made = sv_null();
    uint32_t i = 0;

    for (; items && i < n; i++) {
        items[i] = wrap_content(s, r, parts[i], c);
        if (!sv_ok(items[i]))
            break;
    }
    if (items && i == n)
        made = tuple_take(s, n, items);
    else
        while (i--)
            sv_drop(s, items[i]);
    script_memory_give(s, items, bytes);
    return made;
}

static bool fits_into(struct script *s, int64_t whole, int64_t part, int64_t *taken)
{
    if (part < 0 || part > whole - *taken)
        return script_raise(s, EXC_RuntimeError, "split_with_sizes expects split_sizes to sum exactly to %lld and to have only non-negative entries",
                            (long long)whole),
               false;
    *taken += part;
    return true;
}

/* As many parts as sizes were given, or of which each is as long but the last. */
static sv split_into(struct script *s, struct tensor *t, int dim, uint32_t n, const sv *given, int64_t each)
{
    const size_t bytes = n * (sizeof(int64_t) + sizeof(val));
    int64_t *sizes = script_memory(s, bytes), whole = shape_of(t)->size[dim];
    val *parts = sizes ? (val *)(sizes + n) : NULL;
    sv made = sv_null();
    int64_t taken = 0;
    bool ok = sizes;

    for (uint32_t i = 0; ok && i < n; i++) {
        sizes[i] = whole - i * each < each ? whole - i * each : each;
        ok = !given || (int_arg(s, given[i], &sizes[i]) && fits_into(s, whole, sizes[i], &taken));
    }
    if (ok && given && taken != whole)
        ok = fits_into(s, whole, -1, &taken);
    if (ok) {
        (given ? split_with_sizes : split)(t->run, value_in(t), dim, (int)n, sizes, parts);
        made = run_dead(t->run) ? run_failed(s, t->run)
                                : tensors_of(s, t->run, n, parts, t->content.kind == CONTENT_CONST ? t->content : content_unknown());
    }
    script_memory_give(s, sizes, bytes);
    return made;
}

/* split(size or sizes, dim), chunk(n, dim) */
static sv m_split(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    int dim = 0;
    uint32_t n = 0;
    int64_t whole, each = 0;
    const sv *given;

    if (!t || !has_dim_arg(s, t, a->v[2], &dim))
        return sv_null();
    whole = shape_of(t)->size[dim];
    given = a->def->data == PARTS_SPLIT ? seq_items(a->v[1], &n) : NULL;
    if (given)
        return split_into(s, t, dim, n, given, 0);
    if (!int_arg(s, a->v[1], &each) || each < 1)
        return script_failed(s) ? sv_null() : script_raise(s, EXC_RuntimeError, "split expects a positive size");
    if (a->def->data == PARTS_CHUNK)
        each = (whole + each - 1) / each;
    return split_into(s, t, dim, each ? (uint32_t)((whole + each - 1) / each) : 0, NULL, each);
}

/* ------------------------------------------------------------------------------------------------------------- dtypes */
static struct content cast_content(struct content c, enum dtype to)
{
    if (to == DTYPE_BOOL && c.kind == CONTENT_CONST)
        return content_const(c.c != 0);
    if (to == DTYPE_BOOL && c.kind == CONTENT_POSITIVE)
        return content_const(1);
    if (to == DTYPE_BOOL && c.kind == CONTENT_SHARES)
        c.c = c.n;
    if (to == DTYPE_BOOL && c.kind != CONTENT_PADDED && c.kind != CONTENT_MARKS && c.kind != CONTENT_HOT && c.kind != CONTENT_TAKEN && c.kind != CONTENT_SHARES)
        return content_unknown();
    return c;
}

/* A tensor of the host that goes to the device is born there. */
static sv moved(struct script *s, struct tensor *t, sv self, struct run *to, enum dtype dtype)
{
    const struct natives *n = natives_of(s);
    const struct value *x = shape_of(t);
    bool here = on_device(n, t);

    if ((to == n->run) == here || !n->run)
        return x->dtype == dtype ? sv_keep(self)
                                 : wrap_content(s, t->run, to_dtype(t->run, value_in(t), dtype), cast_content(t->content, dtype));
    return wrap_content(s, to, factory(to, OP_TO_COPY, dtype, x->ndim, x->size), cast_content(t->content, dtype));
}

/* to(dtype), to(device), to(other), to(device, dtype), with names */
static sv m_to(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a), *other;
    const struct natives *n = natives_of(s);
    struct run *to;
    enum dtype dtype;
    int flags = 0;

    if (!t)
        return sv_null();
    to = on_device(n, t) ? n->run : &((struct natives *)(uintptr_t)n)->host;
    dtype = (enum dtype)shape_of(t)->dtype;
    for (int i = 1; i <= 6; i++) { /* four by position, two by name */
        sv v = a->v[i];

        if (!sv_given(v))
            continue;
        other = as_tensor(s, v);
        if (other) {
            dtype = (enum dtype)shape_of(other)->dtype;
            to = on_device(n, other) ? n->run : &((struct natives *)(uintptr_t)n)->host;
        } else if (sv_isa(s, v, &dtype_class)) {
            dtype = ((struct dtype_object *)(void *)v.o)->dtype;
        } else if (v.tag == SV_BOOL) {
            if (flags++ && v.i) /* non_blocking, then copy */
                return script_leave(s, "to(copy=) of this value");
        } else {
            to = run_arg(s, v);
            if (!to)
                return sv_null();
        }
    }
    if (sv_given(a->v[9]) && to == t->run && dtype != (enum dtype)shape_of(t)->dtype)
        return wrap_content(s, t->run, to_dtype_contiguous(t->run, value_in(t), dtype), cast_content(t->content, dtype));
    return moved(s, t, a->v[0], to, dtype);
}

static sv cast_to(struct script *s, struct tensor *t, sv self, enum dtype dtype)
{
    if (shape_of(t)->dtype == dtype)
        return sv_keep(self);
    return wrap_content(s, t->run, to_dtype(t->run, value_in(t), dtype), cast_content(t->content, dtype));
}

static sv m_float(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? cast_to(s, t, a->v[0], (enum dtype)a->def->data) : sv_null();
}

static sv m_type(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    enum dtype dtype;

    if (!t)
        return sv_null();
    dtype = (enum dtype)shape_of(t)->dtype;
    return dtype_arg(s, a->v[1], &dtype) ? cast_to(s, t, a->v[0], dtype) : sv_null();
}

static sv m_type_as(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a), *other = t ? need_tensor(s, a->v[1], "type_as") : NULL;

    return other ? moved(s, t, a->v[0], other->run, (enum dtype)shape_of(other)->dtype) : sv_null();
}

static sv m_is_floating_point(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? sv_bool(dtype_is_float(tensor_dtype_told(t))) : sv_null();
}

/* -------------------------------------------------------------------------------------------------------- new tensors */
/* new_ones(size), new_zeros, new_full(size, value), new_empty; ones_like and the like are functions of torch */
static struct run *run_or(struct script *s, sv device, struct run *own)
{
    return sv_given(device) ? run_arg(s, device) : own;
}

static sv m_new(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    enum dtype dtype;
    int64_t size[MAX_DIMS];
    double c = a->def->data == OP_NEW_ONES;
    struct run *r;
    int nd;

    if (!t)
        return sv_null();
    dtype = (enum dtype)shape_of(t)->dtype;
    if ((nd = new_sizes_arg(s, a->n_rest, a->rest, size)) < 0 || !dtype_arg(s, a->v[1], &dtype) || !(r = run_or(s, a->v[2], t->run)))
        return sv_null();
    if (t->mapped && !nd)
        for (nd = 0; nd < shape_of(t)->ndim; nd++)
            size[nd] = shape_of(t)->size[nd];
    return wrap_content(s, r, factory(r, (enum op)a->def->data, dtype, nd, size),
                        a->def->data == OP_EMPTY ? content_unknown() : content_const(c));
}

static sv m_new_full(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    enum dtype dtype;
    int64_t size[MAX_DIMS];
    double c = 0;
    struct run *r;
    int nd;

    if (!t)
        return sv_null();
    dtype = (enum dtype)shape_of(t)->dtype;
    if ((nd = new_sizes_arg(s, 1, &a->v[1], size)) < 0 || !float_arg(s, a->v[2], &c) || !dtype_arg(s, a->v[3], &dtype) ||
        !(r = run_or(s, a->v[4], t->run)))
        return sv_null();
    return wrap_content(s, r, factory(r, OP_FULL, dtype, nd, size), content_const(c));
}

static sv m_clone(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? wrap_content(s, t->run, clone(t->run, value_in(t)), t->content) : sv_null();
}

/* torch/_tensor.py __deepcopy__: of what nobody's gradient passes through */
static sv m_deep_copy(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    struct cls *cls = sv_class(s, a->v[0]);

    if (!t)
        return sv_null();
    if (cls != natives_of(s)->tensor)
        return script_call(s, cls_value(cls), 2, (sv[]){a->v[0], sv_bool(shape_of(t)->requires_grad)});
    if (shape_of(t)->requires_grad)
        return script_raise(s, EXC_RuntimeError, "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment");
    return script_call_method(s, a->v[0], script_symbol(s, "clone"), 0, NULL);
}

static sv m_detach(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? wrap_content(s, t->run, detach(t->run, value_in(t)), t->content) : sv_null();
}

/* What lies on the host stays there; a copy from the device is data. */
static sv m_cpu(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    if (!t)
        return sv_null();
    return on_device(natives_of(s), t) ? script_leave(s, "cpu() of a tensor on the device") : sv_keep(a->v[0]);
}

/* The same where a gradient passes. */
static sv written_followed(struct script *s, struct tensor *t, struct tensor *from, const struct script_args *a)
{
    const uint32_t how = a->def->data;

    if (how == WRITE_MASKED && a->n_rest == 2 && as_tensor(s, a->rest[0]) && is_number(a->rest[1]))
        return masked_fill_followed(s, t, a);
    if (from)
        return tensor_copied(s, t, a->v[0], from);
    if (how != WRITE_ZERO && how != WRITE_RANDOM && !(how == WRITE_FILL && a->n_rest && is_number(a->rest[0])))
        return script_leave(s, "%s() of a tensor that wants a gradient", a->def->name);
    if (!may_be_written(s, t, a->def->name))
        return sv_null();
    return tensor_becomes(s, t, a->v[0], fill_in_place(t->run, value_in(t)));
}

/* What writes in place and needs nothing: normal_(), zero_(), fill_(x), copy_(x), uniform_() */
static sv m_written(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a), *from, *mask;

    if (!t)
        return sv_null();
    from = a->def->data == WRITE_COPY && a->n_rest ? as_tensor(s, a->rest[0]) : NULL;
    if (on_device(natives_of(s), t) && (is_followed(t) || (from && is_followed(from))))
        return written_followed(s, t, from, a);
    tensor_written(t);
    mask = a->def->data == WRITE_MASKED && a->n_rest ? as_tensor(s, a->rest[0]) : NULL;
    if (mask && masks_nothing(mask))
        return sv_keep(a->v[0]);
    t->content = content_unknown();
    if (a->def->data == WRITE_ZERO)
        t->content = content_const(0);
    if (a->def->data == WRITE_FILL && a->n_rest && is_number(a->rest[0])) {
        double c = 0;

        if (!float_arg(s, a->rest[0], &c))
            return sv_null();
        t->content = content_const(c);
    }
    if (from)
        t->content = from->content;
    return sv_keep(a->v[0]);
}

static sv m_requires_grad_(struct script *s, const struct script_args *a)
{
    sv on = sv_given(a->v[1]) ? a->v[1] : sv_bool(true);

    if (!script_set(s, a->v[0], script_symbol(s, "requires_grad"), on))
        return sv_null();
    return sv_keep(a->v[0]);
}

static sv m_item(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);

    return t ? tensor_item(s, t) : sv_null();
}

/* A list of a few known numbers. */
static sv m_tolist(struct script *s, const struct script_args *a)
{
    struct tensor *t = self_of(s, a);
    sv list;
    double c;

    if (!t)
        return sv_null();
    if (!shape_of(t)->ndim)
        return tensor_item(s, t);
    if (shape_of(t)->ndim > 1 || !content_listed(t->content, 0, &c))
        return script_leave(s, "values that data decides are read from a tensor: tolist()");
    if (!script_charge(s, (uint64_t)shape_of(t)->size[0]))
        return sv_null();
    t->run->counts_evenly |= is_of_choice(t->content);
    list = list_new(s, 0, NULL);
    for (int64_t i = 0; sv_ok(list) && i < shape_of(t)->size[0]; i++) {
        bool whole = !dtype_is_float((enum dtype)shape_of(t)->dtype);

        (void)content_listed(t->content, i, &c);
        if (!list_append(s, list, whole ? sv_int((int64_t)c) : sv_float(c))) {
            sv_drop(s, list);
            return sv_null();
        }
    }
    return list;
}

const struct script_native tensor_methods[] = {
    {"__new__", tensor_new, "cls, *rest", 0, NATIVE_STATIC},
    {"view", m_view, "self, *rest", 0, NATIVE_PLAIN},
    {"reshape", m_view, "self, *rest", 1, NATIVE_PLAIN},
    {"expand", m_expand, "self, *rest", 0, NATIVE_PLAIN},
    {"permute", m_permute, "self, *rest", 0, NATIVE_PLAIN},
    {"transpose", m_transpose, "self, dim0, dim1", 0, NATIVE_PLAIN},
    {"swapaxes", m_transpose, "self, axis0, axis1", 0, NATIVE_PLAIN},
    {"t", m_t, "self", 0, NATIVE_PLAIN},
    {"unsqueeze", m_unsqueeze, "self, dim", 0, NATIVE_PLAIN},
    {"squeeze", m_squeeze, "self, dim=", 0, NATIVE_PLAIN},
    {"flatten", m_flatten, "self, start_dim=, end_dim=", 0, NATIVE_PLAIN},
    {"contiguous", m_contiguous, "self, memory_format=!contiguous_format", 0, NATIVE_PLAIN},
    {"size", m_size, "self, dim=", 0, NATIVE_PLAIN},
    {"dim", m_dim, "self", 0, NATIVE_PLAIN},
    {"numel", m_numel, "self", 0, NATIVE_PLAIN},
    {"nelement", m_numel, "self", 0, NATIVE_PLAIN},
    {"stride", m_stride, "self, dim=", 0, NATIVE_PLAIN},
    {"is_contiguous", m_is_contiguous, "self", 0, NATIVE_PLAIN},
    {"split", m_split, "self, split_size, dim=", PARTS_SPLIT, NATIVE_PLAIN},
    {"chunk", m_split, "self, chunks, dim=", PARTS_CHUNK, NATIVE_PLAIN},
    {"to", m_to, "self, a=, b=, c=, d=, *, device=, dtype=, non_blocking=, copy=!, memory_format=!contiguous_format", 0, NATIVE_PLAIN},
    {"float", m_float, "self", DTYPE_FP32, NATIVE_PLAIN},
    {"half", m_float, "self", DTYPE_FP16, NATIVE_PLAIN},
    {"bfloat16", m_float, "self", DTYPE_BF16, NATIVE_PLAIN},
    {"long", m_float, "self", DTYPE_INT64, NATIVE_PLAIN},
    {"int", m_float, "self", DTYPE_INT32, NATIVE_PLAIN},
    {"bool", m_float, "self", DTYPE_BOOL, NATIVE_PLAIN},
    {"type", m_type, "self, dtype", 0, NATIVE_PLAIN},
    {"type_as", m_type_as, "self, other", 0, NATIVE_PLAIN},
    {"is_floating_point", m_is_floating_point, "self", 0, NATIVE_PLAIN},
    {"new_ones", m_new, "self, *rest, dtype=, device=", OP_NEW_ONES, NATIVE_PLAIN},
    {"new_zeros", m_new, "self, *rest, dtype=, device=", OP_NEW_ZEROS, NATIVE_PLAIN},
    {"new_empty", m_new, "self, *rest, dtype=, device=", OP_EMPTY, NATIVE_PLAIN},
    {"new_full", m_new_full, "self, size, fill_value, dtype=, device=", 0, NATIVE_PLAIN},
    {"clone", m_clone, "self, *, memory_format=!", 0, NATIVE_PLAIN},
    {"__deepcopy__", m_deep_copy, "self, memo", 0, NATIVE_PLAIN},
    {"cpu", m_cpu, "self", 0, NATIVE_PLAIN},
    {"detach", m_detach, "self", 0, NATIVE_PLAIN},
    {"normal_", m_written, "self, *rest, **kw", WRITE_RANDOM, NATIVE_PLAIN},
    {"exponential_", m_written, "self, *rest, **kw", WRITE_RANDOM, NATIVE_PLAIN},
    {"bernoulli_", m_written, "self, *rest, **kw", WRITE_RANDOM, NATIVE_PLAIN},
    {"random_", m_written, "self, *rest, **kw", WRITE_RANDOM, NATIVE_PLAIN},
    {"uniform_", m_written, "self, *rest, **kw", WRITE_RANDOM, NATIVE_PLAIN},
    {"zero_", m_written, "self, *rest", WRITE_ZERO, NATIVE_PLAIN},
    {"fill_", m_written, "self, *rest", WRITE_FILL, NATIVE_PLAIN},
    {"fill_diagonal_", m_written, "self, fill_value, *rest, **kw", WRITE_ANY, NATIVE_PLAIN},
    {"copy_", m_written, "self, *rest, **kw", WRITE_COPY, NATIVE_PLAIN},
    {"scatter_", m_scatter_, "self, dim, index, value=, *, src=, reduce=!", 0, NATIVE_PLAIN},
    {"scatter_add_", m_scatter_, "self, dim, index, src, *, unused=!", 0, NATIVE_PLAIN},
    {"index_add_", m_scatter_, "self, dim, index, source, *, alpha=", 1, NATIVE_PLAIN},
    {"index_copy_", m_scatter_, "self, dim, index, source, *, unused=!", 0, NATIVE_PLAIN},
    {"index_fill_", m_scatter_, "self, dim, index, value, *, unused=!", 0, NATIVE_PLAIN},
    {"add_", m_write_with, "self, other, *, alpha=", OP_ADD, NATIVE_PLAIN},
    {"sub_", m_write_with, "self, other, *, alpha=", OP_SUB, NATIVE_PLAIN},
    {"mul_", m_write_with, "self, other", OP_MUL, NATIVE_PLAIN},
    {"div_", m_write_with, "self, other", OP_DIV, NATIVE_PLAIN},
    {"clamp_", m_clamp_, "self, min=, max=", 0, NATIVE_PLAIN},
    {"bitwise_or_", m_written, "self, other", WRITE_ANY, NATIVE_PLAIN},
    {"triu_", m_formula_, "self, diagonal=", 0, NATIVE_PLAIN},
    {"tril_", m_formula_, "self, diagonal=", 0, NATIVE_PLAIN},
    {"hardtanh_", m_formula_, "self", 0, NATIVE_PLAIN},
    {"lerp_", m_formula_, "self, end, weight", 0, NATIVE_PLAIN},
    {"addcmul_", m_formula_, "self, tensor1, tensor2, *, value=", 0, NATIVE_PLAIN},
    {"addcdiv_", m_formula_, "self, tensor1, tensor2, *, value=", 0, NATIVE_PLAIN},
    {"masked_fill_", m_written, "self, *rest", WRITE_MASKED, NATIVE_PLAIN},
    {"repeat", m_repeat, "self, *rest", 0, NATIVE_PLAIN},
    {"requires_grad_", m_requires_grad_, "self, requires_grad=", 0, NATIVE_PLAIN},
    {"item", m_item, "self", 0, NATIVE_PLAIN},
    {"tolist", m_tolist, "self", 0, NATIVE_PLAIN},
    {"pow", f_pow, "self, exponent", 0, NATIVE_PLAIN},
    {"eq", f_compare, "input, other", COMPARE_EQ, NATIVE_PLAIN},
    {"ne", f_compare, "input, other", COMPARE_NE, NATIVE_PLAIN},
#define BOTH(name, fn, signature, data) {name, fn, signature, data, NATIVE_PLAIN},
#include "natives/functions.def"
#undef BOTH
    {0},
};
