/* Generators: a frame that is left and entered again. */
#include "script/object.h"

/* Takes the frame, whose arguments are bound; its locals move off the stack. */
sv gen_new(struct script *s, struct frame *f)
{
    struct gen *g = obj_new(s, sizeof *g, KIND_GEN);
    size_t bytes = ((size_t)f->code->n_all + f->code->stack) * sizeof(sv);
    sv *own = g ? heap_take(s, bytes) : NULL;

    if (!own)
        return sv_null(); /* the script is over */
    memcpy(own, f->locals, f->code->n_all * sizeof(sv));
    f->locals = own;
    f->sp = own + f->code->n_all;
    f->of_gen = true;
    f->gen = g;
    f->back = NULL;
    g->frame = f;
    g->state = GEN_CREATED;
    g->name = sv_forever(f->code->name);
    g->exc = sv_null();
    s->depth--;
    return sv_counted(g);
}

/* SV_NULL: it raised, or it returned, which is then in *returned. `thrown` (lent) is raised where it stands. */
sv gen_send(struct script *s, struct gen *g, sv value, sv thrown, sv *returned)
{
    struct frame *f = g->frame;
    sv outer, r;

    stirs(s, g);
    *returned = sv_null();
    if (g->state == GEN_RUNNING)
        return script_raise(s, EXC_ValueError, "generator already executing");
    if (g->state == GEN_DONE) {
        if (sv_ok(thrown))
            exc_set(s, sv_keep(thrown));
        else
            *returned = sv_none();
        return sv_null();
    }
    if (g->state == GEN_CREATED && value.tag != SV_NONE)
        return script_raise(s, EXC_TypeError, "can't send non-None value to a just-started generator");
    if (!script_charge(s, 1) || !enter(s))
        return sv_null();
    if (s->depth >= s->max_depth) {
        leave(s);
        return script_raise(s, EXC_RecursionError, "maximum recursion depth exceeded");
    }
    s->depth++;
    f->back = s->frame;
    f->limit = s->sp;
    if (g->state == GEN_SUSPENDED) {
        if (!sv_ok(thrown))
            *f->sp++ = sv_keep(value);
    }
    g->state = GEN_RUNNING;
    outer = s->handled;
    if (sv_ok(g->exc)) {
        s->handled = g->exc;
        g->exc = sv_null();
    } else
        s->handled = sv_keep(outer);
    if (sv_ok(thrown))
        exc_set(s, sv_keep(thrown));
    sv_keep(sv_counted(g));
    r = vm_run(s, f);
    leave(s);
    if (g->state == GEN_SUSPENDED && sv_ok(s->handled) && !(sv_ok(outer) && outer.o == s->handled.o))
        g->exc = s->handled;
    else
        sv_drop(s, s->handled);
    s->handled = outer;
    if (script_caught(s, EXC_StopIteration)) { /* would end who iterates */
        sv old = s->exc, before = s->handled;

        s->exc = sv_null();
        s->handled = old;
        (void)script_raise(s, EXC_RuntimeError, "generator raised StopIteration");
        s->handled = before;
        sv_drop(s, old);
    }
    if (!s->over && g->state != GEN_SUSPENDED && sv_ok(r)) {
        *returned = r;
        r = sv_null();
    }
    sv_drop(s, sv_counted(g));
    return r;
}

sv gen_close(struct script *s, struct gen *g)
{
    sv exc, r, returned;

    stirs(s, g);
    if (g->state == GEN_CREATED) {
        s->depth++;
        frame_end(s, g->frame);
        return sv_none();
    }
    if (g->state == GEN_DONE)
        return sv_none();
    exc = exc_new(s, s->w->exceptions[EXC_GeneratorExit], sv_forever(s->w->empty));
    if (!sv_ok(exc))
        return exc;
    r = gen_send(s, g, sv_none(), exc, &returned);
    sv_drop(s, exc);
    if (sv_ok(r)) {
        sv_drop(s, r);
        return script_raise(s, EXC_RuntimeError, "generator ignored GeneratorExit");
    }
    sv_drop(s, returned);
    if (script_caught(s, EXC_GeneratorExit) || script_caught(s, EXC_StopIteration))
        script_forgive(s);
    return script_failed(s) ? sv_null() : sv_none();
}

/* Nobody holds it any more. */
void gen_die(struct script *s, struct gen *g)
{
    sv exc = s->exc;

    if (g->state == GEN_SUSPENDED || g->state == GEN_CREATED) {
        s->exc = sv_null();
        g->h.refs = 1;
        (void)gen_close(s, g);
        script_forgive(s);
        g->h.refs = 0;
        s->exc = exc;
    }
    sv_drop(s, g->exc);
}

/* ---- its methods */

static sv stop(struct script *s, sv value)
{
    sv args = value.tag == SV_NONE ? sv_forever(s->w->empty) : tuple_new(s, 1, &value), exc;

    sv_drop(s, value);
    exc = sv_ok(args) ? exc_new(s, s->w->exceptions[EXC_StopIteration], args) : args;
    sv_drop(s, args);
    if (sv_ok(exc))
        exc_set(s, exc);
    return sv_null();
}

static sv send(struct script *s, struct gen *g, sv value, sv thrown)
{
    sv returned, r = gen_send(s, g, value, thrown, &returned);

    return sv_ok(r) || !sv_ok(returned) ? r : stop(s, returned);
}

static sv gen_send_(struct script *s, const struct script_args *a)
{
    return send(s, AS(gen, a->v[0]), a->v[1], sv_null());
}

static sv gen_next_(struct script *s, const struct script_args *a)
{
    return send(s, AS(gen, a->v[0]), sv_none(), sv_null());
}

static sv gen_throw_(struct script *s, const struct script_args *a)
{
    sv exc = sv_ok(a->v[2]) && a->v[2].tag != SV_NONE ? sv_keep(a->v[2])
             : sv_as_class(a->v[1])                   ? script_call(s, a->v[1], 0, NULL)
                                                      : sv_keep(a->v[1]);
    sv r;

    if (!sv_ok(exc))
        return exc;
    if (!cls_derives(class_of(s, exc), s->w->exceptions[EXC_BaseException])) {
        sv_drop(s, exc);
        return script_raise(s, EXC_TypeError, "exceptions must be classes or instances deriving from BaseException");
    }
    stirs(s, a->v[0].o);
    if (AS(gen, a->v[0])->state == GEN_CREATED) {
        s->depth++;
        frame_end(s, AS(gen, a->v[0])->frame);
        exc_set(s, exc);
        return sv_null();
    }
    r = send(s, AS(gen, a->v[0]), sv_none(), exc);
    sv_drop(s, exc);
    return r;
}

static sv gen_close_(struct script *s, const struct script_args *a)
{
    return gen_close(s, AS(gen, a->v[0]));
}

static sv gen_iter_(struct script *s, const struct script_args *a)
{
    (void)s;
    return sv_keep(a->v[0]);
}

const struct script_native gen_methods[] = {{"send", gen_send_, "self, value, /", 0, NATIVE_PLAIN},
                                            {"throw", gen_throw_, "self, type, value=, traceback=, /", 0, NATIVE_PLAIN},
                                            {"close", gen_close_, "self, /", 0, NATIVE_PLAIN},
                                            {"__next__", gen_next_, "self, /", 0, NATIVE_PLAIN},
                                            {"__iter__", gen_iter_, "self, /", 0, NATIVE_PLAIN},
                                            {NULL, NULL, NULL, 0, NATIVE_PLAIN}};
