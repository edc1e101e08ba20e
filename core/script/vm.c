/* The machine's loop. Who lets go of what, and when, is CPython 3.11's Python/ceval.c. */
#include "script/vm.h"
#include "script/vm_fast.h"

#if defined(__GNUC__) && !defined(SCRIPT_SWITCH)
#define THREADED 1
#endif

#define PUSH(v) (*sp++ = (v))
#define POP()   (*--sp)
#define TOP     sp[-1]
#define SECOND  sp[-2]
#define DROP(v) sv_drop(s, (v))

#ifdef SCRIPT_COUNT
#define COUNT s->n_ops++
#else
#define COUNT (void)0
#endif

#ifdef THREADED
#define TARGET(name) L_##name:
#define NEXT                       \
    do {                           \
        uint32_t word_ = *pc;      \
        f->pc = pc++;              \
        arg = word_ >> 8;          \
        COUNT;                     \
        goto *jumps[word_ & 0xFF]; \
    } while (0)
#else
#define TARGET(name) case OPC_##name:
#define NEXT         goto dispatch
#endif

/* What an operation ends with: its result, unless an exception is set. */
#define GIVE(v)         \
    do {                \
        if (!sv_ok(v))  \
            goto error; \
        PUSH(v);        \
        NEXT;           \
    } while (0)
#define NEXT_IF(ok)     \
    do {                \
        if (!(ok))      \
            goto error; \
        NEXT;           \
    } while (0)

#define TO(target) (pc = code->ops + (target))
/* A turn of a loop costs by what it runs over. */
#define TO_BACK(target)                                                                 \
    do {                                                                                \
        const uint32_t *to_ = code->ops + (target);                                     \
        if ((s->steps -= 1 + ((pc - to_) >> OPS_PER_STEP)) < 0 && !script_charge(s, 0)) \
            goto error;                                                                 \
        pc = to_;                                                                       \
    } while (0)

/* The registers of the frame that runs. */
#define LOAD_FRAME              \
    do {                        \
        code = f->code;         \
        pc = f->pc;             \
        sp = f->sp;             \
        locals = f->locals;     \
        caches = f->run->cache; \
        s->frame = f;           \
        s->sp = f->limit;       \
    } while (0)

/*
 * A frame for a function of the language whose arguments lie on top of the caller's stack: they become its locals where they lie, or
 * are bound to them. Takes the function and the arguments, whatever comes of it. A generator is no frame: *made.
 */
static struct frame *enter_function(struct script *s, struct func *g, sv *argv, uint32_t n, uint32_t n_kw, const sv *names, sv *made)
{
    const struct code *code = g->code;
    sv *limit = s->sp;
    struct frame *f;
    bool direct = code->flags & CODE_SIMPLE && !n_kw && n <= code->n_args && !s->frame->of_gen;

    *made = sv_null();
    if (direct)
        s->sp = argv;
    f = frame_push(s, code);
    s->sp = limit;
    if (!f) {
        for (uint32_t i = 0; i < n + n_kw; i++)
            DROP(argv[i]);
        DROP(sv_counted(g));
        return NULL;
    }
    f->func = g;
    f->module = g->module;
    f->run = g->run;
    if (direct) {
        if (!defaults_fill(g, n, f->locals)) {
            (void)script_raise(s, EXC_TypeError, "%.100s() missing 1 required positional argument: '%.100s'", as_str(g->qualname)->text,
                               code->vars[n]->text);
            for (uint32_t k = n; k < code->n_all; k++)
                f->locals[k] = sv_null();
            s->sp = f->limit;
            frame_end(s, f);
            s->sp = limit;
            return NULL;
        }
    } else {
        bool ok;

        s->sp = f->limit;
        ok = bind_args(s, g, f->locals, argv, n, n_kw, names, true);
        if (!ok) {
            frame_end(s, f);
            s->sp = limit;
            return NULL;
        }
        s->sp = limit;
    }
    if (code->flags & CODE_GENERATOR) {
        *made = gen_new(s, f);
        return NULL;
    }
    return f;
}

sv vm_run(struct script *s, struct frame *f)
{
#ifdef THREADED
    static const void *const jumps[] = {
#define OPCODE(name, effect) &&L_##name,
#include "script/ops.def"
#undef OPCODE
    };
#endif
    const struct code *code;
    const uint32_t *pc;
    struct cache *caches;
    sv *sp, *locals, a, b, r;
    uint32_t arg, n, n_kw;
    const sv *names;
    sv *argv;
    struct frame *g;
    bool yes;

    f->entry = true;
    LOAD_FRAME;
    if (sv_ok(s->exc)) /* thrown into a generator */
        goto error;
    NEXT;

#ifndef THREADED
dispatch:
    arg = *pc >> 8;
    f->pc = pc;
    COUNT;
    switch (*pc++ & 0xFF) {
#endif
#include "script/vm_names.inc"
#include "script/vm_values.inc"
#include "script/vm_flow.inc"
#include "script/vm_blocks.inc"
#ifndef THREADED
    default:
        goto error;
    }
#endif

call: /* a: the function, argv[0..n) and n_kw more by name; sp: where the result goes. All of it is on the stack, and taken */
    if (sv_is(a, KIND_METHOD) && sv_is(AS(method, a)->function, KIND_FUNC)) {
        /* its parts in its place: a bound method dies before what it binds is called */
        struct method *m = AS(method, a);
        sv self = sv_keep(m->self), function = sv_keep(m->function);

        DROP(a);
        a = function;
        *--argv = self;
        n++;
    }
    if (sv_is(a, KIND_FUNC)) {
        f->sp = sp;
        g = enter_function(s, AS(func, a), argv, n, n_kw, names, &r);
        if (g) {
            f = g;
            LOAD_FRAME;
            NEXT;
        }
        if (!sv_ok(r))
            goto error;
        PUSH(r);
        NEXT;
    }
    if (sv_is(a, KIND_NATIVE))
        r = call_native(s, AS(native, a), sv_null(), argv, n, n_kw, names);
    else
        r = sv_call(s, a, argv, n, n_kw, names);
    DROP(a);
    for (uint32_t i = 0; i < n + n_kw; i++)
        DROP(argv[i]);
    if (!sv_ok(r))
        goto error;
    PUSH(r);
    NEXT;

unbound:
    (void)vm_unbound(s, f, arg);
error:
    if (!s->over && !sv_ok(s->exc))
        (void)script_raise(s, EXC_RuntimeError, "an error without an exception");
    if (!s->over)
        trace_add(s, f);
unwind:
    if (s->over) {
        while (!f->entry)
            f = f->back;
        s->frame = f->back;
        return sv_null();
    }
    f->sp = sp;
    if (vm_unwind(s, f)) {
        LOAD_FRAME;
        NEXT;
    }
    g = f->back;
    yes = f->entry;
    frame_end(s, f);
    if (yes)
        return sv_null();
    f = g;
    LOAD_FRAME;
    pc++;
    goto error;
}
