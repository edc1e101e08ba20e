/* The machine's loop. Who lets go of what, and when, is CPython 3.11's Python/ceval.c. */
#include "script/vm.h"

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

static inline bool truth_fast(sv v, bool *ret)
{
    if (v.tag == SV_BOOL || v.tag == SV_INT) {
        *ret = v.i != 0;
        return true;
    }
    if (v.tag == SV_NONE) {
        *ret = false;
        return true;
    }
    return false;
}

static inline sv binary_fast(enum script_binary op, sv a, sv b)
{
    sv r = {.tag = SV_NULL};

    if (a.tag == SV_INT && b.tag == SV_INT) {
        switch (op) {
        case BINARY_ADD:
            r.tag = __builtin_add_overflow(a.i, b.i, &r.i) ? SV_NULL : SV_INT;
            break;
        case BINARY_SUB:
            r.tag = __builtin_sub_overflow(a.i, b.i, &r.i) ? SV_NULL : SV_INT;
            break;
        case BINARY_MUL:
            r.tag = __builtin_mul_overflow(a.i, b.i, &r.i) ? SV_NULL : SV_INT;
            break;
        case BINARY_FLOORDIV:
            if (b.i > 0 && a.i >= 0)
                r = sv_int(a.i / b.i);
            break;
        case BINARY_MOD:
            if (b.i > 0 && a.i >= 0)
                r = sv_int(a.i % b.i);
            break;
        default:
            break;
        }
    } else if (a.tag == SV_FLOAT && b.tag == SV_FLOAT) {
        if (op == BINARY_ADD)
            r = sv_float(a.f + b.f);
        else if (op == BINARY_SUB)
            r = sv_float(a.f - b.f);
        else if (op == BINARY_MUL)
            r = sv_float(a.f * b.f);
    }
    return r;
}

static inline sv compare_fast(enum script_compare op, sv a, sv b)
{
    bool r;

    switch (op) {
    case COMPARE_LT:
        r = a.i < b.i;
        break;
    case COMPARE_LE:
        r = a.i <= b.i;
        break;
    case COMPARE_EQ:
        r = a.i == b.i;
        break;
    case COMPARE_NE:
        r = a.i != b.i;
        break;
    case COMPARE_GT:
        r = a.i > b.i;
        break;
    default:
        r = a.i >= b.i;
        break;
    }
    return sv_bool(r);
}

static bool same(sv a, sv b)
{
    return sv_is_obj(a) ? sv_is_obj(b) && a.o == b.o : a.tag == b.tag && (a.tag < SV_BOOL || a.tag > SV_FLOAT || a.i == b.i);
}

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
        TARGET(NOP)
        NEXT;
        TARGET(POP_TOP)
        {
            a = POP();
            DROP(a);
            NEXT;
        }
        TARGET(LOAD_CONST)
        {
            PUSH(code->consts[arg]);
            NEXT;
        }
        TARGET(LOAD_FAST)
        {
            a = locals[arg];
            if (!sv_ok(a))
                goto unbound;
            PUSH(sv_keep(a));
            NEXT;
        }
        TARGET(STORE_FAST)
        {
            a = locals[arg];
            locals[arg] = POP();
            DROP(a);
            NEXT;
        }
        TARGET(DELETE_FAST)
        {
            a = locals[arg];
            if (!sv_ok(a))
                goto unbound;
            locals[arg] = sv_null();
            DROP(a);
            NEXT;
        }
        TARGET(LOAD_GLOBAL)
        {
            struct cache *k = &caches[arg];

            if (k->version == f->module->dict->version) {
                PUSH(sv_keep(k->entry->value));
                NEXT;
            }
            r = vm_global(s, k, f->module);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(STORE_GLOBAL)
        {
            a = POP();
            yes = dict_put_name(s, f->module->dict, caches[arg].name, a);
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(DELETE_GLOBAL)
        {
            if (dict_remove(s, f->module->dict, sv_forever(caches[arg].name), NULL) != 1) {
                if (!script_failed(s))
                    (void)script_raise(s, EXC_NameError, "name '%.200s' is not defined", caches[arg].name->text);
                goto error;
            }
            NEXT;
        }
        TARGET(LOAD_NAME)
        {
            r = vm_name(s, f, caches[arg].name);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(STORE_NAME)
        {
            a = POP();
            yes = dict_put_name(s, f->names, caches[arg].name, a);
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(DELETE_NAME)
        {
            if (dict_remove(s, f->names, sv_forever(caches[arg].name), NULL) != 1) {
                if (!script_failed(s))
                    (void)script_raise(s, EXC_NameError, "name '%.200s' is not defined", caches[arg].name->text);
                goto error;
            }
            NEXT;
        }
        TARGET(MAKE_CELL)
        {
            struct cell *c = obj_new(s, sizeof *c, KIND_CELL);

            if (!c)
                goto error;
            c->value = locals[arg];
            locals[arg] = sv_counted(c);
            NEXT;
        }
        TARGET(COPY_FREE)
        {
            const struct tuple *t = AS(tuple, f->func->closure);

            for (uint32_t i = 0; i < t->n; i++)
                locals[arg + i] = sv_keep(t->items[i]);
            NEXT;
        }
        TARGET(LOAD_CLOSURE)
        {
            PUSH(sv_keep(locals[arg]));
            NEXT;
        }
        TARGET(LOAD_DEREF)
        {
            a = AS(cell, locals[arg])->value;
            if (!sv_ok(a))
                goto unbound;
            PUSH(sv_keep(a));
            NEXT;
        }
        TARGET(LOAD_CLASSDEREF)
        {
            const struct entry *e = dict_find_name(f->names, code->vars[arg]);

            a = e ? e->value : AS(cell, locals[arg])->value;
            if (!sv_ok(a))
                goto unbound;
            PUSH(sv_keep(a));
            NEXT;
        }
        TARGET(STORE_DEREF)
        {
            struct cell *c = AS(cell, locals[arg]);

            a = c->value;
            c->value = POP();
            DROP(a);
            NEXT;
        }
        TARGET(DELETE_DEREF)
        {
            struct cell *c = AS(cell, locals[arg]);

            a = c->value;
            if (!sv_ok(a))
                goto unbound;
            c->value = sv_null();
            DROP(a);
            NEXT;
        }
        TARGET(LOAD_ATTR)
        {
            struct cache *k = &caches[arg];

            a = TOP;
            if (sv_is(a, KIND_INSTANCE) && a.o->cls->version == k->version && k->index < a.o->aux) {
                r = ((struct script_object *)(void *)a.o)->slots[k->index];
                if (sv_ok(r)) {
                    TOP = sv_keep(r);
                    DROP(a);
                    NEXT;
                }
            } else if (sv_is(a, KIND_MODULE) && AS(module, a)->dict->version == k->version) {
                TOP = sv_keep(k->entry->value);
                DROP(a);
                NEXT;
            }
            r = vm_attr(s, k, a);
            if (!sv_ok(r))
                goto error;
            TOP = r;
            DROP(a);
            NEXT;
        }
        TARGET(STORE_ATTR)
        {
            b = POP();
            a = POP();
            yes = vm_set_attr(s, &caches[arg], b, a);
            DROP(a);
            DROP(b);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(DELETE_ATTR)
        {
            a = POP();
            yes = attr_set(s, a, caches[arg].name, sv_null());
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(LOAD_METHOD)
        {
            struct cache *k = &caches[arg];

            a = TOP;
            if (sv_is(a, KIND_INSTANCE) && a.o->cls->version == k->version) {
                const struct script_object *o = (struct script_object *)(void *)a.o;

                if (k->index == CACHE_CLASS && !o->dict) {
                    TOP = sv_keep(k->value);
                    PUSH(a);
                    NEXT;
                }
                if (k->index < o->h.aux && sv_ok(o->slots[k->index])) {
                    TOP = sv_null();
                    PUSH(sv_keep(o->slots[k->index]));
                    DROP(a);
                    NEXT;
                }
            } else if (sv_is(a, KIND_MODULE) && AS(module, a)->dict->version == k->version) {
                TOP = sv_null();
                PUSH(sv_keep(k->entry->value));
                DROP(a);
                NEXT;
            }
            if (!vm_method(s, k, sp - 1))
                goto error;
            sp++;
            NEXT;
        }
        TARGET(CALL)
        {
            n = arg;
            n_kw = 0;
            names = NULL;
            argv = sp - n;
            sp = argv - 1;
            a = *sp;
            goto call;
        }
        TARGET(CALL_KW)
        {
            n = arg & 0xFF;
            a = code->consts[arg >> 8];
            names = AS(tuple, a)->items;
            n_kw = AS(tuple, a)->n;
            argv = sp - n;
            n -= n_kw;
            sp = argv - 1;
            a = *sp;
            goto call;
        }
        TARGET(CALL_METHOD)
        {
            n = arg;
            n_kw = 0;
            names = NULL;
call_method:
            argv = sp - n - n_kw;
            sp = argv - 2;
            a = *sp;
            if (sv_ok(a)) { /* the function; self goes first */
                argv--;
                n++;
            } else
                a = sp[1];
            goto call;
        }
        TARGET(CALL_METHOD_KW)
        {
            a = code->consts[arg >> 8];
            names = AS(tuple, a)->items;
            n_kw = AS(tuple, a)->n;
            n = (arg & 0xFF) - n_kw;
            goto call_method;
        }
        TARGET(CALL_DECORATOR)
        {
            n = 1;
            n_kw = 0;
            names = NULL;
            argv = sp - 1;
            sp = argv - 1;
            a = *sp;
            goto call;
        }
        TARGET(CALL_EX)
        {
            b = arg ? POP() : sv_null();
            r = vm_call_ex(s, SECOND, &TOP, b);
            sp -= 2;
            DROP(sp[0]);
            DROP(sp[1]);
            DROP(b);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(BINARY)
        {
            b = sp[-1];
            a = sp[-2];
            r = binary_fast((enum script_binary)arg, a, b);
            if (sv_ok(r)) {
                sp--;
                TOP = r;
                NEXT;
            }
            r = script_binary(s, (enum script_binary)arg, a, b, false);
            sp -= 2;
            DROP(a);
            DROP(b);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(INPLACE)
        {
            b = sp[-1];
            a = sp[-2];
            r = binary_fast((enum script_binary)arg, a, b);
            if (!sv_ok(r))
                r = script_binary(s, (enum script_binary)arg, a, b, true);
            sp -= 2;
            DROP(a);
            DROP(b);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(UNARY)
        {
            a = TOP;
            r = script_unary(s, (enum script_unary)arg, a);
            sp--;
            DROP(a);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(NOT)
        {
            int truth;

            a = TOP;
            truth = script_truth(s, a);
            sp--;
            DROP(a);
            if (truth < 0)
                goto error;
            PUSH(sv_bool(!truth));
            NEXT;
        }
        TARGET(COMPARE)
        {
            b = sp[-1];
            a = sp[-2];
            if (a.tag == SV_INT && b.tag == SV_INT) {
                sp--;
                TOP = compare_fast((enum script_compare)arg, a, b);
                NEXT;
            }
            r = script_compare(s, (enum script_compare)arg, a, b);
            sp -= 2;
            DROP(a);
            DROP(b);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(IS)
        {
            b = POP();
            a = TOP;
            TOP = sv_bool(same(a, b) != (bool)arg);
            DROP(a);
            DROP(b);
            NEXT;
        }
        TARGET(CONTAINS)
        {
            int in;

            b = sp[-1];
            a = sp[-2];
            in = script_contains(s, b, a);
            sp -= 2;
            DROP(a);
            DROP(b);
            if (in < 0)
                goto error;
            PUSH(sv_bool(in != (int)arg));
            NEXT;
        }
        TARGET(SUBSCR)
        {
            b = sp[-1];
            a = sp[-2];
            r = script_getitem(s, a, b);
            sp -= 2;
            DROP(a);
            DROP(b);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(STORE_SUBSCR)
        {
            b = sp[-1];
            a = sp[-2];
            r = sp[-3];
            yes = script_setitem(s, a, b, r);
            sp -= 3;
            DROP(r);
            DROP(a);
            DROP(b);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(DELETE_SUBSCR)
        {
            b = sp[-1];
            a = sp[-2];
            yes = script_setitem(s, a, b, sv_null());
            sp -= 2;
            DROP(a);
            DROP(b);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(BUILD_TUPLE)
        {
            sp -= arg;
            r = tuple_take(s, arg, sp);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(BUILD_LIST)
        {
            r = list_new(s, arg, sp - arg);
            if (!sv_ok(r))
                goto error;
            for (; arg; arg--) {
                a = POP();
                DROP(a);
            }
            PUSH(r);
            NEXT;
        }
        TARGET(BUILD_SET)
        {
            r = set_new(s, false);
            yes = sv_ok(r);
            sp -= arg;
            for (uint32_t i = 0; i < arg; i++) {
                yes = yes && dict_put(s, dict_ptr(r), sp[i], sv_none());
                DROP(sp[i]);
            }
            if (!yes) {
                DROP(r);
                goto error;
            }
            PUSH(r);
            NEXT;
        }
        TARGET(BUILD_MAP)
        {
            sp -= 2 * arg;
            r = vm_build_map(s, sp, arg);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(BUILD_CONST_MAP)
        {
            const struct tuple *keys = AS(tuple, TOP);

            sp -= arg + 1;
            r = dict_new(s);
            yes = sv_ok(r) && dict_room(s, dict_ptr(r), arg < 4 ? 4 : arg);
            for (uint32_t i = 0; yes && i < arg; i++)
                yes = dict_put(s, dict_ptr(r), keys->items[i], sp[i]);
            for (uint32_t i = arg; i-- > 0;)
                DROP(sp[i]);
            if (!yes) {
                DROP(r);
                goto error;
            }
            PUSH(r);
            NEXT;
        }
        TARGET(BUILD_STRING)
        {
            sp -= arg;
            r = vm_build_string(s, sp, arg);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(BUILD_SLICE)
        {
            r = arg == 3 ? POP() : sv_none();
            b = POP();
            a = POP();
            r = slice_new(s, a, b, r);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(LIST_APPEND)
        {
            a = POP();
            if (!list_push(s, AS(list, *(sp - arg)), a))
                goto error;
            NEXT;
        }
        TARGET(SET_ADD)
        {
            a = POP();
            yes = dict_put(s, dict_ptr(*(sp - arg)), a, sv_none());
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(MAP_ADD)
        {
            b = POP();
            a = POP();
            yes = dict_put(s, dict_ptr(*(sp - arg)), a, b);
            DROP(a);
            DROP(b);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(LIST_EXTEND)
        {
            a = TOP;
            yes = list_extend(s, AS(list, sp[-1 - (int32_t)arg]), a);
            sp--;
            DROP(a);
            if (!yes) {
                if (script_caught(s, EXC_TypeError) && !sv_is(a, KIND_INSTANCE)) {
                    script_forgive(s);
                    (void)script_raise(s, EXC_TypeError, "Value after * must be an iterable");
                }
                goto error;
            }
            NEXT;
        }
        TARGET(SET_UPDATE)
        {
            a = TOP;
            b = sp[-1 - (int32_t)arg];
            r = set_operate(s, BINARY_OR, b, a, true);
            sp--;
            DROP(a);
            yes = sv_ok(r);
            DROP(r);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(DICT_UPDATE)
        {
            a = TOP;
            yes = dict_merge(s, dict_ptr(sp[-1 - (int32_t)arg]), a, false);
            sp--;
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(DICT_MERGE)
        {
            a = TOP;
            yes = dict_merge(s, dict_ptr(sp[-1 - (int32_t)arg]), a, true);
            sp--;
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(LIST_TO_TUPLE)
        {
            a = TOP;
            r = tuple_new(s, AS(list, a)->n, AS(list, a)->items);
            sp--;
            DROP(a);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(UNPACK)
        {
            a = POP();
            if (sv_is(a, KIND_TUPLE) && AS(tuple, a)->n == arg) {
                for (uint32_t i = arg; i-- > 0;)
                    PUSH(sv_keep(AS(tuple, a)->items[i]));
                yes = true;
            } else {
                yes = vm_unpack(s, a, arg, sp);
                sp += yes ? arg : 0;
            }
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(UNPACK_EX)
        {
            a = POP();
            n = (arg & 0xFF) + 1 + (arg >> 8);
            yes = vm_unpack_ex(s, a, arg & 0xFF, arg >> 8, sp);
            sp += yes ? n : 0;
            DROP(a);
            if (!yes)
                goto error;
            NEXT;
        }
        TARGET(GET_ITER)
        {
            a = TOP;
            if (arg && sv_is(a, KIND_GEN)) /* yield from */
                NEXT;
            r = iter_of(s, a);
            sp--;
            DROP(a);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(FOR_ITER)
        {
            a = TOP;
            if (sv_is(a, KIND_ITER) && a.o->aux <= ITER_RANGE) {
                struct iter *it = AS(iter, a);

                if (a.o->aux == ITER_RANGE && it->step == 1 && it->at < it->stop) {
                    PUSH(sv_int(it->at++));
                    NEXT;
                }
                if (sv_is(it->of, KIND_LIST) && it->at < AS(list, it->of)->n) {
                    PUSH(sv_keep(AS(list, it->of)->items[it->at++]));
                    NEXT;
                }
            }
            r = iter_next(s, a);
            if (sv_ok(r)) {
                PUSH(r);
                NEXT;
            }
            if (sv_ok(s->exc) || s->over)
                goto error;
            sp--;
            TO(arg);
            DROP(a);
            NEXT;
        }
        TARGET(JUMP)
        {
            TO(arg);
            NEXT;
        }
        TARGET(JUMP_BACK)
        {
            TO_BACK(arg);
            NEXT;
        }
        TARGET(POP_JUMP_BACK_IF_FALSE)
        TARGET(POP_JUMP_IF_FALSE)
        {
            a = POP();
            if (!truth_fast(a, &yes)) {
                int truth = script_truth(s, a);

                DROP(a);
                if (truth < 0)
                    goto error;
                yes = truth;
            }
            if (!yes && code->ops + arg < pc)
                TO_BACK(arg);
            else if (!yes)
                TO(arg);
            NEXT;
        }
        TARGET(POP_JUMP_BACK_IF_TRUE)
        TARGET(POP_JUMP_IF_TRUE)
        {
            a = POP();
            if (!truth_fast(a, &yes)) {
                int truth = script_truth(s, a);

                DROP(a);
                if (truth < 0)
                    goto error;
                yes = truth;
            }
            if (yes && code->ops + arg < pc)
                TO_BACK(arg);
            else if (yes)
                TO(arg);
            NEXT;
        }
        TARGET(POP_JUMP_IF_NONE)
        {
            a = POP();
            if (a.tag == SV_NONE) {
                TO(arg);
                NEXT;
            }
            DROP(a);
            NEXT;
        }
        TARGET(POP_JUMP_IF_NOT_NONE)
        {
            a = POP();
            if (a.tag != SV_NONE) {
                TO(arg);
                DROP(a);
            }
            NEXT;
        }
        TARGET(JUMP_IF_FALSE_OR_POP)
        {
            int truth = script_truth(s, TOP);

            if (truth < 0)
                goto error;
            if (!truth) {
                TO(arg);
                NEXT;
            }
            a = POP();
            DROP(a);
            NEXT;
        }
        TARGET(JUMP_IF_TRUE_OR_POP)
        {
            int truth = script_truth(s, TOP);

            if (truth < 0)
                goto error;
            if (truth) {
                TO(arg);
                NEXT;
            }
            a = POP();
            DROP(a);
            NEXT;
        }
        TARGET(RETURN)
        {
            r = POP();
            g = f->back;
            yes = f->entry;
            frame_end(s, f);
            if (yes)
                return r;
            f = g;
            LOAD_FRAME;
            pc++;
            PUSH(r);
            NEXT;
        }
        TARGET(YIELD)
        {
            r = POP();
            f->pc = pc;
            f->sp = sp;
            f->gen->state = GEN_SUSPENDED;
            s->frame = f->back;
            s->depth--;
            return r;
        }
        TARGET(YIELD_FROM)
        {
            sv ended = sv_null();

            b = POP(); /* what was sent */
            a = TOP;
            if (sv_is(a, KIND_GEN)) {
                r = gen_send(s, AS(gen, a), b, sv_null(), &ended);
            } else {
                r = iter_next(s, a);
                ended = sv_none();
            }
            DROP(b);
            if (sv_ok(r)) {
                f->pc = pc - 1; /* once more, with what is sent then */
                f->sp = sp;
                f->gen->state = GEN_SUSPENDED;
                s->frame = f->back;
                s->depth--;
                return r;
            }
            if (sv_ok(s->exc) || s->over)
                goto error;
            TOP = ended;
            DROP(a);
            NEXT;
        }
        TARGET(FORMAT)
        {
            sv spec = arg & 4 ? POP() : sv_null();

            a = TOP;
            if (arg & 3) {
                r = (arg & 3) == 1 ? script_str(s, a) : script_repr(s, a);
                TOP = r;
                DROP(a);
                a = r;
            }
            if (sv_ok(a) && (!sv_is(a, KIND_STR) || sv_ok(spec))) {
                r = format_value(s, a, spec);
                TOP = r;
                DROP(a);
            } else
                r = a;
            DROP(spec);
            if (!sv_ok(r)) {
                sp--;
                goto error;
            }
            NEXT;
        }
        TARGET(IMPORT_NAME)
        {
            r = vm_import(s, f, caches[arg].name, TOP.i);
            if (!sv_ok(r))
                goto error;
            TOP = r;
            NEXT;
        }
        TARGET(IMPORT_FROM)
        {
            r = import_from(s, TOP, caches[arg].name);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(IMPORT_STAR)
        {
            if (!import_star(s, TOP, f->names ? f->names : f->module->dict))
                goto error;
            a = POP();
            DROP(a);
            NEXT;
        }
        TARGET(MAKE_FUNCTION)
        {
            n = 1 + (arg & 1) + (arg >> 1 & 1) + (arg >> 3 & 1);
            sp -= n;
            r = vm_make_function(s, f, sp, arg);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(MAKE_CLASS)
        {
            r = class_statement(s, sp[-4], sp[-3], sp[-2], AS(str, sp[-1]));
            for (n = 0; n < 4; n++) {
                a = POP();
                DROP(a);
            }
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(RAISE)
        {
            if (!arg) {
                if (!sv_ok(s->handled)) {
                    (void)script_raise(s, EXC_RuntimeError, "No active exception to reraise");
                    goto error;
                }
                sv_keep(s->handled);
                s->exc = s->handled;
                goto unwind;
            }
            b = arg == 2 ? POP() : sv_null();
            a = POP();
            (void)exc_raise_value(s, a, b);
            DROP(a);
            DROP(b);
            goto error;
        }
        TARGET(RERAISE)
        {
            s->exc = POP();
            goto unwind;
        }
        TARGET(PUSH_EXC_INFO)
        {
            a = TOP;
            TOP = s->handled;
            PUSH(a);
            s->handled = sv_keep(a);
            NEXT;
        }
        TARGET(POP_EXCEPT)
        {
            a = s->handled;
            s->handled = POP();
            DROP(a);
            NEXT;
        }
        TARGET(CHECK_EXC_MATCH)
        {
            int match;

            a = TOP;
            match = exc_matches(s, SECOND, a);
            if (match < 0)
                goto error;
            TOP = sv_bool(match);
            DROP(a);
            NEXT;
        }
        TARGET(BEFORE_WITH)
        {
            if (!vm_with(s, sp - 1))
                goto error;
            sp++;
            NEXT;
        }
        TARGET(WITH_EXIT)
        {
            sv none[3] = {sv_none(), sv_none(), sv_none()};

            a = TOP;
            r = sv_call(s, a, none, 3, 0, NULL);
            sp--;
            DROP(a);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(WITH_EXCEPT_START)
        {
            /* exit, what was handled before, the exception */
            sv what[3] = {sv_forever(class_of(s, TOP)), TOP, AS(exc, TOP)->trace};

            if (!sv_ok(what[2]))
                what[2] = sv_none();
            sv_keep(what[2]);
            r = sv_call(s, sp[-3], what, 3, 0, NULL);
            DROP(what[2]);
            if (!sv_ok(r))
                goto error;
            PUSH(r);
            NEXT;
        }
        TARGET(LOAD_ASSERTION_ERROR)
        {
            PUSH(sv_forever(s->w->exceptions[EXC_AssertionError]));
            NEXT;
        }
        TARGET(SWAP)
        {
            a = TOP;
            TOP = sp[-(int32_t)arg];
            sp[-(int32_t)arg] = a;
            NEXT;
        }
        TARGET(COPY)
        {
            a = sp[-(int32_t)arg];
            PUSH(sv_keep(a));
            NEXT;
        }
        TARGET(ANNOTATE)
        {
            struct dict *into = f->names ? f->names : f->module->dict;
            struct entry *e = dict_find_name(into, s->sym[SYM_annotations]);

            if (!e) {
                b = dict_new(s);
                yes = sv_ok(b) && dict_put_name(s, into, s->sym[SYM_annotations], b);
                DROP(b);
                e = yes ? dict_find_name(into, s->sym[SYM_annotations]) : NULL;
            }
            a = POP();
            if (!e || !sv_is(e->value, KIND_DICT) || !dict_put_name(s, dict_ptr(e->value), caches[arg].name, a))
                goto error;
            NEXT;
        }
        TARGET(LEAVES)
        {
            (void)script_leave(s, "%s", AS(str, code->consts[arg])->text);
            goto error;
        }
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
