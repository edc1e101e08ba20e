/* adapters.c - the parts of an adapted linear, for texts that multiply by them themselves: module `_adapters`. */
#include "natives/functions.h"
#include "natives/nn.h"

static struct nn_module *linear_arg(struct script *s, sv v)
{
    struct nn_module *o = as_module(s, v);

    if (!o || o->kind != MODULE_LINEAR || !o->m)
        (void)script_raise(s, EXC_TypeError, "a linear of the model is expected");
    else if (natives_of(s)->run)
        calls_unheard(natives_of(s)->run);
    return script_failed(s) ? NULL : o;
}

/* is_adapted(linear): hasattr(linear, "lora_A") */
static sv is_adapted(struct script *s, const struct script_args *a)
{
    const struct nn_module *o = linear_arg(s, a->v[0]);

    return o ? sv_bool(o->m->adapter != NULL) : sv_null();
}

static sv parameter_of(struct natives *n, const struct param *p)
{
    return p ? natives_tensor(n, p->value) : sv_none();
}

/* parts(linear): A, B and what is added behind them, the base's bias; None where adapters are off */
static sv parts(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    const struct nn_module *o = linear_arg(s, a->v[0]);
    const struct adapter *l = o ? o->m->adapter : NULL;
    bool off = !l || n->run->adapters_off;
    sv items[3] = {0};

    if (!o)
        return sv_null();
    items[0] = parameter_of(n, off ? NULL : l->a->weight);
    items[1] = parameter_of(n, off ? NULL : l->b->weight);
    items[2] = parameter_of(n, l ? l->base->bias : o->m->bias);
    if (!script_failed(s))
        return tuple_take(s, 3, items);
    for (int i = 0; i < 3; i++)
        sv_drop(s, items[i]);
    return sv_null();
}

/* dropped(linear, x): x behind lora_dropout; None: there is none */
static sv dropped(struct script *s, const struct script_args *a)
{
    const struct nn_module *o = linear_arg(s, a->v[0]);
    const struct tensor *x = o ? need_tensor(s, a->v[1], "dropout") : NULL;
    const struct adapter *l = x ? o->m->adapter : NULL;

    if (!x)
        return sv_null();
    if (!l || !l->dropout || l->dropout->p <= 0 || x->run->adapters_off)
        return sv_none();
    return wrap(s, x->run, call(x->run, l->dropout, value_in(x)));
}

/* weight(linear): the base's; of packed ones a copy that multiplies */
static sv weight(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    const struct nn_module *o = linear_arg(s, a->v[0]);
    const struct adapter *l = o ? o->m->adapter : NULL;

    if (!o)
        return sv_null();
    if (l && l->packed)
        return l->unpacked ? wrap(s, n->run, l->unpacked(n->run, l->base)) : script_raise(s, EXC_RuntimeError, "a base that these kernels cannot unpack");
    return parameter_of(n, l ? l->base->weight : o->m->weight);
}

/* is_packed(linear): whether weight() is a copy */
static sv is_packed(struct script *s, const struct script_args *a)
{
    const struct nn_module *o = linear_arg(s, a->v[0]);

    return o ? sv_bool(o->m->adapter && o->m->adapter->packed) : sv_null();
}

static const struct script_native functions[] = {
    {"is_adapted", is_adapted, "linear, /", 0, NATIVE_PLAIN},
    {"is_packed", is_packed, "linear, /", 0, NATIVE_PLAIN},
    {"parts", parts, "linear, /", 0, NATIVE_PLAIN},
    {"dropped", dropped, "linear, x, /", 0, NATIVE_PLAIN},
    {"weight", weight, "linear, /", 0, NATIVE_PLAIN},
    {0},
};
const struct script_module adapters_module = {.name = "_adapters", .functions = functions};
