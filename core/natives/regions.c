/* regions.c - torch.utils.checkpoint, and the switches behind no_grad and autocast. */
#include "natives/heard.h"
#include "natives/regions.h"

#include "torch/checkpoint.h"
#include "torch/autograd.h"

#include <stddef.h>
#include <string.h>

enum { RESULTS = 4 };

/* What a checkpointed region runs again: it lives as long as the region. */
struct again {
    struct natives *n;
    sv function, kw[SCRIPT_KEYWORDS], names[SCRIPT_KEYWORDS];
    struct content contents[REGION_ARGS];
    sv others[REGION_ARGS]; /* arguments that are no tensors, by place */
    uint32_t n_args, n_kw;
    uint32_t n_results; /* the layer returns a tuple of so many; 0: a tensor */
    bool reentrant;
    sv *first;         /* RESULTS of them: what is no tensor among the results of the first run; NULL: it is over */
    sv again[RESULTS]; /* the same of a run in backward, whose results CheckpointFunction.backward() holds until it returns: its graph knows tensors alone */
    struct again *next;
};

static void drop_results(struct script *s, sv results[RESULTS])
{
    for (int i = 0; i < RESULTS; i++) {
        sv_drop(s, results[i]);
        results[i] = sv_null();
    }
}

static void forget(struct run *r, void *context)
{
    struct again *g = context;
    struct script *s = g->n->s;

    (void)r;
    for (uint32_t i = 0; i < g->n_kw; i++) {
        sv_drop(s, g->kw[i]);
        sv_drop(s, g->names[i]);
    }
    for (uint32_t i = 0; i < g->n_args; i++)
        sv_drop(s, g->others[i]);
    drop_results(s, g->again);
    sv_drop(s, g->function);
    g->next = g->n->free_again;
    g->n->free_again = g;
}

static void forget_results(struct run *r, void *context)
{
    struct again *g = context;

    (void)r;
    drop_results(g->n->s, g->again);
}

/* A tensor that nobody else holds becomes a temporary; of another, one of its own is made. `v` is held once for this. */
static val temporary_of(struct run *r, val v)
{
    if (r->values[v].refs > 1) {
        val same = value_again(r, v);

        value_unref(r, v);
        return same;
    }
    r->values[v].floating = true;
    return v;
}

/* Of a tuple, what is no tensor: an autograd.Function gives it back as it is. */
static void keep_others(struct script *s, struct again *g, const sv *items, uint32_t n)
{
    sv *to = g->first ? g->first : g->again;

    if (!g->first)
        drop_results(s, g->again);
    for (uint32_t i = 1; i < n && (g->first || g->reentrant); i++)
        if (!as_tensor(s, items[i]))
            to[i] = sv_keep(items[i]);
}

/* A result for core/torch, and a second one beside it: (tensor,), (tensor, tensor), (tensor, None), (tensor, (tensor, tensor)). */
static val as_temporary(struct script *s, struct again *g, sv result)
{
    struct run *r = g->n->run;
    uint32_t n = 0;
    const sv *items = seq_items(result, &n);
    struct tensor *t = as_tensor(s, items && n ? items[0] : result), *other = items && n > 1 ? as_tensor(s, items[1]) : NULL;
    val v, beside = 0;

    g->n_results = items ? n : 0;
    for (uint32_t i = 2; i < n; i++)
        if (i >= RESULTS || as_tensor(s, items[i]))
            (void)script_leave(s, "a checkpointed layer that returns more than two tensors, or what is none");
    if (n <= RESULTS)
        keep_others(s, g, items, n);
    if (!t) {
        (void)script_leave(s, "a checkpointed layer that returns no tensor");
        sv_drop(s, result);
        return 0;
    }
    if (!on_device(g->n, t) || (other && !on_device(g->n, other))) {
        (void)script_leave(s, "a checkpointed layer that returns a tensor of the host's");
        sv_drop(s, result);
        return 0;
    }
    value_ref(r, v = value_in(t));
    if (other)
        value_ref(r, beside = value_in(other));
    sv_drop(s, result);
    v = temporary_of(r, v);
    r->second = beside ? temporary_of(r, beside) : 0;
    return v;
}

/* partial(forward, layer, **kwargs), as a layer that checkpoints itself hands it over. */
static bool hear(struct again *g, const val *args, struct hearing *h)
{
    struct natives *n = g->n;
    sv function, first, kw, name, value;
    uint32_t n_first = 0, at = 0;
    const sv *items;

    h->calls = NULL;
    h->writes = false;
    if (!n->book || !script_partial(n->s, g->function, &function, &first, &kw))
        return false;
    items = seq_items(first, &n_first);
    if (n_first != 1 || !as_module(n->s, items[0]) || !sv_is(function, KIND_FUNC) || !hearing_begins(n, h, nn_of(items[0]), true))
        return false;
    for (uint32_t i = 0; i < g->n_args; i++)
        if (sv_ok(g->others[i]) ? !hearing_takes(n, h, g->others[i]) : !hearing_takes_tensor(n, h, args[i], g->contents[i]))
            return false;
    while (dict_each(kw, &at, &name, &value))
        if (!hearing_takes_named(n, h, name, value))
            return false;
    for (uint32_t i = 0; i < g->n_kw; i++)
        if (!hearing_takes_named(n, h, g->names[i], g->kw[i]))
            return false;
    hearing_begun(n, h);
    return true;
}

/* As as_temporary() leaves what the program returned. */
static val asked_again(struct again *g, struct hearing *h)
{
    struct run *r = g->n->run;
    val out[CALLS_RESULTS] = {0}, v;

    if (!hearing_asks_again(g->n, h, out, &g->n_results)) {
        if (!r->stopped && !r->error.code)
            natives_fail_run(g->n);
        return 0;
    }
    v = temporary_of(r, out[0]);
    r->second = out[1] ? temporary_of(r, out[1]) : 0;
    return v;
}

static val run_again(struct run *r, void *context, const val *args)
{
    struct again *g = context;
    struct script *s = g->n->s;
    struct script_args a = {0};
    struct hearing h;
    sv v[REGION_ARGS], result;

    (void)hear(g, args, &h);
    if (h.calls)
        return asked_again(g, &h);

    for (uint32_t i = 0; i < g->n_args; i++) {
        v[i] = sv_ok(g->others[i]) ? sv_keep(g->others[i]) : natives_tensor(g->n, args[i]);
        if (!sv_ok(g->others[i]) && sv_ok(v[i]))
            ((struct tensor *)(void *)v[i].o)->content = g->contents[i];
    }
    a.v = v;
    a.n = g->n_args;
    a.kw = g->kw;
    a.names = g->names;
    a.n_kw = g->n_kw;
    result = script_call_args(s, g->function, &a);
    for (uint32_t i = 0; i < g->n_args; i++)
        sv_drop(s, v[i]);
    if (!sv_ok(result) && r->stopped)
        script_forgive(s);
    if (h.writes)
        hearing_ends(g->n, &h, result);
    if (sv_ok(result))
        return as_temporary(s, g, result);
    if (!r->stopped && !r->error.code)
        natives_fail_run(g->n);
    return 0;
}

/* Takes `others`. */
static sv results_of(struct script *s, struct run *r, uint32_t n, val out, sv others[RESULTS])
{
    val second = r->second;

    r->second = 0;
    others[0] = wrap(s, r, out);
    if (!sv_ok(others[0]) || !n) {
        consume(r, second);
        return others[0];
    }
    if (second)
        others[1] = wrap(s, r, second);
    if (script_failed(s)) {
        drop_results(s, others);
        return sv_null();
    }
    for (uint32_t i = 1; i < n; i++) /* heard, not made: tensors and None alone */
        others[i] = sv_ok(others[i]) ? others[i] : sv_none();
    return tuple_take(s, n, others);
}

/* checkpoint(function, *args, use_reentrant=.., **kwargs); data: 1: reentrant unless it says otherwise */
sv regions_checkpoint(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    struct run *r = n->run;
    bool reentrant = a->def->data;
    struct again *g;
    sv others[RESULTS] = {0};
    val args[REGION_ARGS] = {0}, out;

    if (!r || !a->n)
        return script_leave(s, "checkpoint() outside of a step");
    calls_unheard(r);
    if (a->n - 1 > REGION_ARGS || a->n_kw > SCRIPT_KEYWORDS)
        return script_leave(s, "checkpoint() of more than %d arguments", REGION_ARGS);
    g = n->free_again;
    if (g)
        n->free_again = g->next;
    else
        g = arena_new(r->arena, struct again);
    if (!g)
        return script_nomem(s);
    *g = (struct again){.n = n, .function = sv_keep(a->v[0]), .n_args = a->n - 1};
    for (uint32_t i = 0; i < g->n_args; i++) {
        struct tensor *t = as_tensor(s, a->v[1 + i]);

        if (t && on_device(n, t)) {
            args[i] = value_in(t);
            g->contents[i] = t->content;
        } else {
            g->others[i] = sv_keep(a->v[1 + i]);
        }
    }
    for (uint32_t i = 0; i < a->n_kw; i++) {
        if (str_is(a->names[i], "use_reentrant")) {
            if (!bool_arg(s, a->kw[i], &reentrant))
                return sv_null();
            continue;
        }
        if (str_is(a->names[i], "context_fn") || str_is(a->names[i], "early_stop") || str_is(a->names[i], "debug"))
            return script_leave(s, "checkpoint(%s=)", str_text(a->names[i], NULL));
        if (str_is(a->names[i], "preserve_rng_state") || str_is(a->names[i], "determinism_check"))
            continue;
        g->names[g->n_kw] = sv_keep(a->names[i]);
        g->kw[g->n_kw++] = sv_keep(a->kw[i]);
    }
    if (reentrant && g->n_kw)
        return script_raise(s, EXC_ValueError, "Unexpected keyword arguments: %s", str_text(g->names[0], NULL));
    checkpoint_releases(r, forget);
    checkpoint_returns(r, forget_results);
    g->reentrant = reentrant;
    g->first = others;
    out = checkpoint(r, reentrant, NULL, run_again, g, (int)g->n_args, args, 0, NULL);
    g->first = NULL;
    checkpoint_returns(r, NULL); /* where no region was made */
    if (script_failed(s)) {
        consume(r, out);
        drop_results(s, others);
        return sv_null();
    }
    return results_of(s, r, g->n_results, out, others);
}

/* ------------------------------------------------------------------------------------------------------------ switches */
static sv set_grad_enabled(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    struct run *r = n->run ? n->run : &n->host;
    bool was = r->grad_enabled, on = was;

    if (!bool_arg(s, a->v[0], &on))
        return sv_null();
    if (on != was)
        calls_unheard(r);
    r->grad_enabled = on;
    return sv_bool(was);
}

/* _set_autocast(enabled) -> what it was */
static sv set_autocast(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    bool was = n->run && n->run->autocast, on = was;

    if (!bool_arg(s, a->v[0], &on))
        return sv_null();
    if (on && !was && n->run && !n->run->autocast_depth)
        return script_leave(s, "autocast that the model itself begins");
    if (n->run && on != was)
        calls_unheard(n->run);
    if (n->run)
        n->run->autocast = on;
    return sv_bool(was);
}

/* enter_autocast(dtype), leave_autocast(): a context of its own, which backward of an autograd.Function opens */
static sv enter_autocast(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    enum dtype dtype = DTYPE_COUNT;

    if (!dtype_arg(s, a->v[0], &dtype))
        return sv_null();
    if (n->run)
        calls_unheard(n->run), autocast_enter(n->run, dtype);
    return sv_none();
}

static sv leave_autocast(struct script *s, const struct script_args *a)
{
    struct natives *n = natives_of(s);

    (void)a;
    if (n->run)
        calls_unheard(n->run), autocast_leave(n->run);
    return sv_none();
}

/* use_reentrant=None is True in every release so far */
static const struct script_native checkpoint_functions[] = {{"checkpoint", regions_checkpoint, NULL, 1, NATIVE_PLAIN},
                                                            {"checkpoint_kept", regions_checkpoint, NULL, 0, NATIVE_PLAIN},
                                                            {"checkpoint_reentrant", regions_checkpoint, NULL, 1, NATIVE_PLAIN},
                                                            {0}};
const struct script_module checkpoint_module = {.name = "torch.utils.checkpoint", .functions = checkpoint_functions};

/* mapped(x): x, told so */
static sv set_mapped(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "vmap");

    if (!t)
        return sv_null();
    t->mapped = true;
    return sv_keep(a->v[0]);
}

/* A row of quirks.def of the request's stack */
static sv of_release(struct script *s, const struct script_args *a)
{
    int value;

    memcpy(&value, (const char *)natives_of(s)->host.q + a->def->data, sizeof value);
    return sv_bool(value);
}

static sv attention_is_safe(struct script *s, const struct script_args *a)
{
    (void)a;
    return sv_bool(natives_of(s)->host.q->sdpa_math_is_safe);
}

/* float_mask(mask, like) of a mask of bool */
static sv float_mask_of(struct script *s, const struct script_args *a)
{
    struct tensor *mask = need_tensor(s, a->v[0], "a mask"), *like = mask ? need_beside(s, mask, a->v[1], "a mask") : NULL;

    return like ? wrap(s, mask->run, float_mask(mask->run, value_in(mask), (enum dtype)shape_of(like)->dtype)) : sv_null();
}

/* flash_attention(query, key, value, dropout_p, is_causal): that kernel, whichever would be chosen */
static sv flash_alone(struct script *s, const struct script_args *a)
{
    struct tensor *t[3] = {0};
    double p = 0;
    bool causal = false;

    for (int i = 0; i < 3; i++) {
        if (!(t[i] = i ? need_beside(s, t[0], a->v[i], a->def->name) : need_tensor(s, a->v[0], a->def->name)))
            return sv_null();
        if (shape_of(t[i])->ndim != 4)
            return script_raise(s, EXC_RuntimeError, "%s() takes [batch, heads, tokens, width]", a->def->name);
    }
    if (!float_arg(s, a->v[3], &p) || !bool_arg(s, a->v[4], &causal))
        return sv_null();
    return wrap(s, t[0]->run, flash_attention(t[0]->run, value_in(t[0]), value_in(t[1]), value_in(t[2]), p, causal));
}

/* alike(dtype, *tensors): what an operator that goes over them element by element makes, and no node */
static sv made_alike(struct script *s, const struct script_args *a)
{
    enum { TENSORS = 3 };
    struct tensor *t[TENSORS];
    val in[TENSORS], out;
    enum dtype dtype;

    if (!a->n_rest || a->n_rest > TENSORS)
        return script_leave(s, "an operator of more than %d tensors", TENSORS);
    for (uint32_t i = 0; i < a->n_rest; i++) {
        if (!(t[i] = i ? need_beside(s, t[0], a->rest[i], "alike") : need_tensor(s, a->rest[0], "alike")))
            return sv_null();
        in[i] = value_in(t[i]);
    }
    dtype = (enum dtype)shape_of(t[0])->dtype;
    for (uint32_t i = 1; i < a->n_rest; i++)
        if (promoted(t[0]->run, in[0], in[i]) > dtype)
            dtype = promoted(t[0]->run, in[0], in[i]);
    if (!dtype_arg(s, a->v[0], &dtype))
        return sv_null();
    out = pointwise(t[0]->run, OP_EMPTY, dtype, (int)a->n_rest, in);
    return wrap(s, t[0]->run, out);
}

/* strided(x, sizes, strides): a view without a node, as wide as its storage */
static sv made_strided(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "strided");
    int64_t size[MAX_DIMS], stride[MAX_DIMS];
    int nd = t ? new_sizes_arg(s, 1, &a->v[1], size) : -1;

    if (nd < 0 || sizes_arg(s, 1, &a->v[2], stride) != nd)
        return script_failed(s) ? sv_null() : script_leave(s, "a view of other strides than sizes");
    return wrap(s, t->run, as_strided(t->run, value_in(t), nd, size, stride));
}

static sv take_cublas_workspace(struct script *s, const struct script_args *a)
{
    (void)a;
    if (natives_of(s)->run)
        cublas_workspace(natives_of(s)->run, OP_BMM);
    return sv_none();
}

/* mm(a, b, out=), addmm(out, a, b, out=): nothing is born but cuBLAS's workspace */
static sv f_product_into(struct script *s, const struct script_args *a)
{
    struct tensor *out = need_tensor(s, a->v[0], "out"), *x = out ? need_beside(s, out, a->v[1], "mat1") : NULL,
                  *y = x ? need_beside(s, out, a->v[2], "mat2") : NULL;

    if (!y)
        return sv_null();
    if (shape_of(out)->requires_grad || shape_of(x)->ndim != 2 || shape_of(y)->ndim != 2)
        return script_leave(s, "a product written into a tensor that wants a gradient, or but of matrices");
    mm_into(out->run, a->def->data ? OP_ADDMM : OP_MM, value_in(out), value_in(x), value_in(y));
    return run_dead(out->run) ? run_failed(s, out->run) : sv_keep(a->v[0]);
}

static sv device_capability(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    unsigned known = n->capability; /* before the run's own, which may be another's for the sake of its attention */

    (void)a;
    if (!known)
        known = n->run ? 10 * n->run->device.cc_major + n->run->device.cc_minor : 80;
    return tuple_new(s, 2, (sv[]){sv_int(known / 10), sv_int(known % 10)});
}

/* How many elements of a mask are not zero, where it is known. */
static sv count_ones(struct script *s, const struct script_args *a)
{
    const struct tensor *t = need_tensor(s, a->v[0], "a mask");
    int64_t n = t ? true_count(t) : 0;

    if (!t)
        return sv_null();
    return n < 0 ? script_leave(s, "elements that a mask chooses are set: how many is data") : sv_int(n);
}

#define OF_RELEASE(name, row) {name, of_release, "", (uint32_t)offsetof(struct quirks, row), NATIVE_PLAIN}
static const struct script_native switch_functions[] = {{"cublas_workspace", take_cublas_workspace, "", 0, NATIVE_PLAIN},
                                                        {"true_count", count_ones, "mask", 0, NATIVE_PLAIN},
                                                        {"mm_into", f_product_into, "out, mat1, mat2, /", 0, NATIVE_PLAIN},
                                                        {"addmm_into", f_product_into, "out, mat1, mat2, /", 1, NATIVE_PLAIN},
                                                        {"device_capability", device_capability, "", 0, NATIVE_PLAIN},
                                                        OF_RELEASE("emulates_bf16", emulates_bf16),
                                                        OF_RELEASE("einsum_swaps", einsum_swaps_operands),
                                                        OF_RELEASE("compares_first", extreme_compares_first),
                                                        OF_RELEASE("rms_norm_widens", rms_norm_widens),
                                                        OF_RELEASE("rms_norm_weighs_wide", rms_norm_weighs_wide),
                                                        OF_RELEASE("group_norm_wide_means", group_norm_wide_means),
                                                        OF_RELEASE("group_norm_lays_within", group_norm_lays_within),
                                                        OF_RELEASE("finds_output_embeddings", finds_output_embeddings),
                                                        {"float_mask", float_mask_of, "mask, like", 0, NATIVE_PLAIN},
                                                        {"attention_is_safe", attention_is_safe, "", 0, NATIVE_PLAIN},
                                                        {"flash_attention", flash_alone, "query, key, value, dropout_p, is_causal", 0, NATIVE_PLAIN},
                                                        {"strided", made_strided, "x, sizes, strides", 0, NATIVE_PLAIN},
                                                        {"alike", made_alike, "dtype, *rest", 0, NATIVE_PLAIN},
                                                        {"mapped", set_mapped, "x", 0, NATIVE_PLAIN},
                                                        {"set_grad_enabled", set_grad_enabled, "on", 0, NATIVE_PLAIN},
                                                        {"set_autocast", set_autocast, "on", 0, NATIVE_PLAIN},
                                                        {"enter_autocast", enter_autocast, "dtype", 0, NATIVE_PLAIN},
                                                        {"leave_autocast", leave_autocast, "", 0, NATIVE_PLAIN},
                                                        {0}};
const struct script_module switches_module = {.name = "torch._switches", .functions = switch_functions};
