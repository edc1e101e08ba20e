/* Exceptions and what holds frames for them; the ends of a script. */
#include "script/object.h"

#include "base/budget.h"

#include <stdarg.h>
#include <stdio.h>

sv exc_new(struct script *s, struct cls *c, sv args)
{
    sv v = instance_new(s, c);

    if (sv_ok(v))
        AS(exc, v)->args = sv_keep(args);
    return v;
}

static bool is_exc(sv v)
{
    return sv_is(v, KIND_INSTANCE) && v.o->cls->flags & CLS_EXCEPTION;
}

/* It is raised: what is being handled becomes its context (_PyErr_SetObject), never in a circle. */
void exc_set(struct script *s, sv exc)
{
    struct exc *e = AS(exc, exc);
    sv old = s->exc;

    if (sv_ok(s->handled) && s->handled.o != exc.o) {
        sv before = e->context, at = s->handled;

        stirs(s, e);
        for (int i = 0; i < 1000 && is_exc(at); i++) {
            sv next = AS(exc, at)->context;

            if (sv_ok(next) && next.o == exc.o) {
                stirs(s, at.o);
                AS(exc, at)->context = sv_null();
                sv_drop(s, next);
                break;
            }
            at = next;
        }
        e->context = sv_keep(s->handled);
        sv_drop(s, before);
    }
    s->exc = exc;
    sv_drop(s, old);
}

sv script_raise(struct script *s, enum script_exc what, const char *fmt, ...)
{
    char text[512];
    va_list list;
    sv message, args, exc;
    int n;

    if (s->over)
        return sv_null();
    va_start(list, fmt);
    n = vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    message = str_new(s, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    if (!sv_ok(message))
        return message;
    args = tuple_take(s, 1, &message);
    if (!sv_ok(args))
        return args;
    exc = exc_new(s, s->w->exceptions[what], args);
    sv_drop(s, args);
    if (sv_ok(exc))
        exc_set(s, exc);
    return sv_null();
}

bool exc_raise_value(struct script *s, sv what, sv cause)
{
    sv exc, because = sv_null();

    if (sv_as_class(what) && sv_as_class(what)->flags & CLS_EXCEPTION)
        exc = script_call(s, what, 0, NULL);
    else
        exc = sv_keep(what);
    if (!sv_ok(exc))
        return false;
    if (!is_exc(exc)) {
        sv_drop(s, exc);
        (void)script_raise(s, EXC_TypeError, "exceptions must derive from BaseException");
        return false;
    }
    if (sv_ok(cause)) {
        sv old = AS(exc, exc)->cause;

        because = sv_as_class(cause) ? script_call(s, cause, 0, NULL) : sv_keep(cause);
        if (sv_ok(because) && !is_exc(because) && because.tag != SV_NONE) {
            sv_drop(s, because);
            because = script_raise(s, EXC_TypeError, "exception causes must derive from BaseException");
        }
        if (!sv_ok(because)) {
            sv_drop(s, exc);
            return false;
        }
        stirs(s, exc.o);
        AS(exc, exc)->cause = because;
        AS(exc, exc)->suppress = true;
        sv_drop(s, old);
    }
    exc_set(s, exc);
    return true;
}

int exc_matches(struct script *s, sv exc, sv type)
{
    uint32_t n;
    const sv *items;

    if (sv_as_class(type) && sv_as_class(type)->flags & CLS_EXCEPTION)
        return cls_derives(class_of(s, exc), sv_as_class(type));
    items = as_tuple(type) ? seq_items(type, &n) : NULL;
    for (uint32_t i = 0; items && i < n; i++) {
        int yes = !script_charge(s, i % 4 == 3) ? -1 : sv_as_class(items[i]) ? exc_matches(s, exc, items[i]) : -1;

        if (yes > 0)
            return 1;
        if (yes < 0)
            items = NULL;
    }
    if (!items) {
        if (s->over)
            return -1;
        (void)script_raise(s, EXC_TypeError, "catching classes that do not inherit from BaseException is not allowed");
        return -1;
    }
    return 0;
}

/* ---- tracebacks */

static struct frame_obj *frame_obj(struct script *s, struct frame *f)
{
    struct frame_obj *o = f->obj;

    if (o)
        return o;
    o = obj_new(s, sizeof *o, KIND_FRAME);
    if (!o)
        return NULL;
    o->frame = f;
    o->func = o->back = sv_null();
    o->n = 0;
    o->locals = NULL;
    f->obj = o;
    return o;
}

void trace_add(struct script *s, struct frame *f)
{
    struct exc *e = AS(exc, s->exc);
    struct frame_obj *o = frame_obj(s, f);
    struct trace *t = o ? obj_new(s, sizeof *t, KIND_TRACE) : NULL;

    if (!t)
        return;
    stirs(s, e);
    o->h.refs++;
    t->frame = sv_counted(o);
    t->next = e->trace;
    t->line = frame_line(f);
    t->code = f->code;
    e->trace = sv_counted(t);
    if (f->back) /* its frame object links to those of its callers */
        (void)frame_obj(s, f->back);
}

void frame_obj_die(struct script *s, struct frame_obj *o)
{
    if (o->frame)
        o->frame->obj = NULL;
    sv_drop(s, o->func);
    for (uint32_t i = 0; i < o->n; i++)
        sv_drop(s, o->locals[i]);
    if (o->n)
        heap_give(s, o->locals, o->n * sizeof(sv));
    sv_drop(s, o->back);
}

/* ---- asked from outside */

bool script_failed(const struct script *s)
{
    return s->over || sv_ok(s->exc);
}

bool script_over(const struct script *s)
{
    return s->over;
}

bool script_caught(struct script *s, enum script_exc what)
{
    return !s->over && sv_ok(s->exc) && cls_derives(s->exc.o->cls, s->w->exceptions[what]);
}

void script_forgive(struct script *s)
{
    sv e = s->exc;

    s->exc = sv_null();
    sv_drop(s, e);
}

const char *script_where(const struct script *s, const char **ret_path, uint32_t *ret_line)
{
    if (!s->frame)
        return NULL;
    if (ret_path)
        *ret_path = s->frame->code->path;
    if (ret_line)
        *ret_line = frame_line(s->frame);
    return s->frame->code->qualname->text;
}

/* Where something ended: the innermost file, and the innermost that came with the request, whose paths are names without a folder. */
struct place {
    const char *inner, *own;
    uint32_t inner_line, own_line;
};

static void place_add(struct place *p, const char *path, uint32_t line, bool inwards)
{
    if (!strstr(path, ".py")) /* the language's own modules have names, no paths */
        return;
    if (!p->inner || inwards) {
        p->inner = path;
        p->inner_line = line;
    }
    if (!strchr(path, '/') && (!p->own || inwards)) {
        p->own = path;
        p->own_line = line;
    }
}

static enum err_code place_tell(const struct place *p, enum err_code code, const char *what, struct err *err)
{
    char text[256];

    if (!p->inner)
        return err_in_file(err, code, "", 0, what);
    if (!p->own || p->own == p->inner)
        return err_in_file(err, code, p->inner, p->inner_line, what);
    (void)snprintf(text, sizeof text, "%.100s (%.80s:%u)", what, p->inner, p->inner_line);
    return err_in_file(err, code, p->own, p->own_line, text);
}

static sv end(struct script *s, enum err_code code, const char *what)
{
    struct place p = {0};

    if (s->over)
        return sv_null();
    s->over = true;
    for (const struct frame *f = s->frame; f; f = f->back)
        place_add(&p, f->code->path, frame_line(f), false);
    (void)place_tell(&p, code, what, &s->end);
    return sv_null();
}

sv script_leave(struct script *s, const char *fmt, ...)
{
    char text[256];
    va_list list;

    va_start(list, fmt);
    (void)vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return end(s, ERR_LEAVES_LANGUAGE, text);
}

/* What no arena could hold is the program's own fault. */
sv script_nomem(struct script *s)
{
    return end(s, s->arena->full ? ERR_NOMEM : ERR_SCRIPT_BUDGET, "the program needs more memory than a request is granted");
}

sv script_fail(struct script *s, const struct err *err)
{
    if (s->over)
        return sv_null();
    s->over = true;
    s->end = *err;
    return sv_null();
}

enum { SLICE = 1 << 12, STEPS_PER_EVENT = 1 };

/* Steps are taken from the request's budget in slices. */
static bool take_slice(struct script *s)
{
    int64_t slice = s->steps_kept < SLICE ? s->steps_kept : SLICE;
    struct err err = {0};

    if (s->steps_kept + s->steps < 0) {
        (void)end(s, ERR_SCRIPT_BUDGET, "the program takes more steps than a request is granted");
        return false;
    }
    if (s->steps + slice < 0)
        slice = -s->steps;
    s->steps_kept -= slice;
    s->steps += slice;
    if (budget_take(s->arena->budget, (uint64_t)slice / STEPS_PER_EVENT, &err))
        (void)script_fail(s, &err);
    return !s->over;
}

bool script_charge(struct script *s, uint64_t steps)
{
    s->steps = steps > (uint64_t)INT64_MAX / 4 ? -INT64_MAX / 4 : s->steps - (int64_t)steps;
    while (s->steps < 0 && !s->over)
        (void)take_slice(s);
    return !s->over && s->steps >= 0;
}

enum err_code script_error(struct script *s, struct err *err)
{
    struct place p = {0};
    struct err mine = {0};
    char what[200];
    sv exc = s->exc, text;

    if (s->over) {
        if (err)
            *err = s->end;
        return s->end.code;
    }
    if (!sv_ok(exc))
        return ERR_OK;
    if (s->arena->full) /* whatever it was taken for on the way up */
        return err_set(err ? err : &mine, ERR_NOMEM, "", "the working memory of one request is too small for the model's program");
    s->exc = sv_null();
    text = script_str(s, exc);
    script_forgive(s);
    for (sv t = AS(exc, exc)->trace; sv_is(t, KIND_TRACE); t = AS(trace, t)->next)
        place_add(&p, AS(trace, t)->code->path, AS(trace, t)->line, true);
    (void)snprintf(what, sizeof what, "%.50s%s%.140s", exc.o->cls->name->text, sv_ok(text) && AS(str, text)->bytes ? ": " : "",
                   sv_ok(text) ? AS(str, text)->text : "");
    (void)place_tell(&p, ERR_SCRIPT_RAISED, what, &mine);
    sv_drop(s, text);
    s->exc = exc;
    if (err)
        *err = mine;
    return mine.code;
}
