/* torch_functions.c - the module torch: factories, joins, where, switches, dtypes. */
#include "natives/functions.h"

#include "torch/autograd.h"

#include <math.h>

/* ---------------------------------------------------------------------------------------------------------- factories */
/* made(.., requires_grad=on); takes it */
static sv with_grad(struct script *s, sv made, sv on)
{
    if (!sv_ok(made) || !sv_given(on) || script_set(s, made, script_symbol(s, "requires_grad"), on))
        return made;
    sv_drop(s, made);
    return sv_null();
}

/* zeros(*size), ones, empty; data: what fills it */
static sv t_filled(struct script *s, const struct script_args *a)
{
    enum dtype dtype = natives_of(s)->default_dtype;
    int64_t size[MAX_DIMS];
    struct run *r = run_arg(s, a->v[1]);
    int nd = new_sizes_arg(s, a->n_rest, a->rest, size);

    if (!r || nd < 0 || !dtype_arg(s, a->v[0], &dtype))
        return sv_null();
    return with_grad(s,
                     wrap_content(s, r,
                                  factory(r,
                                          a->def->data == 2 ? OP_EMPTY
                                          : a->def->data    ? OP_FULL
                                                            : OP_ZEROS,
                                          dtype, nd, size),
                                  a->def->data == 2 ? content_unknown() : content_const(a->def->data)),
                     a->v[2]);
}

static sv t_full(struct script *s, const struct script_args *a)
{
    enum dtype dtype = natives_of(s)->default_dtype;
    int64_t size[MAX_DIMS];
    double c = 0;
    struct run *r = run_arg(s, a->v[3]);
    int nd = new_sizes_arg(s, 1, &a->v[0], size);

    if (a->v[1].tag == SV_INT)
        dtype = DTYPE_INT64;
    if (a->v[1].tag == SV_BOOL)
        dtype = DTYPE_BOOL;
    if (!r || nd < 0 || !float_arg(s, a->v[1], &c) || !dtype_arg(s, a->v[2], &dtype))
        return sv_null();
    return wrap_content(s, r, factory(r, OP_FULL, dtype, nd, size), content_const(c));
}

/* ones_like(x), zeros_like, full_like, empty_like */
static sv t_like(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], a->def->name);
    enum dtype dtype;
    struct run *r;

    if (!t)
        return sv_null();
    dtype = (enum dtype)shape_of(t)->dtype;
    r = sv_given(a->v[2]) ? run_arg(s, a->v[2]) : t->run;
    if (!r || !dtype_arg(s, a->v[1], &dtype))
        return sv_null();
    return wrap_content(s, r,
                        r == t->run ? factory_like(r, (enum op)a->def->data, dtype, value_in(t))
                                    : factory(r, (enum op)a->def->data, dtype, shape_of(t)->ndim, shape_of(t)->size),
                        a->def->data == OP_EMPTY ? content_unknown() : content_const(a->def->data == OP_ONES_LIKE));
}

/* arange(end) or (start, end[, step]) */
static sv t_arange(struct script *s, const struct script_args *a)
{
    double bound[3] = {0, 0, 1};
    bool floats = false;
    enum dtype dtype;
    int64_t n;
    struct run *r = run_arg(s, a->v[1]);

    if (!r || !a->n_rest || a->n_rest > 3)
        return r ? script_raise(s, EXC_TypeError, "arange() takes from 1 to 3 numbers") : sv_null();
    for (uint32_t i = 0; i < a->n_rest; i++) {
        sv v = a->rest[i];
        struct tensor *t = as_tensor(s, v);

        if (t)
            v = tensor_item(s, t);
        if (!sv_ok(v) || !script_double(s, v, &bound[a->n_rest == 1 ? 1 : i]))
            return sv_null();
        floats = floats || v.tag == SV_FLOAT;
    }
    dtype = floats ? natives_of(s)->default_dtype : DTYPE_INT64;
    if (!dtype_arg(s, a->v[0], &dtype))
        return sv_null();
    if (bound[2] == 0 || !(fabs((bound[1] - bound[0]) / bound[2]) <= 1e12))
        return script_raise(s, EXC_RuntimeError, "arange() of no step, or of more elements than there are");
    n = (int64_t)((bound[1] - bound[0] + bound[2] - (bound[2] > 0 ? 1 : -1)) / bound[2]);
    if (floats && (double)n * bound[2] < bound[1] - bound[0])
        n++;
    return wrap_content(s, r, factory(r, OP_ARANGE, dtype, SHAPE(n < 0 ? 0 : n)),
                        bound[2] == 1 ? content_is(CONTENT_RISING, bound[0]) : content_unknown());
}

static sv t_linspace(struct script *s, const struct script_args *a)
{
    int64_t n = 0;
    enum dtype dtype = natives_of(s)->default_dtype;
    struct run *r = run_arg(s, a->v[4]);

    if (!r || !int_arg(s, a->v[2], &n) || !dtype_arg(s, a->v[3], &dtype))
        return sv_null();
    if (n < 0)
        return script_raise(s, EXC_RuntimeError, "number of steps must be non-negative");
    return wrap(s, r, factory(r, OP_ARANGE, dtype, SHAPE(n)));
}

/* The sizes of a list of lists; *at: its first number. -1: too many. */
static int sizes_of_lists(struct script *s, sv *data, int64_t *size)
{
    sv at = *data;
    const sv *items;
    int nd = 0;
    uint32_t n;

    while ((items = seq_items(at, &n))) {
        if (nd == MAX_DIMS) {
            (void)script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS);
            return -1;
        }
        size[nd++] = n;
        if (!n)
            break;
        at = items[0];
    }
    *data = at;
    return nd;
}

/* torch.Tensor(2, 3), torch.Tensor([..]): on the host, of the default dtype */
sv tensor_new(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    int64_t size[MAX_DIMS];
    sv data = a->n_rest ? a->rest[0] : sv_null();
    int nd = a->n_rest == 1 && data.tag != SV_INT ? sizes_of_lists(s, &data, size) : new_sizes_arg(s, a->n_rest, a->rest, size);

    return nd < 0 ? sv_null() : wrap(s, &n->host, factory(&n->host, OP_EMPTY, n->default_dtype, nd, size));
}

/* The dtype that holds all numbers of a list of lists, as infer_scalar_type() of torch/csrc/utils/tensor_new.cpp has it; false: a number of what is none. */
static bool dtype_of_lists(struct script *s, sv data, unsigned depth, enum dtype *ret)
{
    uint32_t n;
    const sv *items = depth < MAX_DIMS ? seq_items(data, &n) : NULL;
    enum dtype of = data.tag == SV_BOOL ? DTYPE_BOOL : data.tag == SV_INT ? DTYPE_INT64 : natives_of(s)->default_dtype;

    if (!items) {
        if (dtype_is_float(of) || *ret == DTYPE_BOOL)
            *ret = of;
        return true;
    }
    if (!script_charge(s, n / 8))
        return false;
    for (uint32_t i = 0; i < n && !dtype_is_float(*ret); i++)
        if (!dtype_of_lists(s, items[i], depth + 1, ret))
            return false;
    return true;
}

/* tensor(number, or a list of them), scalar_tensor */
static sv t_tensor(struct script *s, const struct script_args *a)
{
    struct run *r = run_arg(s, a->v[2]);
    sv at = a->v[0];
    int64_t size[MAX_DIMS];
    int nd;
    enum dtype dtype;
    struct content c = content_unknown();

    if (!r || (nd = sizes_of_lists(s, &at, size)) < 0)
        return sv_null();
    dtype = nd && size[nd - 1] == 0 ? natives_of(s)->default_dtype : DTYPE_BOOL;
    if (!dtype_of_lists(s, a->v[0], 0, &dtype) || !dtype_arg(s, a->v[1], &dtype))
        return sv_null();
    if (!nd && is_number(at))
        c = content_const(at.tag == SV_FLOAT ? at.f : (double)at.i);
    else if (!nd && as_tensor(s, at))
        c = as_tensor(s, at)->content;
    if (nd == 1 && size[0] == 0)
        return wrap_content(s, r, no_elements(r, dtype), content_const(0));
    return with_grad(s, wrap_content(s, r, factory(r, r == natives_of(s)->run ? OP_TO_COPY : OP_EMPTY, dtype, nd, size), c),
                     a->n > 3 ? a->v[3] : sv_null());
}

/* -------------------------------------------------------------------------------------------------------------- joins */
/* The values of a list of n tensors of one run. */
static bool gathered(struct script *s, uint32_t n, const sv *items, val *ret, struct run **run, struct tensor **ret_first)
{
    if (!script_charge(s, n / 4))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct tensor *t = need_tensor(s, items[i], "cat");

        if (!t)
            return false;
        if (!*ret_first) {
            *run = t->run;
            *ret_first = t;
        } else if (!stand_together(s, *ret_first, t)) {
            return false;
        }
        ret[i] = value_in(t);
    }
    return true;
}

static bool is_empty_1d(const struct run *r, val v)
{
    return r->values[v].ndim == 1 && r->values[v].size[0] == 0;
}

/* A mask of ones that grows by ones is one still, and a padded one padded: whether a place is one is asked of the whole, never where it lies. */
static void grows_by_ones(struct script *s, sv list, struct content *ret)
{
    uint32_t n;
    const sv *items = seq_items(list, &n);
    const struct tensor *a = n == 2 ? as_tensor(s, items[0]) : NULL, *b = n == 2 ? as_tensor(s, items[1]) : NULL;

    if (!a || !b || b->content.kind != CONTENT_CONST || b->content.c != 1)
        return;
    if (a->content.kind != CONTENT_PADDED && (a->content.kind != CONTENT_CONST || a->content.c != 1))
        return;
    *ret = a->content;
}

/* Positions that count on where others end. */
static void counts_on(struct script *s, sv list, int64_t dim, struct content *ret)
{
    uint32_t n;
    const sv *items = seq_items(list, &n);
    const struct tensor *a = n == 2 ? as_tensor(s, items[0]) : NULL, *b = n == 2 ? as_tensor(s, items[1]) : NULL;
    int nd = a ? shape_of(a)->ndim : 0;

    if (!a || !b || !nd || a->content.kind != CONTENT_RISING || (dim != -1 && dim != nd - 1))
        return;
    if (b->content.kind != CONTENT_RISING && (b->content.kind != CONTENT_CONST || size_of(b->run, value_in(b), -1) != 1))
        return;
    if (b->content.c == a->content.c + (double)size_of(a->run, value_in(a), -1))
        *ret = a->content;
}

/* TensorShape.h check_cat_shape_except_dim(), maybe_wrap_dim(). An empty vector joins anything. */
static bool may_join(struct script *s, const struct run *r, uint32_t n, const val *parts, bool stacks, int64_t dim)
{
    int nd = r->values[parts[n > 1 && is_empty_1d(r, parts[0]) ? 1 : 0]].ndim, of = nd + stacks;

    for (uint32_t i = 0; i < n; i++)
        if (r->values[parts[i]].ndim != nd && !is_empty_1d(r, parts[i]))
            return script_raise(s, EXC_RuntimeError, "tensors of %d and %d dimensions are joined", nd, r->values[parts[i]].ndim), false;
    if (of > MAX_DIMS)
        return script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS), false;
    if (dim < -of || dim >= of)
        return script_raise(s, EXC_IndexError, "dimension %lld is out of range for tensors of %d dimensions", (long long)dim, of), false;
    return true;
}

static sv join(struct script *s, const struct script_args *a, uint32_t n, const sv *items, val *parts)
{
    struct run *r = NULL;
    struct tensor *one = NULL;
    int64_t dim = 0;
    struct content c;

    if (!gathered(s, n, items, parts, &r, &one) || !int_arg(s, a->v[1], &dim) || !may_join(s, r, n, parts, a->def->data, dim))
        return sv_null();
    c = one->content.kind == CONTENT_CONST && n == 1 ? one->content : content_unknown();
    grows_by_ones(s, a->v[0], &c);
    if (!a->def->data)
        counts_on(s, a->v[0], dim, &c);
    if (a->def->data)
        return wrap_content(s, r, stack_op(r, (int)n, parts, (int)dim), c);
    if (n == 2 && is_empty_1d(r, parts[0])) /* a cache that is empty so far: it counts in the dtype alone */
        return wrap_content(s, r, cat_to_empty(r, parts[1], dtype_of(r, parts[0]), (int)dim), c);
    return wrap_content(s, r, cat(r, (int)n, parts, (int)dim), c);
}

static sv t_cat(struct script *s, const struct script_args *a)
{
    uint32_t n = 0;
    const sv *items = seq_items(a->v[0], &n);
    val *parts;
    sv made;

    if (!items || !n)
        return script_raise(s, EXC_TypeError, "a list of tensors is expected");
    parts = script_memory(s, n * sizeof *parts);
    if (!parts)
        return sv_null();
    made = join(s, a, n, items, parts);
    script_memory_give(s, parts, n * sizeof *parts);
    return made;
}

int64_t true_count(const struct tensor *t)
{
    int64_t n = numel(t->run, value_in(t));

    switch (t->content.kind) {
    case CONTENT_PADDED:
        return n - (int64_t)t->content.c * (n / (t->rows ? t->rows : size_of(t->run, value_in(t), -1)));
    case CONTENT_MARKS:
    case CONTENT_HOT:
        return (int64_t)t->content.c;
    case CONTENT_TAKEN:
        t->run->counts_evenly = true;
        return (int64_t)t->content.c;
    case CONTENT_SHARES:
        t->run->counts_evenly = true;
        return t->content.n;
    case CONTENT_CONST:
        return t->content.c == 0 ? 0 : n;
    default:
        return -1;
    }
}

/* nonzero(mask): how many there are is told by what the mask is known to be */
static sv places(struct script *s, struct tensor *t, const char *what, bool as_tuple)
{
    const bool rising = shape_of(t)->ndim == 1 && (t->content.kind == CONTENT_CONST || t->content.kind == CONTENT_SHARES);
    int64_t n = true_count(t);
    sv made, parts;

    if (n < 0)
        return script_leave(s, "how many elements are not zero is data: %s", what);
    made = wrap_content(s, t->run, factory(t->run, OP_NONZERO, DTYPE_INT64, SHAPE(n, shape_of(t)->ndim)),
                        rising ? content_is(CONTENT_ROWS, 0) : content_unknown());
    if (!as_tuple || !sv_ok(made))
        return made;
    parts = script_call_method(s, made, script_symbol(s, "unbind"), 1, (sv[]){sv_int(1)});
    sv_drop(s, made);
    return parts;
}

static sv t_nonzero(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "nonzero");
    bool as_tuple = false;

    return t && bool_arg(s, a->v[1], &as_tuple) ? places(s, t, "nonzero()", as_tuple) : sv_null();
}

/* A number of the host's beside tensors of the device: it has no storage there. */
static val beside(const struct tensor *t, const struct tensor *other)
{
    return other->run == t->run ? value_in(other) : value_new(t->run, (enum dtype)shape_of(other)->dtype, 0, NULL);
}

static sv t_where(struct script *s, const struct script_args *a)
{
    struct tensor *c = need_tensor(s, a->v[0], "where"), *x = as_tensor(s, a->v[1]), *y = as_tensor(s, a->v[2]);
    struct run *r;
    enum dtype dtype = DTYPE_FP32;
    val least = 0, numbers[2] = {0}, out;

    if (!c)
        return sv_null();
    if (!sv_ok(a->v[1]))
        return places(s, c, "where() of one argument", true);
    r = c->run;
    if ((x && shape_of(x)->ndim && !stand_together(s, c, x)) || (y && shape_of(y)->ndim && !stand_together(s, c, y)))
        return sv_null();
    if (x && y && shape_of(x)->ndim && shape_of(y)->ndim)
        return wrap(s, r, where(r, value_in(c), value_in(x), value_in(y)));
    if (x || y)
        dtype = (enum dtype)shape_of(x ? x : y)->dtype;
    else if (a->v[1].tag != SV_FLOAT && a->v[2].tag != SV_FLOAT) /* of two numbers: as Python has them */
        dtype = a->v[1].tag == SV_BOOL && a->v[2].tag == SV_BOOL ? DTYPE_BOOL : DTYPE_INT64;
    if ((x && shape_of(x)->requires_grad) || (y && shape_of(y)->requires_grad)) {
        if (!x || !y)
            least = factory(r, OP_SCALAR_TENSOR, dtype, 0, NULL);
        return wrap(s, r, where(r, value_in(c), x ? beside(c, x) : least, y ? beside(c, y) : least));
    }
    calls_unheard(r);
    for (int i = 0; i < 2; i++) /* a number beside a tensor becomes one of 0 dimensions */
        if (!(i ? y : x))
            numbers[i] = owned(r, factory(r, OP_SCALAR_TENSOR, dtype, 0, NULL));
    out = pointwise_op(r, OP_WHERE, dtype, value_in(c), x && shape_of(x)->ndim ? value_in(x) : y && shape_of(y)->ndim ? value_in(y) : 0);
    value_unref(r, numbers[0]);
    value_unref(r, numbers[1]);
    return wrap(s, r, out);
}

static sv t_is_tensor(struct script *s, const struct script_args *a)
{
    return sv_bool(as_tensor(s, a->v[0]) != NULL);
}

/* finfo(dtype): numbers */
struct finfo {
    struct script_object base;
    enum dtype dtype;
};

enum finfo_number { FINFO_MIN, FINFO_MAX, FINFO_EPS, FINFO_TINY };

static sv finfo_get(struct script *s, sv self, uint32_t data)
{
    static const double numbers[DTYPE_COUNT][3] = {
        [DTYPE_FP16] = {65504., 0.0009765625, 6.103515625e-05},
        [DTYPE_BF16] = {3.3895313892515355e38, 0.0078125, 1.1754943508222875e-38},
        [DTYPE_FP32] = {3.4028234663852886e38, 1.1920928955078125e-07, 1.1754943508222875e-38},
        [DTYPE_FP64] = {1.7976931348623157e308, 2.220446049250313e-16, 2.2250738585072014e-308},
    };
    enum dtype dtype = ((struct finfo *)(void *)self.o)->dtype;

    (void)s;

    if (dtype == DTYPE_COUNT) /* float8 and the like: nobody computes with them here */
        return sv_float(NAN);
    return sv_float(data == FINFO_MIN ? -numbers[dtype][0] : numbers[dtype][data - FINFO_MAX]);
}

static sv finfo_init(struct script *s, const struct script_args *a)
{
    enum dtype dtype = DTYPE_FP32;

    if (sv_given(a->v[1]) && sv_is(a->v[1], KIND_INSTANCE) && !sv_isa(s, a->v[1], &dtype_class))
        dtype = DTYPE_COUNT;
    else if (!dtype_arg(s, a->v[1], &dtype))
        return sv_null();
    if (dtype != DTYPE_COUNT && !dtype_is_float(dtype))
        return script_raise(s, EXC_TypeError, "torch.finfo() takes a floating point dtype");
    ((struct finfo *)(void *)a->v[0].o)->dtype = dtype;
    return sv_none();
}

static const struct script_native finfo_methods[] = {{"__init__", finfo_init, "self, type=", 0, NATIVE_PLAIN}, {0}};
static const struct script_member finfo_members[] = {{"min", finfo_get, NULL, FINFO_MIN},
                                                     {"max", finfo_get, NULL, FINFO_MAX},
                                                     {"eps", finfo_get, NULL, FINFO_EPS},
                                                     {"tiny", finfo_get, NULL, FINFO_TINY},
                                                     {0}};
static const struct script_class finfo_class = {.name = "finfo",
                                                .bytes = sizeof(struct finfo),
                                                .methods = finfo_methods,
                                                .members = finfo_members};

/* _nonzero(mask, count): of formulas, which counted when they saved */
static sv t_nonzero_of(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "_nonzero");
    int64_t n = 0;

    if (!t || !int_arg(s, a->v[1], &n))
        return sv_null();
    if (n < 0)
        return script_raise(s, EXC_RuntimeError, "Trying to create tensor with negative dimension %lld", (long long)n);
    return wrap(s, t->run, factory(t->run, OP_NONZERO, DTYPE_INT64, SHAPE(n, shape_of(t)->ndim)));
}

static sv t_autocast_on(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);

    (void)a;
    return sv_bool(n->run && n->run->autocast);
}

static sv t_autocast_dtype(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);

    (void)a;
    return sv_keep(n->dtypes[n->run && n->run->autocast ? n->run->autocast_dtype : DTYPE_FP16]);
}

static sv t_grad_enabled(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);

    (void)a;
    return sv_bool(!n->run || n->run->grad_enabled);
}

static sv t_false(struct script *s, const struct script_args *a)
{
    (void)s;
    (void)a;
    return sv_bool(false);
}

static sv t_default_dtype(struct script *s, const struct script_args *a)
{
    (void)a;
    return sv_keep(natives_of(s)->dtypes[natives_of(s)->default_dtype]);
}

/* torch.split(x, ..), torch.transpose(x, ..), ..: the method of the same name */
static sv t_method(struct script *s, const struct script_args *a)
{
    struct script_args rest = *a;

    if (!a->n)
        return script_raise(s, EXC_TypeError, "%s() takes a tensor", a->def->name);
    rest.v++;
    rest.n--;
    return script_call_method_args(s, a->v[0], script_symbol(s, a->def->name), &rest);
}

/* `import torch` makes it known as torch.name */
static bool submodule(struct script *s, sv module, const char *path, const char *name)
{
    sv made = script_import(s, path);
    bool ok = sv_ok(made) && script_set(s, module, script_symbol(s, name), made);

    sv_drop(s, made);
    return ok;
}

static bool begin(struct script *s, sv module)
{
    static const char *const names[DTYPE_COUNT][2] = {{"bool", NULL},      {"uint8", NULL},    {"int32", "int"},     {"int64", "long"},
                                                      {"float16", "half"}, {"bfloat16", NULL}, {"float32", "float"}, {"float64", "double"},
                                                      {"complex64", "cfloat"}};
    static const char *const contexts[] = {"no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "autocast"};
    const struct natives *n = natives_of(s);
    sv from = script_import(s, "torch._grad_mode");
    bool ok = sv_ok(from);

    for (size_t i = 0; ok && i < sizeof contexts / sizeof *contexts; i++) {
        sv made = script_get(s, from, script_symbol(s, contexts[i]));

        ok = sv_ok(made) && script_set(s, module, script_symbol(s, contexts[i]), made);
        sv_drop(s, made);
    }
    sv_drop(s, from);
    if (!ok || !submodule(s, module, "torch.autograd", "autograd"))
        return false;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int k = 0; k < 2; k++)
            if (names[t][k] && !script_set(s, module, script_symbol(s, names[t][k]), n->dtypes[t]))
                return false;
    return true;
}

static const struct script_native functions[] = {
    {"zeros", t_filled, "*rest, dtype=, device=, requires_grad=", 0, NATIVE_PLAIN},
    {"ones", t_filled, "*rest, dtype=, device=, requires_grad=", 1, NATIVE_PLAIN},
    {"empty", t_filled, "*rest, dtype=, device=, requires_grad=", 2, NATIVE_PLAIN},
    {"full", t_full, "size, fill_value, *, dtype=, device=, requires_grad=!", 0, NATIVE_PLAIN},
    {"ones_like", t_like, "input, *, dtype=, device=, requires_grad=!, memory_format=!", OP_ONES_LIKE, NATIVE_PLAIN},
    {"zeros_like", t_like, "input, *, dtype=, device=, requires_grad=!, memory_format=!", OP_ZEROS_LIKE, NATIVE_PLAIN},
    {"empty_like", t_like, "input, *, dtype=, device=, requires_grad=!, memory_format=!contiguous_format|preserve_format|legacy_contiguous_format", OP_EMPTY, NATIVE_PLAIN},
    {"arange", t_arange, "*rest, dtype=, device=, requires_grad=!", 0, NATIVE_PLAIN},
    {"linspace", t_linspace, "start, end, steps, *, dtype=, device=, requires_grad=!", 0, NATIVE_PLAIN},
    {"tensor", t_tensor, "data, *, dtype=, device=, requires_grad=", 0, NATIVE_PLAIN},
    {"scalar_tensor", t_tensor, "data, *, dtype=, device=", 0, NATIVE_PLAIN},
    {"_grouped_mm", f_grouped_mm, "input, mat2, offs=, bias=, out_dtype=!", 0, NATIVE_PLAIN},
    {"cat", t_cat, "tensors, dim=", 0, NATIVE_PLAIN},
    {"concat", t_cat, "tensors, dim=", 0, NATIVE_PLAIN},
    {"stack", t_cat, "tensors, dim=", 1, NATIVE_PLAIN},
    {"where", t_where, "condition, input=, other=", 0, NATIVE_PLAIN},
    {"is_tensor", t_is_tensor, "obj", 0, NATIVE_PLAIN},
    {"nonzero", t_nonzero, "input, *, as_tuple=", 0, NATIVE_PLAIN},
    {"_nonzero", t_nonzero_of, "input, count", 0, NATIVE_PLAIN},
    {"is_autocast_enabled", t_autocast_on, "device_type=", 0, NATIVE_PLAIN},
    {"get_autocast_dtype", t_autocast_dtype, "device_type", 0, NATIVE_PLAIN},
    {"is_grad_enabled", t_grad_enabled, "", 0, NATIVE_PLAIN},
    {"get_default_dtype", t_default_dtype, "", 0, NATIVE_PLAIN},
    {"jit.is_tracing", t_false, "", 0, NATIVE_PLAIN},
    {"compiler.is_compiling", t_false, "", 0, NATIVE_PLAIN},
    {"pow", f_pow, "input, exponent", 0, NATIVE_PLAIN},
    {"polar", f_polar, "abs, angle", 0, NATIVE_PLAIN},
    {"complex", f_polar, "real, imag", 0, NATIVE_PLAIN},
#define BOTH(name, fn, signature, data) {name, fn, signature, data, NATIVE_PLAIN},
#include "natives/functions.def"
#undef BOTH
    {"split", t_method, NULL, 0, NATIVE_PLAIN},
    {"chunk", t_method, NULL, 0, NATIVE_PLAIN},
    {"transpose", t_method, NULL, 0, NATIVE_PLAIN},
    {"permute", t_method, NULL, 0, NATIVE_PLAIN},
    {"reshape", t_method, NULL, 0, NATIVE_PLAIN},
    {"squeeze", t_method, NULL, 0, NATIVE_PLAIN},
    {"unsqueeze", t_method, NULL, 0, NATIVE_PLAIN},
    {"flatten", t_method, NULL, 0, NATIVE_PLAIN},
    {"addmm", f_addmm, "input, mat1, mat2, *, beta=!1, alpha=!1", 0, NATIVE_PLAIN},
    {0},
};
const struct script_class *const torch_classes[] = {&tensor_class, &dtype_class, &device_class, &finfo_class, NULL};
const struct script_module torch_module = {.name = "torch", .functions = functions, .classes = torch_classes, .begin = begin};
