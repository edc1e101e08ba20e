/* nn_layers.c - the native classes of torch.nn: leaves that core/torch runs, and lists of modules. */
#include "natives/functions.h"
#include "natives/nn.h"

static sv nothing(struct script *s, const struct script_args *a)
{
    (void)s;
    (void)a;
    return sv_none();
}

/* A Parameter of the host, without values. */
static bool give_parameter(struct script *s, sv self, sv name, enum dtype dtype, int nd, const int64_t *size)
{
    struct natives *n = natives_of(s);
    sv p = sizes_sane(s, nd, size) ? script_object(s, n->parameter) : sv_null();
    struct tensor *t;
    bool ok;

    if (!sv_ok(p))
        return false;
    t = (struct tensor *)(void *)p.o;
    t->run = &n->host;
    t->v = owned(&n->host, value_new(&n->host, dtype, nd, size));
    shape_of(t)->requires_grad = true;
    ok = module_own(s, self, name, p, ENTRY_PARAMETER);
    sv_drop(s, p);
    return ok;
}

static bool no_parameter(struct script *s, sv self, sv name)
{
    return script_store(s, self, name, sv_none());
}

enum width { WIDTH_IN, WIDTH_OUT };

static sv get_width(struct script *s, sv self, uint32_t data)
{
    (void)s;
    return sv_int(data == WIDTH_IN ? nn_of(self)->in : nn_of(self)->out);
}

/* A layer's dtype=, or what the model is made in. */
static bool layer_dtype(struct script *s, sv v, enum dtype *ret)
{
    *ret = natives_of(s)->default_dtype;
    return dtype_arg(s, v, ret);
}

static bool sane(struct script *s, int64_t n)
{
    if (n >= 0 && n <= INT64_C(1) << 40)
        return true;
    (void)script_raise(s, EXC_RuntimeError, "a dimension of %lld elements", (long long)n);
    return false;
}

static sv linear_init(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    struct nn_module *o = nn_of(a->v[0]);
    enum dtype dtype;
    bool bias = true;

    if (!layer_dtype(s, a->v[5], &dtype) || !int_arg(s, a->v[1], &o->in) || !int_arg(s, a->v[2], &o->out) || !bool_arg(s, a->v[3], &bias) ||
        !sane(s, o->in) || !sane(s, o->out))
        return sv_null();
    o->kind = MODULE_LINEAR;
    if (!give_parameter(s, a->v[0], n->weight, dtype, SHAPE(o->out, o->in)) ||
        !(bias ? give_parameter(s, a->v[0], n->bias, dtype, SHAPE(o->out)) : no_parameter(s, a->v[0], n->bias)))
        return sv_null();
    return sv_none();
}

/* transformers.pytorch_utils.Conv1D(nf, nx) */
static sv conv1d_init(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    struct nn_module *o = nn_of(a->v[0]);

    if (!int_arg(s, a->v[1], &o->out) || !int_arg(s, a->v[2], &o->in) || !sane(s, o->in) || !sane(s, o->out))
        return sv_null();
    o->kind = MODULE_CONV1D;
    if (!give_parameter(s, a->v[0], n->weight, n->default_dtype, SHAPE(o->in, o->out)) ||
        !give_parameter(s, a->v[0], n->bias, n->default_dtype, SHAPE(o->out)))
        return sv_null();
    return sv_none();
}

/* _freeze=True: a table that is not trained */
static bool freeze(struct script *s, sv self, sv on)
{
    bool yes = false, ok;
    sv weight;

    if (!bool_arg(s, on, &yes) || !yes)
        return !script_failed(s);
    weight = script_get_plain(s, self, natives_of(s)->weight);
    ok = sv_ok(weight) && script_set(s, weight, script_symbol(s, "requires_grad"), sv_bool(false));
    sv_drop(s, weight);
    return ok;
}

static sv embedding_init(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    struct nn_module *o = nn_of(a->v[0]);
    int64_t padding;
    enum dtype dtype;

    if (!layer_dtype(s, a->v[11], &dtype) || !int_arg(s, a->v[1], &o->in) || !int_arg(s, a->v[2], &o->out) || !sane(s, o->in) || !sane(s, o->out))
        return sv_null();
    if (sv_given(a->v[3]) && (!int_arg(s, a->v[3], &padding) || padding >= o->in || padding < -o->in))
        return script_failed(s) ? sv_null()
                                : script_raise(s, EXC_AssertionError, "Padding_idx must be within num_embeddings (%lld of %lld rows)",
                                               (long long)padding, (long long)o->in);
    o->kind = MODULE_EMBEDDING;
    o->padding_idx = sv_given(a->v[3]);
    if (!script_set(s, a->v[0], script_symbol(s, "padding_idx"), sv_given(a->v[3]) ? a->v[3] : sv_none()) ||
        !give_parameter(s, a->v[0], n->weight, dtype, SHAPE(o->in, o->out)) || !freeze(s, a->v[0], a->v[9]))
        return sv_null();
    return sv_none();
}

static sv layer_norm_init(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    struct nn_module *o = nn_of(a->v[0]);
    int64_t size[MAX_DIMS];
    bool bias = true, ok;
    enum dtype dtype;
    sv width, shape;
    int nd = sizes_arg(s, 1, &a->v[1], size);

    o->affine = true;
    if (nd < 0 || !layer_dtype(s, a->v[6], &dtype) || !bool_arg(s, a->v[3], &o->affine) || !bool_arg(s, a->v[4], &bias))
        return sv_null();
    if (nd != 1)
        return script_leave(s, "LayerNorm over more than the last dimension");
    o->kind = MODULE_LAYER_NORM;
    o->in = o->out = size[0];
    if (!sane(s, o->in) || !(o->affine ? give_parameter(s, a->v[0], n->weight, dtype, SHAPE(size[0])) : no_parameter(s, a->v[0], n->weight)) ||
        !(o->affine && bias ? give_parameter(s, a->v[0], n->bias, dtype, SHAPE(size[0])) : no_parameter(s, a->v[0], n->bias)))
        return sv_null();
    width = sv_int(size[0]);
    shape = tuple_new(s, 1, &width);
    ok = sv_ok(shape) && script_set(s, a->v[0], script_symbol(s, "normalized_shape"), shape) &&
         script_set(s, a->v[0], script_symbol(s, "eps"), sv_given(a->v[2]) ? a->v[2] : sv_float(1e-5));
    sv_drop(s, shape);
    return ok ? sv_none() : sv_null();
}

static sv dropout_init(struct script *s, const struct script_args *a)
{
    struct nn_module *o = nn_of(a->v[0]);

    o->kind = MODULE_DROPOUT;
    o->p = 0.5;
    return float_arg(s, a->v[1], &o->p) && bool_arg(s, a->v[2], &o->in_place) ? sv_none() : sv_null();
}

/* p, which a trainer may change in the tree after the model has been made */
static sv get_p(struct script *s, sv self, uint32_t data)
{
    const struct nn_module *o = nn_of(self);

    (void)s;
    (void)data;
    return sv_float(o->m ? o->m->p : o->p);
}

static bool set_p(struct script *s, sv self, sv value, uint32_t data)
{
    struct nn_module *o = nn_of(self);

    (void)data;
    if (!sv_ok(value))
        (void)script_raise(s, EXC_AttributeError, "p");
    if (!sv_ok(value) || !float_arg(s, value, &o->p))
        return false;
    if (o->m)
        o->m->p = o->p;
    return true;
}

/* forward of a leaf on its own: super().forward(x) of a class derived from it */
static val weight_of(struct script *s, sv self, sv name, struct tensor **ret)
{
    sv w = script_get_plain(s, self, name);

    *ret = sv_ok(w) ? as_tensor(s, w) : NULL;
    sv_drop(s, w); /* the module keeps it */
    return *ret ? value_in(*ret) : 0;
}

static sv leaf_forward(struct script *s, const struct script_args *a)
{
    struct nn_module *o = nn_of(a->v[0]);
    struct tensor *x = need_tensor(s, a->v[1], "forward"), *w, *b;
    struct run *r;
    val weight, bias;

    if (!x)
        return sv_null();
    r = x->run;
    weight = o->kind == MODULE_DROPOUT ? 0 : weight_of(s, a->v[0], natives_of(s)->weight, &w);
    bias = o->kind == MODULE_DROPOUT || o->kind == MODULE_EMBEDDING ? 0 : weight_of(s, a->v[0], natives_of(s)->bias, &b);
    if (script_failed(s) || (weight && !stand_together(s, x, w)) || (bias && !stand_together(s, x, b)))
        return sv_null();
    if (o->m && natives_of(s)->run && !on_device(natives_of(s), x))
        return script_leave(s, "a module is called with a tensor of the host");
    if (o->m && o->m->within)
        return wrap(s, r, o->m->within(r, o->m, value_in(x)));
    switch (o->kind) {
    case MODULE_LINEAR:
        return wrap(s, r, linear_op(r, value_in(x), weight, bias));
    case MODULE_EMBEDDING:
        return wrap(s, r, embedding_op(r, weight, value_in(x), o->padding_idx));
    case MODULE_LAYER_NORM:
        return wrap(s, r, layer_norm(r, value_in(x), weight, bias));
    case MODULE_DROPOUT:
        if (o->in_place && !o->eval && (o->m ? o->m->p : o->p) > 0)
            return written_formula(s, "dropout_", 2, (sv[]){a->v[1], sv_float(o->m ? o->m->p : o->p)});
        return wrap_of(s, x, a->v[1], o->eval ? value_in(x) : dropout(r, value_in(x), o->m ? o->m->p : o->p));
    case MODULE_CONV1D:
        return o->m ? wrap(s, r, o->m->forward(r, o->m, value_in(x))) : script_leave(s, "Conv1D before the model runs");
    default:
        return sv_keep(a->v[1]);
    }
}

#define WIDTHS(id, in, out) \
    static const struct script_member id##_members[] = {{in, get_width, NULL, WIDTH_IN}, {out, get_width, NULL, WIDTH_OUT}, {0}}
WIDTHS(linear, "in_features", "out_features");
WIDTHS(conv1d, "nx", "nf");
WIDTHS(embedding, "num_embeddings", "embedding_dim");
static const struct script_member layer_norm_members[] = {{0}}, dropout_members[] = {{"p", get_p, set_p, 0}, {0}};

#define LEAF(id, text, init, signature)                                                                            \
    static const struct script_native id##_methods[] = {{"__init__", init, signature, 0, NATIVE_PLAIN},            \
                                                        {"forward", leaf_forward, "self, input", 0, NATIVE_PLAIN}, \
                                                        {0}};                                                      \
    const struct script_class id##_class = {.name = text, .base = &module_class, .methods = id##_methods, .members = id##_members}
LEAF(linear, "Linear", linear_init, "self, in_features, out_features, bias=, device=, dtype=");
LEAF(conv1d, "Conv1D", conv1d_init, "self, nf, nx");
LEAF(
    embedding, "Embedding", embedding_init,
    "self, num_embeddings, embedding_dim, padding_idx=, max_norm=!, norm_type=, scale_grad_by_freq=!, sparse=!, _weight=!, _freeze=, device=, dtype=");
LEAF(layer_norm, "LayerNorm", layer_norm_init, "self, normalized_shape, eps=, elementwise_affine=, bias=, device=, dtype=");
LEAF(dropout, "Dropout", dropout_init, "self, p=, inplace=");

static sv identity_forward(struct script *s, const struct script_args *a)
{
    (void)s;
    return sv_keep(a->v[1]);
}

static const struct script_native identity_methods[] = {{"forward", identity_forward, "self, input", 0, NATIVE_PLAIN}, {0}};
const struct script_class identity_class = {.name = "Identity", .base = &module_class, .methods = identity_methods};

/* Activations as modules: the function of the same name. */
static sv activation_forward(struct script *s, const struct script_args *a)
{
    struct script_native def = *a->def;
    struct script_args one = {.v = a->v + 1, .n = 1, .def = &def};

    if (def.data == 99)
        return f_gelu(s, &one);
    return nn_of(a->v[0])->in_place ? m_unary_(s, &one) : f_unary(s, &one);
}

/* inplace=: the last argument */
static sv activation_init(struct script *s, const struct script_args *a)
{
    return bool_arg(s, a->v[a->n - 1], &nn_of(a->v[0])->in_place) ? nothing(s, a) : sv_null();
}

#define ACTIVATION(id, text, init, fn, signature)                                                                               \
    static const struct script_native id##_methods[] = {{"__init__", init, signature, 0, NATIVE_PLAIN},                   \
                                                        {"forward", activation_forward, "self, input", fn, NATIVE_PLAIN}, \
                                                        {0}};                                                             \
    static const struct script_class id##_class = {.name = text, .base = &module_class, .methods = id##_methods}
ACTIVATION(silu_module, "SiLU", activation_init, UNARY_FN_SILU, "self, inplace=");
ACTIVATION(relu_module, "ReLU", activation_init, UNARY_FN_RELU, "self, inplace=");
ACTIVATION(tanh_module, "Tanh", nothing, UNARY_FN_TANH, "self");
ACTIVATION(gelu_module, "GELU", nothing, 99, "self, approximate=");
ACTIVATION(sigmoid_module, "Sigmoid", nothing, UNARY_FN_SIGMOID, "self");
ACTIVATION(relu6_module, "ReLU6", activation_init, UNARY_FN_RELU6, "self, inplace=");
ACTIVATION(mish_module, "Mish", activation_init, UNARY_FN_MISH, "self, inplace=");
ACTIVATION(leaky_relu_module, "LeakyReLU", activation_init, UNARY_FN_LEAKY_RELU, "self, negative_slope=, inplace=");
ACTIVATION(hardswish_module, "Hardswish", activation_init, UNARY_FN_HARDSWISH, "self, inplace=");

/* Softmax(dim) */
static sv softmax_init(struct script *s, const struct script_args *a)
{
    return script_set(s, a->v[0], script_symbol(s, "dim"), sv_ok(a->v[1]) ? a->v[1] : sv_none()) ? sv_none() : sv_null();
}

static sv softmax_forward(struct script *s, const struct script_args *a)
{
    sv v[3] = {a->v[1], script_get_plain(s, a->v[0], script_symbol(s, "dim"))}, made;
    struct script_args one = {.v = v, .n = 3, .def = a->def};

    made = sv_ok(v[1]) ? f_softmax(s, &one) : sv_null();
    sv_drop(s, v[1]);
    return made;
}

static const struct script_native softmax_methods[] = {{"__init__", softmax_init, "self, dim=", 0, NATIVE_PLAIN},
                                                       {"forward", softmax_forward, "self, input", 0, NATIVE_PLAIN},
                                                       {0}};
static const struct script_class softmax_class = {.name = "Softmax", .base = &module_class, .methods = softmax_methods};

/* CrossEntropyLoss(weight, size_average, ignore_index, reduce, reduction, label_smoothing) */
static sv loss_forward(struct script *s, const struct script_args *a)
{
    static const char *const kept[] = {[4] = "ignore_index", [6] = "reduction", [7] = "label_smoothing"};
    sv v[8] = {a->v[1], a->v[2]}, made;
    struct script_args one = {.v = v, .n = 8, .def = a->def};

    for (int i = 4; i < 8; i++)
        if (kept[i] && !sv_ok(v[i] = script_get_plain(s, a->v[0], script_symbol(s, kept[i]))))
            return sv_null();
    made = f_cross_entropy(s, &one);
    for (int i = 4; i < 8; i++)
        sv_drop(s, v[i]);
    return made;
}

static sv loss_init(struct script *s, const struct script_args *a)
{
    bool ok = script_set_plain(s, a->v[0], script_symbol(s, "ignore_index"), sv_given(a->v[3]) ? a->v[3] : sv_int(-100)) &&
              script_set_plain(s, a->v[0], script_symbol(s, "reduction"), sv_given(a->v[5]) ? a->v[5] : script_symbol(s, "mean")) &&
              script_set_plain(s, a->v[0], script_symbol(s, "label_smoothing"), sv_given(a->v[6]) ? a->v[6] : sv_float(0));

    return ok ? sv_none() : sv_null();
}

static const struct script_native loss_methods[] = {
    {"__init__", loss_init, "self, weight=!, size_average=!, ignore_index=, reduce=!, reduction=!mean|sum|none, label_smoothing=", 0,
     NATIVE_PLAIN},
    {"forward", loss_forward, "self, input, target", 0, NATIVE_PLAIN},
    {0}};
static const struct script_class loss_class = {.name = "CrossEntropyLoss", .base = &module_class, .methods = loss_methods};

/* --------------------------------------------------------------------------------------------------------------- lists */
static sv list_init(struct script *s, const struct script_args *a)
{
    struct nn_module *o = nn_of(a->v[0]);
    sv list = list_new(s, 0, NULL), iter, item;

    if (!sv_ok(list))
        return list;
    sv_drop(s, o->items);
    o->items = list;
    if (a->n_rest && a->def->data) { /* Sequential: the modules one by one */
        for (uint32_t i = 0; i < a->n_rest; i++)
            if (!list_append(s, list, a->rest[i]))
                return sv_null();
        return sv_none();
    }
    if (!a->n_rest || !sv_given(a->rest[0]))
        return sv_none();
    iter = script_iter(s, a->rest[0]);
    if (!sv_ok(iter))
        return iter;
    while (sv_ok(item = script_next(s, iter))) {
        bool ok = list_append(s, list, item);

        sv_drop(s, item);
        if (!ok)
            break;
    }
    sv_drop(s, iter);
    return script_failed(s) ? sv_null() : sv_none();
}

static sv list_add(struct script *s, const struct script_args *a)
{
    return list_append(s, nn_of(a->v[0])->items, a->v[1]) ? sv_keep(a->v[0]) : sv_null();
}

static sv items_getitem(struct script *s, sv self, sv key)
{
    return script_getitem(s, nn_of(self)->items, key);
}

static int64_t items_len(struct script *s, sv self)
{
    return script_len(s, nn_of(self)->items);
}

static sv items_iter(struct script *s, sv self)
{
    return script_iter(s, nn_of(self)->items);
}

static int items_contains(struct script *s, sv self, sv value)
{
    return script_contains(s, nn_of(self)->items, value);
}

static bool items_setitem(struct script *s, sv self, sv key, sv value)
{
    return script_setitem(s, nn_of(self)->items, key, value);
}

static const struct script_native list_methods[] = {{"__init__", list_init, "self, *rest", 0, NATIVE_PLAIN},
                                                    {"append", list_add, "self, module", 0, NATIVE_PLAIN},
                                                    {0}};
const struct script_class module_list_class = {
    .name = "ModuleList",
    .base = &module_class,
    .methods = list_methods,
    .getitem = items_getitem,
    .setitem = items_setitem,
    .len = items_len,
    .iter = items_iter,
};

static sv sequential_forward(struct script *s, const struct script_args *a)
{
    uint32_t n;
    const sv *items = seq_items(nn_of(a->v[0])->items, &n);
    sv x = sv_keep(a->v[1]);

    for (uint32_t i = 0; i < n && sv_ok(x); i++) {
        sv next = script_call(s, items[i], 1, &x);

        sv_drop(s, x);
        x = next;
    }
    return x;
}

static const struct script_native sequential_methods[] = {{"__init__", list_init, "self, *rest", 1, NATIVE_PLAIN},
                                                          {"append", list_add, "self, module", 0, NATIVE_PLAIN},
                                                          {"forward", sequential_forward, "self, input", 0, NATIVE_PLAIN},
                                                          {0}};
const struct script_class sequential_class = {
    .name = "Sequential",
    .base = &module_class,
    .methods = sequential_methods,
    .getitem = items_getitem,
    .len = items_len,
    .iter = items_iter,
};

static sv dict_init(struct script *s, const struct script_args *a)
{
    struct nn_module *o = nn_of(a->v[0]);
    sv dict = dict_new(s), key, value;
    uint32_t at = 0;

    if (!sv_ok(dict))
        return dict;
    sv_drop(s, o->items);
    o->items = dict;
    if (sv_is(a->v[1], KIND_DICT))
        while (dict_each(a->v[1], &at, &key, &value))
            if (!dict_set(s, dict, key, value))
                return sv_null();
    return sv_none();
}

static sv dict_method(struct script *s, const struct script_args *a)
{
    return script_call_method(s, nn_of(a->v[0])->items, script_symbol(s, a->def->name), 0, NULL);
}

static const struct script_native dict_methods[] = {{"__init__", dict_init, "self, modules=", 0, NATIVE_PLAIN},
                                                    {"items", dict_method, "self", 0, NATIVE_PLAIN},
                                                    {"keys", dict_method, "self", 0, NATIVE_PLAIN},
                                                    {"values", dict_method, "self", 0, NATIVE_PLAIN},
                                                    {0}};
/* Its modules are attributes too. */
static sv dict_getattr(struct script *s, sv self, sv name)
{
    sv found = sv_is(nn_of(self)->items, KIND_DICT) ? dict_get(s, nn_of(self)->items, name) : sv_null();

    return sv_ok(found) || script_failed(s) ? sv_keep(found) : module_getattr(s, self, name);
}

const struct script_class module_dict_class = {
    .name = "ModuleDict",
    .base = &module_class,
    .getattr = dict_getattr,
    .methods = dict_methods,
    .getitem = items_getitem,
    .setitem = items_setitem,
    .len = items_len,
    .iter = items_iter,
    .contains = items_contains,
};

/* ---------------------------------------------------------------------------------------------- parameters and buffers */
static sv parameter_new(struct script *s, const struct script_args *a)
{
    struct tensor *of = need_tensor(s, a->v[1], "Parameter");
    struct cls *cls = sv_as_class(a->v[0]);
    struct tensor *t;
    sv made;
    bool grad = a->def->data;

    if (!of || !bool_arg(s, a->v[2], &grad))
        return sv_null();
    made = script_object(s, cls);
    if (!sv_ok(made))
        return made;
    t = (struct tensor *)(void *)made.o;
    t->run = of->run;
    t->v = owned(of->run, value_new(of->run, (enum dtype)shape_of(of)->dtype, shape_of(of)->ndim, shape_of(of)->size));
    t->content = of->content;
    if (run_dead(of->run)) {
        sv_drop(s, made);
        return run_failed(s, of->run);
    }
    shape_of(t)->requires_grad = grad;
    return made;
}

static const struct script_native parameter_methods[] = {{"__new__", parameter_new, "cls, data=, requires_grad=", 1, NATIVE_STATIC},
                                                         {"__init__", nothing, "self, *rest, **kw", 0, NATIVE_PLAIN},
                                                         {0}};
const struct script_class parameter_class = {.name = "Parameter", .base = &tensor_class, .methods = parameter_methods};
static const struct script_native buffer_methods[] = {{"__new__", parameter_new, "cls, data=, persistent=", 0, NATIVE_STATIC},
                                                      {"__init__", nothing, "self, *rest, **kw", 0, NATIVE_PLAIN},
                                                      {0}};
const struct script_class buffer_class = {.name = "Buffer", .base = &tensor_class, .methods = buffer_methods};

static sv init_nothing(struct script *s, const struct script_args *a)
{
    (void)s;
    return a->n ? sv_keep(a->v[0]) : sv_none();
}

static const struct script_native init_functions[] = {
    {"init.normal_", init_nothing, NULL, 0, NATIVE_PLAIN},         {"init.zeros_", init_nothing, NULL, 0, NATIVE_PLAIN},
    {"init.ones_", init_nothing, NULL, 0, NATIVE_PLAIN},           {"init.constant_", init_nothing, NULL, 0, NATIVE_PLAIN},
    {"init.xavier_uniform_", init_nothing, NULL, 0, NATIVE_PLAIN}, {"init.kaiming_uniform_", init_nothing, NULL, 0, NATIVE_PLAIN},
    {"init.trunc_normal_", init_nothing, NULL, 0, NATIVE_PLAIN},   {0},
};
static const struct script_class *const classes[] = {
    &module_class,
    &parameter_class,
    &buffer_class,
    &linear_class,
    &embedding_class,
    &layer_norm_class,
    &dropout_class,
    &identity_class,
    &module_list_class,
    &module_dict_class,
    &sequential_class,
    &silu_module_class,
    &relu_module_class,
    &tanh_module_class,
    &gelu_module_class,
    &sigmoid_module_class,
    &relu6_module_class,
    &mish_module_class,
    &leaky_relu_module_class,
    &hardswish_module_class,
    &softmax_class,
    &loss_class,
    NULL,
};
static bool nn_begin(struct script *s, sv module)
{
    sv f = script_import(s, "torch.nn.functional");
    bool ok = sv_ok(f) && script_set(s, module, script_symbol(s, "functional"), f);

    sv_drop(s, f);
    return ok;
}
const struct script_module nn_module_table = {.name = "torch.nn", .functions = init_functions, .classes = classes, .begin = nn_begin};
