/* function.c - torch.autograd.Function: forward without a graph, backward in the language. */
#include "natives/functions.h"
#include "natives/heard.h"

#include "torch/function.h"

#include <stdio.h>

struct ctx {
    struct script_object base;
    struct natives *n;
    sv cls, to_save, needs;                                        /* to_save: until forward has run */
    const val *saved;                                              /* while backward runs */
    uint64_t none_saved;                                           /* a bit each: None, which no node keeps */
    uint32_t node;
    bool saves_first; /* an operator of ATen, written as one: it keeps its inputs before it runs */
    uint32_t n_saved, n_args, n_results, n_edges;
    uint32_t *edge; /* which argument each is of; room for n_args */
    struct function function;
    sv plain; /* results that mark_non_differentiable() named */
};

static struct ctx *ctx_of(sv v)
{
    return (struct ctx *)(void *)v.o;
}

static void ctx_die(struct script *s, struct obj *self)
{
    struct ctx *c = (struct ctx *)(void *)self;

    sv_drop(s, c->to_save);
    sv_drop(s, c->plain);
    sv_drop(s, c->needs);
    sv_drop(s, c->cls);
    script_memory_give(s, c->edge, c->n_args * sizeof *c->edge);
    c->edge = NULL;
}

static bool keep_saved(struct script *s, struct ctx *c, sv one, bool result)
{
    struct tensor *t = sv_is_none(one) ? NULL : need_tensor(s, one, "save_for_backward");

    if (c->n_saved == MAX_SAVED) {
        (void)script_leave(s, "an autograd.Function that saves more than %d tensors", MAX_SAVED);
        return false;
    }
    if (t && !on_device(c->n, t)) {
        (void)script_leave(s, "an autograd.Function that saves a tensor of the host's");
        return false;
    }
    if (t)
        function_saves(c->n->run, c->node, value_in(t), result);
    else
        c->none_saved |= UINT64_C(1) << c->n_saved;
    c->n_saved++;
    if (run_dead(c->n->run))
        (void)run_failed(s, c->n->run);
    return !script_failed(s);
}

/* Of library/_formulas.py alone. */
static sv save_result(struct script *s, const struct script_args *a)
{
    struct ctx *c = ctx_of(a->v[0]);

    c->function.saves_result = !c->n_saved;
    sv_drop(s, c->to_save);
    c->to_save = tuple_new(s, a->n_rest, a->rest);
    return sv_ok(c->to_save) ? sv_none() : sv_null();
}

static sv save_for_backward(struct script *s, const struct script_args *a)
{
    struct ctx *c = ctx_of(a->v[0]);

    for (uint32_t i = 0; c->saves_first && i < a->n_rest; i++)
        if (!keep_saved(s, c, a->rest[i], false))
            return sv_null();
    if (c->saves_first)
        return sv_none();

    sv_drop(s, c->to_save);
    c->to_save = tuple_new(s, a->n_rest, a->rest);
    return sv_ok(c->to_save) ? sv_none() : sv_null();
}

static sv mark_non_differentiable(struct script *s, const struct script_args *a)
{
    struct ctx *c = ctx_of(a->v[0]);

    sv_drop(s, c->plain);
    c->plain = tuple_new(s, a->n_rest, a->rest);
    return sv_ok(c->plain) ? sv_none() : sv_null();
}

static sv set_materialize_grads(struct script *s, const struct script_args *a)
{
    bool on = true;

    if (!bool_arg(s, a->v[1], &on))
        return sv_null();
    ctx_of(a->v[0])->function.bare = !on;
    return sv_none();
}

/* Of what AOTAutograd compiled: backward(ctx, arguments) takes a list of what was saved and of the gradients, and who empties it lets go of them. */
static sv box_arguments(struct script *s, const struct script_args *a)
{
    (void)s;
    ctx_of(a->v[0])->function.boxed = true;
    return sv_none();
}

static sv left_out(struct script *s, const struct script_args *a)
{
    return script_leave(s, "ctx.%s()", a->def->name);
}

static sv get_saved(struct script *s, sv self, uint32_t data)
{
    struct ctx *c = ctx_of(self);
    sv items[MAX_SAVED];
    uint32_t kept = 0;

    (void)data;
    if (!c->saved)
        return script_raise(s, EXC_RuntimeError, "saved tensors are read while backward runs");
    for (uint32_t i = 0; i < c->n_saved; i++) {
        bool none = c->none_saved >> i & 1;

        items[i] = none || !c->saved[kept] ? sv_none() : natives_tensor(natives_of(s), c->saved[kept]);
        kept += !none;
        if (!sv_ok(items[i])) {
            while (i--)
                sv_drop(s, items[i]);
            return sv_null();
        }
    }
    return tuple_take(s, c->n_saved, items);
}

static sv get_needs(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_keep(ctx_of(self)->needs);
}

static const struct script_native ctx_methods[] = {
    {"save_for_backward", save_for_backward, "self, *rest", 0, NATIVE_PLAIN},
    {"save_result", save_result, "self, *rest", 0, NATIVE_PLAIN},
    {"mark_dirty", left_out, "self, *rest", 0, NATIVE_PLAIN},
    {"mark_non_differentiable", mark_non_differentiable, "self, *rest", 0, NATIVE_PLAIN},
    {"box_arguments", box_arguments, "self", 0, NATIVE_PLAIN},
    {"set_materialize_grads", set_materialize_grads, "self, value", 0, NATIVE_PLAIN},
    {0},
};
static const struct script_member ctx_members[] = {{"saved_tensors", get_saved, NULL, 0}, {"needs_input_grad", get_needs, NULL, 0}, {0}};
static const struct script_class ctx_class = {
    .name = "FunctionCtx",
    .bytes = sizeof(struct ctx),
    .methods = ctx_methods,
    .members = ctx_members,
    .die = ctx_die,
};

/* ----------------------------------------------------------------------------------------------------------- backward */
/* Whether a gradient can be summed to the shape of what it is of: engine.cpp validate_outputs */
static bool fits(const struct run *r, val grad, val of)
{
    const struct value *g = &r->values[grad], *x = &r->values[of];

    if (of && g->ndim < x->ndim)
        return false;
    for (int i = 1; of && i <= x->ndim; i++)
        if (x->size[x->ndim - i] != 1 && x->size[x->ndim - i] != g->size[g->ndim - i])
            return false;
    return true;
}

/* A gradient that backward returned: what nobody else holds becomes a temporary. */
static void hand_over(struct script *s, struct ctx *c, sv result, val *ret)
{
    struct run *r = natives_of(s)->run;
    uint32_t n = 1;
    const sv *items = sv_is(result, KIND_TUPLE) ? seq_items(result, &n) : &result;

    if (n < c->n_args) {
        (void)script_raise(s, EXC_RuntimeError, "backward returned %u gradients, expected %u", n, c->n_args);
        return;
    }
    for (uint32_t i = 0; i < c->n_edges; i++) {
        sv one = items[c->edge[i]];
        struct tensor *t = sv_is_none(one) ? NULL : need_tensor(s, one, "backward");

        if (t && on_device(c->n, t) && !fits(r, value_in(t), *node_meta(&r->nodes[r->node_running], (int)i)))
            (void)script_raise(s, EXC_RuntimeError,
                               "backward returned an invalid gradient at index %u: its shape is not that of the argument", c->edge[i]);
        else if (t && on_device(c->n, t))
            value_ref(r, ret[i] = value_in(t));
    }
}

/* [*saved_tensors, *gradients], which holds them alone */
static sv boxed_arguments(struct script *s, struct ctx *c, const val *grad, const val *saved)
{
    sv items[MAX_SAVED + MAX_OUTPUTS], list;
    uint32_t kept = 0, n = c->n_saved + c->n_results;

    for (uint32_t i = 0; i < n; i++) {
        bool none = i < c->n_saved && c->none_saved >> i & 1;
        val v = none ? 0 : i < c->n_saved ? saved[kept++] : grad[i - c->n_saved];

        items[i] = v ? natives_tensor(c->n, v) : sv_none();
        calls_unheard(c->n->run);
        value_unref(c->n->run, v);
    }
    list = list_new(s, n, items);
    while (n--)
        sv_drop(s, items[n]);
    return list;
}

static void run_backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    struct ctx *c = of;
    struct script *s = c->n->s;
    sv args[1 + MAX_OUTPUTS], result, f = script_get(s, c->cls, script_symbol(s, "backward"));
    uint32_t n = 1;

    args[0] = sv_keep(sv_counted(c));
    if (c->function.boxed) {
        args[n++] = boxed_arguments(s, c, grad, saved);
    } else {
        c->saved = saved;
        for (; n <= c->n_results; n++)
            args[n] = grad[n - 1] ? natives_tensor(c->n, grad[n - 1]) : sv_none();
    }
    result = sv_ok(f) && !script_failed(s) ? script_call(s, f, n, args) : sv_null();
    while (n--)
        sv_drop(s, args[n]);
    sv_drop(s, f);
    if (sv_ok(result))
        hand_over(s, c, result, ret);
    sv_drop(s, result);
    for (uint32_t i = 0; i < c->n_edges; i++) {
        struct value *x = &r->values[ret[i]];

        if (!ret[i])
            continue;
        if (x->refs == 1)
            x->floating = true;
        else
            x->refs--;
    }
    c->saved = NULL;
    if (script_failed(s) && !run_dead(r))
        natives_fail_run(c->n);
}

static void end(struct run *r, void *of)
{
    struct ctx *c = of;

    (void)r;
    sv_drop(c->n->s, sv_counted(c));
}

/* ------------------------------------------------------------------------------------------------------------ forward */
static bool is_one_of(val v, uint32_t n, const val *of)
{
    while (n--)
        if (of[n] == v)
            return true;
    return false;
}

static bool is_plain(const struct ctx *c, sv one)
{
    uint32_t n = 0;
    const sv *items = sv_is(c->plain, KIND_TUPLE) ? seq_items(c->plain, &n) : NULL;

    for (uint32_t i = 0; i < n; i++)
        if (items[i].tag == one.tag && items[i].o == one.o)
            return true;
    return false;
}

/* An argument that is returned as it came is a view of it. *ret 0: nothing that a gradient comes for */
static sv result_of(struct script *s, struct ctx *c, sv one, const val *in, val *ret)
{
    struct run *r = c->n->run;
    struct tensor *t = sv_is_none(one) ? NULL : need_tensor(s, one, "forward of an autograd.Function returns");
    sv other;

    *ret = 0;
    if (sv_is_none(one) || (t && is_plain(c, one)))
        return sv_keep(one);
    if (!t)
        return sv_null();
    if (!on_device(c->n, t))
        return script_leave(s, "an autograd.Function that returns a tensor of the host's");
    *ret = value_in(t);
    if (!is_one_of(*ret, c->n_edges, in))
        return sv_keep(one);
    other = wrap_content(s, r, value_alias(r, *ret), t->content);
    if (sv_ok(other))
        *ret = value_in((struct tensor *)(void *)other.o);
    return other;
}

/* What forward returned, tied to the node. */
static sv tie_results(struct script *s, struct ctx *c, uint32_t node, sv result, const val *in)
{
    struct run *r = c->n->run;
    uint32_t n = 1, n_saves = 0;
    const sv *items = sv_is(result, KIND_TUPLE) ? seq_items(result, &n) : &result, *saves = seq_items(c->to_save, &n_saves);
    sv made[MAX_OUTPUTS];
    val out[MAX_OUTPUTS];

    if (n > MAX_OUTPUTS || n_saves > MAX_SAVED)
        return script_leave(s, "an autograd.Function of more than %d results, or %d saved tensors", MAX_OUTPUTS, MAX_SAVED);
    for (uint32_t i = 0; i < n; i++) {
        made[i] = result_of(s, c, items[i], in, &out[i]);
        if (!sv_ok(made[i])) {
            while (i--)
                sv_drop(s, made[i]);
            return sv_null();
        }
    }
    c->n_results = n;
    for (uint32_t i = 0; i < n_saves; i++) {
        struct tensor *t = as_tensor(s, saves[i]);

        if (!keep_saved(s, c, saves[i], t && (c->function.saves_result || is_one_of(value_in(t), n, out))))
            break;
    }
    function_results(r, node, (int)n, out);
    sv_drop(s, c->to_save);
    sv_drop(s, c->plain);
    c->to_save = c->plain = sv_null();
    if (run_dead(r))
        (void)run_failed(s, r);
    if (!script_failed(s))
        return sv_is(result, KIND_TUPLE) ? tuple_take(s, n, made) : made[0];
    while (n--)
        sv_drop(s, made[n]);
    return sv_null();
}

/* in, needs: of c->n_args */
static bool take_arguments(struct script *s, struct ctx *c, const struct script_args *a, val *in, sv *needs)
{
    for (uint32_t i = 0; i < c->n_args; i++) {
        struct tensor *t = as_tensor(s, a->v[1 + i]);

        needs[i] = sv_bool(t && shape_of(t)->requires_grad);
        if (!t || !on_device(c->n, t))
            continue;
        in[c->n_edges] = value_in(t);
        c->edge[c->n_edges++] = i;
    }
    c->needs = tuple_new(s, c->n_args, needs);
    return sv_ok(c->needs);
}

static bool saves_first(struct script *s, sv cls)
{
    sv flag = sv_null();
    bool first = script_find(s, cls, script_symbol(s, "_saves_first"), &flag) == 0;

    sv_drop(s, flag);
    return first;
}

/* forward without a graph, its results tied to the node */
static sv go_forward(struct script *s, struct ctx *c, uint32_t node, const val *in, const sv *args)
{
    struct run *r = c->n->run;
    bool grad_enabled = r->grad_enabled;
    sv f = script_get(s, c->cls, script_symbol(s, "forward")), result, made;

    r->grad_enabled = false;
    result = sv_ok(f) ? script_call(s, f, 1 + c->n_args, args) : sv_null();
    sv_drop(s, f);
    r->grad_enabled = grad_enabled;
    if (!sv_ok(result))
        return result;
    made = tie_results(s, c, node, result, in);
    sv_drop(s, result);
    return made;
}

static sv apply_with(struct script *s, sv self, const struct script_args *a, val *in, sv *args)
{
    struct ctx *c = ctx_of(self);
    char node[128];
    uint32_t i;
    sv result;

    if (!take_arguments(s, c, a, in, args))
        return sv_null();
    (void)snprintf(node, sizeof node, "%sBackward", cls_name(sv_as_class(c->cls)));
    c->function = (struct function){.backward = run_backward, .release = end, .of = c};
    i = c->node = function_begin(c->n->run, node, (int)c->n_edges, in, &c->function);
    c->saves_first = c->function.aten = saves_first(s, a->v[0]);
    if (i)
        (void)sv_keep(self); /* the node's */
    args[0] = self;
    for (uint32_t k = 0; k < c->n_args; k++)
        args[1 + k] = a->v[1 + k];
    result = go_forward(s, c, i, in, args);
    if (!c->n_results)
        function_results(c->n->run, i, 0, NULL);
    return result;
}

sv function_applied(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    uint32_t n_args = a->n - 1;
    sv self = script_object(s, script_class(s, &ctx_class)), *args = script_memory(s, (n_args + 1) * sizeof *args), result = sv_null();
    val *in = script_memory(s, (n_args + 1) * sizeof *in);
    struct ctx *c = ctx_of(self);

    if (sv_ok(self) && args && in && (c->edge = script_memory(s, n_args * sizeof *c->edge))) {
        c->n = n;
        c->n_args = n_args;
        c->cls = sv_keep(a->v[0]);
        result = a->n_kw   ? script_leave(s, "apply() of names")
                 : !n->run ? script_leave(s, "an autograd.Function outside of a step")
                           : apply_with(s, self, a, in, args);
    }
    script_memory_give(s, args, (n_args + 1) * sizeof *args);
    script_memory_give(s, in, (n_args + 1) * sizeof *in);
    sv_drop(s, self);
    return result;
}

/* Function.apply(*args) */
static sv apply(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    struct hand h;
    sv result;

    if (!n->run || !n->run->calls)
        return function_applied(s, a);
    hand_begins(n, &h, a);
    result = function_applied(s, a);
    hand_ends(n, &h, result);
    return result;
}

static const struct script_native function_methods[] = {{"apply", apply, NULL, 0, NATIVE_CLASS}, {0}};
static const struct script_class function_class = {.name = "Function", .methods = function_methods};
static const struct script_class *const classes[] = {&function_class, &ctx_class, NULL};
const struct script_module autograd_module = {.name = "torch.autograd", .classes = classes};
