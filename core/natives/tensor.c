/* tensor.c - tensor objects: their lives, attributes, and the arguments that ops take. */
#include "natives/tensor.h"

#include <string.h>

struct tensor *as_tensor(struct script *s, sv v)
{
    const struct natives *n = natives_of(s);

    if (!sv_is(v, KIND_INSTANCE))
        return NULL;
    if (v.o->cls == n->tensor || v.o->cls == n->parameter || v.o->cls == n->buffer || sv_isa(s, v, &tensor_class))
        return (struct tensor *)(void *)v.o;
    return NULL;
}

struct tensor *need_tensor(struct script *s, sv v, const char *where)
{
    struct tensor *t = as_tensor(s, v);

    if (!t)
        (void)script_raise(s, EXC_TypeError, "%s: a tensor is expected, not %s", where, sv_ok(v) ? cls_name(sv_class(s, v)) : "nothing");
    return t;
}

bool stand_together(struct script *s, const struct tensor *t, const struct tensor *other)
{
    if (t->run == other->run)
        return true;
    (void)script_raise(s, EXC_RuntimeError, "Expected all tensors to be on the same device");
    return false;
}

struct tensor *need_beside(struct script *s, const struct tensor *t, sv v, const char *where)
{
    struct tensor *other = need_tensor(s, v, where);

    return other && stand_together(s, t, other) ? other : NULL;
}

/* What PyTorch raises at an operator is the language's to catch. */
static sv raise_again(struct script *s, struct run *r)
{
    static const char kind[] = "RuntimeError: ";
    struct err err = r->error;
    const char *what = !strncmp(err.detail, kind, sizeof kind - 1) ? err.detail + sizeof kind - 1 : err.detail;

    r->error = (struct err){0};
    return script_raise(s, EXC_RuntimeError, "%s", what);
}

sv run_failed(struct script *s, struct run *r)
{
    if (r->error.code == ERR_SCRIPT_RAISED)
        return raise_again(s, r);
    if (r->error.code == ERR_LEAVES_LANGUAGE) { /* the script knows its line */
        struct err err = r->error;

        r->error = (struct err){0};
        return script_leave(s, "%s", err.detail);
    }
    if (r->error.code)
        return script_fail(s, &r->error);
    return script_raise(s, EXC_RuntimeError, "the recomputation has saved what it should");
}

sv wrap_content(struct script *s, struct run *r, val out, struct content c)
{
    struct natives *n = natives_of(s);
    sv v;
    struct tensor *t;

    if (run_dead(r)) {
        calls_held(r, CALLED_CONSUME, out);
        return run_failed(s, r);
    }
    if (!out)
        return script_leave(s, "an operation without a result");
    v = script_object(s, n->tensor);
    if (!sv_ok(v)) {
        consume(r, out);
        return v;
    }
    t = (struct tensor *)(void *)v.o;
    t->run = r;
    t->v = out;
    calls_held(r, CALLED_HOLD, out);
    t->content = content_told(r, c);
    return v;
}

sv wrap(struct script *s, struct run *r, val out)
{
    return wrap_content(s, r, out, content_unknown());
}

sv wrap_of(struct script *s, struct tensor *self, sv self_sv, val out)
{
    if (!run_dead(self->run) && out == value_in(self))
        return sv_keep(self_sv);
    return wrap_content(s, self->run, out, self->content);
}

static void tensor_die(struct script *s, struct obj *o)
{
    struct tensor *t = (struct tensor *)(void *)o;

    if (t->v)
        calls_held(t->run, CALLED_DROP, t->v);
    t->v = 0;
    (void)s;
}

bool is_followed(const struct tensor *t)
{
    return shape_of(t)->requires_grad && t->run->grad_enabled;
}

sv written_formula(struct script *s, const char *name, uint32_t n, const sv *argv)
{
    return written_out(s, "torch._formulas", name, n, argv);
}

sv written_out(struct script *s, const char *file, const char *name, uint32_t n, const sv *argv)
{
    sv module = script_import(s, file), f = sv_ok(module) ? script_get(s, module, script_symbol(s, name)) : module;
    sv made = sv_ok(f) ? script_call(s, f, n, argv) : f;

    sv_drop(s, f);
    return made;
}

bool wants_gradient(struct script *s, const struct tensor *t, const char *what)
{
    if (!shape_of(t)->requires_grad || !t->run->grad_enabled)
        return false;
    (void)script_leave(s, "%s() of a tensor that wants a gradient", what);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- arguments */
bool is_number(sv v)
{
    return v.tag == SV_INT || v.tag == SV_FLOAT || v.tag == SV_BOOL;
}

/* dtype=bool, int, float: Python's own types */
static bool python_dtype(sv v, enum dtype *ret)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } rows[] = {{"bool", DTYPE_BOOL}, {"int", DTYPE_INT64}, {"float", DTYPE_FP64}};
    const struct cls *c = sv_as_class(v);

    for (size_t i = 0; c && i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(cls_name(c), rows[i].name)) {
            *ret = rows[i].dtype;
            return true;
        }
    return false;
}

bool dtype_arg(struct script *s, sv v, enum dtype *ret)
{
    if (!sv_given(v) || python_dtype(v, ret))
        return true;
    if (!sv_isa(s, v, &dtype_class)) {
        (void)script_raise(s, EXC_TypeError, "dtype: a torch.dtype is expected, not %s", cls_name(sv_class(s, v)));
        return false;
    }
    *ret = ((struct dtype_object *)(void *)v.o)->dtype;
    return true;
}

bool int_arg(struct script *s, sv v, int64_t *ret)
{
    struct tensor *t;

    if (!sv_given(v))
        return true;
    t = as_tensor(s, v);
    if (t) {
        sv item = tensor_item(s, t);

        if (!sv_ok(item))
            return false;
        v = item;
    }
    return script_int(s, v, ret);
}

bool float_arg(struct script *s, sv v, double *ret)
{
    return !sv_given(v) || script_double(s, v, ret);
}

bool bool_arg(struct script *s, sv v, bool *ret)
{
    int truth;

    if (!sv_given(v))
        return true;
    truth = script_truth(s, v);
    if (truth < 0)
        return false;
    *ret = truth;
    return true;
}

static bool is_dim(struct script *s, int64_t dim, int nd, int *ret)
{
    if (dim < -nd || dim >= nd) {
        (void)script_raise(s, EXC_IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -nd, nd - 1, (long long)dim);
        return false;
    }
    *ret = (int)(dim < 0 ? dim + nd : dim);
    return true;
}

bool dim_arg(struct script *s, const struct tensor *t, sv v, int *ret)
{
    int64_t dim = *ret;
    int nd = shape_of(t)->ndim;

    if (seq_items(v, &(uint32_t){0})) {
        (void)script_leave(s, "several dimensions at once");
        return false;
    }
    return int_arg(s, v, &dim) && is_dim(s, dim, nd ? nd : 1, ret);
}

bool new_dim_arg(struct script *s, const struct tensor *t, sv v, int *ret)
{
    int64_t dim = *ret;

    if (shape_of(t)->ndim == MAX_DIMS)
        return script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS), false;
    return int_arg(s, v, &dim) && is_dim(s, dim, shape_of(t)->ndim + 1, ret);
}

struct run *run_arg(struct script *s, sv device)
{
    struct natives *n = natives_of(s);
    bool cuda = false;

    if (!sv_given(device))
        return &n->host;
    if (sv_isa(s, device, &device_class)) {
        cuda = ((struct device_object *)(void *)device.o)->cuda;
    } else {
        size_t bytes;
        const char *text = str_text(device, &bytes);

        if (!text && device.tag != SV_INT) {
            (void)script_raise(s, EXC_TypeError, "device: a torch.device or its name is expected");
            return NULL;
        }
        cuda = !text || !strncmp(text, "cuda", 4);
    }
    if (cuda && !n->run) {
        (void)script_leave(s, "a tensor on the GPU before the model runs");
        return NULL;
    }
    return cuda ? n->run : &n->host;
}

/* No exception: where PyTorch raises another one, or none, nothing fits anyway. */
static bool too_large(struct script *s, int n, const int64_t *size)
{
    struct err err = {0};
    char text[192];

    sizes_too_large(n, size, text, sizeof text);
    (void)err_set(&err, ERR_TENSOR_SIZE, "", "%s", text);
    (void)script_fail(s, &err);
    return false;
}

bool size_grow(struct script *s, int64_t *size, int64_t by)
{
    const int64_t both[] = {*size, by};

    if (!sizes_countable(2, both))
        return too_large(s, 2, both);
    *size *= by;
    return true;
}

bool sizes_sane(struct script *s, int n, const int64_t *size)
{
    int64_t known[MAX_DIMS];

    for (int i = 0; i < n; i++) {
        if (size[i] < -1) {
            (void)script_raise(s, EXC_RuntimeError, "Trying to create tensor with negative dimension %lld", (long long)size[i]);
            return false;
        }
        known[i] = size[i] > 0 ? size[i] : 1;
    }
    return sizes_countable(n, known) || too_large(s, n, known);
}

int sizes_arg(struct script *s, uint32_t n, const sv *v, int64_t *ret)
{
    uint32_t count = n;
    const sv *items = v;

    if (n == 1 && !is_number(v[0]) && !as_tensor(s, v[0])) {
        items = seq_items(v[0], &count);
        if (!items) {
            (void)script_raise(s, EXC_TypeError, "sizes are integers or a tuple of them");
            return -1;
        }
    }
    if (count > MAX_DIMS) {
        (void)script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS);
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = 0;
        if (!int_arg(s, items[i], &ret[i]))
            return -1;
    }
    return sizes_sane(s, (int)count, ret) ? (int)count : -1;
}

int new_sizes_arg(struct script *s, uint32_t n, const sv *v, int64_t *ret)
{
    int nd = sizes_arg(s, n, v, ret);

    for (int i = 0; i < nd; i++)
        if (ret[i] < 0) {
            (void)script_raise(s, EXC_RuntimeError, "Trying to create tensor with negative dimension %lld", (long long)ret[i]);
            return -1;
        }
    return nd;
}

sv sizes_value(struct script *s, const struct value *x)
{
    sv items[MAX_DIMS];

    for (int i = 0; i < x->ndim; i++)
        items[i] = sv_int(x->size[i]);
    return tuple_take(s, x->ndim, items);
}

/* -------------------------------------------------------------------------------------------------------- attributes */
static struct tensor *self_of(sv self)
{
    return (struct tensor *)(void *)self.o;
}

static sv get_shape(struct script *s, sv self, uint32_t data)
{
    (void)data;
    return sizes_value(s, shape_of(self_of(self)));
}

enum dtype tensor_dtype_told(const struct tensor *t)
{
    const struct param *p = t->param;

    if (!p || !t->run || p->value)
        return shape_of(t)->dtype;
    return p->shard ? dtype_of(t->run, p->shard) : p->dtype;
}

static sv get_dtype(struct script *s, sv self, uint32_t data)
{
    (void)data;
    return sv_keep(natives_of(s)->dtypes[tensor_dtype_told(self_of(self))]);
}

static sv get_device(struct script *s, sv self, uint32_t data)
{
    const struct natives *n = natives_of(s);

    (void)data;
    return sv_keep(on_device(n, self_of(self)) ? n->cuda : n->cpu);
}

static sv get_ndim(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_int(shape_of(self_of(self))->ndim);
}

static sv get_requires_grad(struct script *s, sv self, uint32_t data)
{
    const struct tensor *t = self_of(self);

    (void)s;
    (void)data;
    return sv_bool((t->param && t->param->requires_grad) || shape_of(t)->requires_grad); /* a frozen one that is a view of FSDP1's flat parameter does */
}

static bool set_requires_grad(struct script *s, sv self, sv value, uint32_t data)
{
    struct tensor *t = self_of(self);
    int on = script_truth(s, value);

    (void)data;
    if (on < 0)
        return false;
    if (on && t->run == natives_of(s)->run && !shape_of(t)->requires_grad)
        require_grad(t->run, value_in(t));
    else
        shape_of(t)->requires_grad = on;
    return true;
}

static sv get_is_cuda(struct script *s, sv self, uint32_t data)
{
    (void)data;
    return sv_bool(on_device(natives_of(s), self_of(self)));
}

static sv get_data(struct script *s, sv self, uint32_t data)
{
    struct tensor *t = self_of(self);
    val out;

    (void)data;
    out = detach(t->run, value_in(t));
    if (out)
        t->run->values[out].made = MADE_DATA;
    return wrap_content(s, t->run, out, t->content);
}

static sv get_transposed(struct script *s, sv self, uint32_t data)
{
    struct tensor *t = self_of(self);
    int nd = shape_of(t)->ndim;

    (void)data;
    if (nd < 2)
        return sv_keep(self);
    return wrap(s, t->run, nd == 2 ? t_op(t->run, value_in(t)) : transpose(t->run, value_in(t), -2, -1));
}

/* Neither of other layouts nor of other devices: those are none of the language. */
static sv get_false(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)self;
    (void)data;
    return sv_bool(false);
}

static sv get_is_leaf(struct script *s, sv self, uint32_t data)
{
    const struct value *x = shape_of(self_of(self));

    (void)s;
    (void)data;
    return sv_bool(!x->requires_grad || x->leaf);
}

static sv get_none(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)self;
    (void)data;
    return sv_none();
}

static const struct script_member members[] = {
    {"shape", get_shape, NULL, 0}, {"dtype", get_dtype, NULL, 0},     {"device", get_device, NULL, 0},
    {"ndim", get_ndim, NULL, 0},   {"is_cuda", get_is_cuda, NULL, 0}, {"requires_grad", get_requires_grad, set_requires_grad, 0},
    {"data", get_data, NULL, 0},   {"T", get_transposed, NULL, 0},    {"mT", get_transposed, NULL, 0},
    {"grad", get_none, NULL, 0},   {"is_nested", get_none, NULL, 0},  {"is_leaf", get_is_leaf, NULL, 0},
    {"is_sparse", get_false, NULL, 0}, {"is_quantized", get_false, NULL, 0}, {"is_meta", get_false, NULL, 0}, {0},
};

static int64_t tensor_len(struct script *s, sv self)
{
    const struct value *x = shape_of(self_of(self));

    if (!x->ndim)
        (void)script_raise(s, EXC_TypeError, "len() of a 0-d tensor");
    return x->ndim ? x->size[0] : -1;
}

static sv tensor_number(struct script *s, sv self, bool whole)
{
    sv item = tensor_item(s, self_of(self));

    if (sv_ok(item) && whole && item.tag == SV_FLOAT)
        return sv_int((int64_t)item.f);
    return item;
}

/* x in tensor: from what is known of it; what (x == self).any() allocates for a moment is in no trace. */
static int tensor_contains(struct script *s, sv self, sv value)
{
    const struct tensor *t = self_of(self);
    double x;

    if (!is_number(value) || !script_double(s, value, &x))
        return script_failed(s) ? -1 : 0;
    if (t->content.kind == CONTENT_CONST)
        return t->content.c == x;
    if (t->content.kind == CONTENT_PADDED)
        return x == 0 || x == 1;
    if (t->content.kind == CONTENT_TEXT && (x < 0 || x != t->content.skew))
        return x >= 0 && x == t->content.c;
    (void)script_leave(s, "a branch that data decides: what a tensor contains");
    return -1;
}

static sv tensor_repr(struct script *s, sv self)
{
    (void)self;
    return str_format(s, "tensor(..)");
}

/* SV_NULL: no tensor has it. */
static sv not_modelled(struct script *s, sv name)
{
    sv module = script_import(s, "torch._tensor_names"), names = sv_ok(module) ? script_get(s, module, script_symbol(s, "NAMES")) : sv_null();
    bool has = sv_ok(names) && script_contains(s, names, name) == 1;

    sv_drop(s, names);
    return has ? script_leave(s, "Tensor.%s", str_text(name, NULL)) : sv_null();
}

/* What is shorter in the language: library/_methods.py. */
static sv tensor_getattr(struct script *s, sv self, sv name)
{
    sv module, function = sv_null(), bound;

    if (str_text(name, NULL)[0] == '_')
        return sv_null();
    module = script_import(s, "torch._methods");
    if (!sv_ok(module) || script_find(s, module, name, &function))
        return script_failed(s) ? sv_null() : not_modelled(s, name);
    bound = method_new(s, function, self);
    sv_drop(s, function);
    return bound;
}

/* torch/_tensor.py __iter__: self.unbind(0) */
static sv tensor_iter(struct script *s, sv self)
{
    sv parts = script_call_method(s, self, script_symbol(s, "unbind"), 0, NULL), made;

    if (!sv_ok(parts))
        return parts;
    made = script_iter(s, parts);
    sv_drop(s, parts);
    return made;
}

const struct script_class tensor_class = {
    .iter = tensor_iter,
    .getattr = tensor_getattr,
    .name = "Tensor",
    .bytes = sizeof(struct tensor),
    .methods = tensor_methods,
    .members = members,
    .die = tensor_die,
    .binary = tensor_binary,
    .compare = tensor_compare,
    .unary = tensor_unary,
    .getitem = tensor_getitem,
    .setitem = tensor_setitem,
    .contains = tensor_contains,
    .len = tensor_len,
    .truth = tensor_truth,
    .number = tensor_number,
    .repr = tensor_repr,
};

/* ----------------------------------------------------------------------------------------------------- dtypes, devices */
static sv dtype_repr(struct script *s, sv self)
{
    static const char *const names[DTYPE_COUNT] = {"torch.bool",    "torch.uint8",    "torch.int32",   "torch.int64",
                                                   "torch.float16", "torch.bfloat16", "torch.float32", "torch.float64", "torch.complex64"};

    return str_format(s, "%s", names[((struct dtype_object *)(void *)self.o)->dtype]);
}

static sv dtype_is_floating(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_bool(dtype_is_float(((struct dtype_object *)(void *)self.o)->dtype));
}

static sv dtype_itemsize(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_int(dtype_bytes(((struct dtype_object *)(void *)self.o)->dtype));
}

static const struct script_member dtype_members[] = {{"is_floating_point", dtype_is_floating, NULL, 0},
                                                     {"itemsize", dtype_itemsize, NULL, 0},
                                                     {0}};
const struct script_class dtype_class = {
    .name = "dtype", .bytes = sizeof(struct dtype_object), .members = dtype_members, .repr = dtype_repr, .final = true};

static sv device_type(struct script *s, sv self, uint32_t data)
{
    (void)data;
    return str_format(s, "%s", ((struct device_object *)(void *)self.o)->cuda ? "cuda" : "cpu");
}

static sv device_init(struct script *s, const struct script_args *a)
{
    struct device_object *d = (struct device_object *)(void *)a->v[0].o;
    const struct natives *n = natives_of(s);
    struct run *r = run_arg(s, a->v[1]);

    if (!r)
        return sv_null();
    d->cuda = r == n->run;
    return sv_none();
}

static sv device_compare(struct script *s, enum script_compare op, sv a, sv b)
{
    bool equal;

    if ((op != COMPARE_EQ && op != COMPARE_NE) || !sv_isa(s, a, &device_class) || !sv_isa(s, b, &device_class))
        return sv_not_implemented();
    equal = ((struct device_object *)(void *)a.o)->cuda == ((struct device_object *)(void *)b.o)->cuda;
    return sv_bool(equal == (op == COMPARE_EQ));
}

static const struct script_native device_methods[] = {{"__init__", device_init, "self, type, index=", 0, NATIVE_PLAIN}, {0}};
static const struct script_member device_members[] = {{"type", device_type, NULL, 0}, {"index", get_none, NULL, 0}, {0}};
const struct script_class device_class = {
    .name = "device",
    .bytes = sizeof(struct device_object),
    .methods = device_methods,
    .members = device_members,
    .compare = device_compare,
};
