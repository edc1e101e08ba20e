/* Frames: how they unwind, end, and run the body of a module or class. */
#include "script/vm.h"

bool vm_unwind(struct script *s, struct frame *f)
{
    const struct code *c = f->code;
    uint32_t at = (uint32_t)(f->pc - c->ops);
    sv *bottom = f->locals + c->n_all;
    const struct handler *h = NULL;
    sv v;

    for (uint32_t i = 0; i < c->n_handlers; i++)
        if (c->handlers[i].from <= at && at < c->handlers[i].to) {
            h = &c->handlers[i];
            break;
        }
    while (f->sp > bottom + (h ? h->depth : 0)) {
        v = *--f->sp;
        sv_drop(s, v);
    }
    if (!h)
        return false;
    *f->sp++ = s->exc;
    s->exc = sv_null();
    f->pc = c->ops + h->target;
    return true;
}

uint32_t frame_line(const struct frame *f)
{
    ptrdiff_t at = f->pc - f->code->ops;

    return at >= 0 && at < (ptrdiff_t)f->code->n_ops ? f->code->lines[at] : f->code->line;
}

void frame_give(struct script *s, struct frame *f)
{
    heap_give(s, f, sizeof *f);
}

/* The locals die in their order, then the function; a traceback that holds the frame takes them over instead. */
void frame_end(struct script *s, struct frame *f)
{
    struct frame_obj *o = f->obj;
    uint32_t n = f->code->n_all;
    struct gen *g = f->of_gen ? f->gen : NULL;

    if (s->frame == f)
        s->frame = f->back;
    s->depth--;
    f->obj = NULL;
    if (o && o->h.refs > 1 && n) {
        sv *kept = heap_take(s, n * sizeof(sv));

        if (kept) {
            memcpy(kept, f->locals, n * sizeof(sv));
            o->locals = kept;
            o->n = n;
            if (f->func)
                o->func = sv_counted(f->func);
            f->func = NULL;
            n = 0;
            if (f->back && f->back->obj) {
                f->back->obj->h.refs++;
                o->back = sv_counted(f->back->obj);
            }
        }
    }
    if (o) {
        o->frame = NULL;
        sv_drop(s, sv_counted(o));
    }
    for (uint32_t i = 0; i < n; i++)
        sv_drop(s, f->locals[i]);
    if (f->owned_names)
        sv_drop(s, sv_counted(f->names));
    if (f->func)
        sv_drop(s, sv_counted(f->func));
    if (g) {
        g->state = GEN_DONE;
        g->frame = NULL;
        heap_give(s, f->locals, ((size_t)f->code->n_all + f->code->stack) * sizeof(sv));
    }
    frame_give(s, f);
}

/* The body of a module or a class. */
sv run_body(struct script *s, const struct code *code, struct module *m, struct dict *names, sv closure)
{
    struct run_code *run = run_code_of(s, code);
    struct frame *f;
    sv *base = s->sp, r, g;

    if (!run || !enter(s))
        return sv_null();
    g = sv_ok(closure) ? sv_keep(closure) : sv_null();
    f = frame_push(s, code);
    if (!f) {
        leave(s);
        return sv_null();
    }
    f->module = m;
    f->run = run;
    f->names = names;
    f->func = sv_ok(g) ? AS(func, g) : NULL;
    for (uint32_t i = 0; i < code->n_all; i++)
        f->locals[i] = sv_null();
    r = vm_run(s, f);
    s->sp = base;
    leave(s);
    return r;
}
