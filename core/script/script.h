/*
 * script.h - the interpreter of the part of Python that modelling code is written in.
 *
 * Purpose   reads modules as text, compiles them once, runs them: numbers, strings, containers, classes and functions are real,
 *           whatever else there is (tensors, modules) is a native class of the caller's. Nothing in the language can touch the machine.
 * Image     what is compiled, and native classes and functions: made once, then read only, so that threads share it. Images are
 *           layered: builtin programs below, a request's own files above.
 * Script    one interpreter over an image: all its memory is the arena's, it ends when the arena does. One thread.
 * Lifetimes reference counts, as CPython 3.11 keeps them, on the evaluation stack, in frames, in tracebacks. Classes, modules
 *           and names live as long as the script. There is no collector of cycles.
 * Ownership a function returns a reference that its caller owns (sv_drop() ends it); arguments are lent, unless a comment says taken.
 *           A native is lent its arguments: whoever calls holds them until it returns.
 * Errors    SV_NULL (false, -1) says that an exception is set: pass it up, or script_forgive() it. Some end the script for good
 *           (steps, memory, what leaves the language): no `except` sees them. script_error() says it all in a struct err.
 * Left out  docs/internals/script.md.
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct script;
struct image;
struct cls;
struct obj;

/* ---- values: 16 bytes, passed by value */

enum sv_tag {
    SV_NULL, /* no value: absent, or an exception is set */
    SV_NONE,
    SV_BOOL,
    SV_INT,
    SV_FLOAT,
    SV_ELLIPSIS,
    SV_NOTIMPLEMENTED,
    SV_OBJECT = 8,  /* lives as long as the script or its image: names, constants, classes, modules, native functions */
    SV_COUNTED = 16 /* SV_OBJECT | SV_COUNTED: by references */
};

typedef struct sv { /* as int is: two registers, no address, so a typedef */
    uint32_t tag;
    uint32_t zero; /* no padding that is anything: freeze.h compares */
    union {
        int64_t i;
        double f;
        bool b;
        struct obj *o;
    };
} sv;

enum kind {
    KIND_STR,
    KIND_TUPLE,
    KIND_LIST,
    KIND_DICT,
    KIND_SET,
    KIND_FUNC,
    KIND_NATIVE,
    KIND_METHOD,
    KIND_CLASS,
    KIND_INSTANCE,
    KIND_MODULE,
    KIND_CELL,
    KIND_CODE,
    KIND_GEN,
    KIND_RANGE,
    KIND_SLICE,
    KIND_ITER,
    KIND_SUPER,
    KIND_PROPERTY,
    KIND_WRAP /* static, class method */,
    KIND_TRACE,
    KIND_FRAME,
    KIND_VIEW /* of a dict */,
    KIND_ALIAS /* list[int], int | None */,
    KIND_MEMBER /* of a native class */,
    KIND_COUNT
};

struct obj {
    uint32_t refs;
    uint8_t kind;    /* enum kind: its layout */
    uint8_t flags;   /* the kind's */
    uint16_t aux;    /* the kind's */
    struct cls *cls; /* NULL: the builtin class of its kind */
};

static inline sv sv_none(void)
{
    return (sv){.tag = SV_NONE};
}
static inline sv sv_null(void)
{
    return (sv){.tag = SV_NULL};
}
static inline sv sv_bool(bool b)
{
    return (sv){.tag = SV_BOOL, .i = b};
}
static inline sv sv_int(int64_t i)
{
    return (sv){.tag = SV_INT, .i = i};
}
static inline sv sv_float(double f)
{
    return (sv){.tag = SV_FLOAT, .f = f};
}
static inline sv sv_not_implemented(void)
{
    return (sv){.tag = SV_NOTIMPLEMENTED};
}
static inline sv sv_forever(const void *o)
{
    return (sv){.tag = SV_OBJECT, .o = (struct obj *)(uintptr_t)o};
} /* not counted */
static inline sv sv_counted(void *o)
{
    return (sv){.tag = SV_OBJECT | SV_COUNTED, .o = o};
} /* takes the reference */
static inline bool sv_ok(sv v)
{
    return v.tag != SV_NULL;
}
static inline bool sv_is_none(sv v)
{
    return v.tag == SV_NONE;
}
static inline bool sv_given(sv v)
{
    return v.tag > SV_NONE;
} /* neither absent nor None */
static inline bool sv_is_obj(sv v)
{
    return v.tag & SV_OBJECT;
}
static inline bool sv_is(sv v, enum kind kind)
{
    return (v.tag & SV_OBJECT) && v.o->kind == kind;
}

void script_die(struct script *s, struct obj *o);

static inline sv sv_keep(sv v)
{
    if (v.tag & SV_COUNTED)
        v.o->refs++;
    return v;
}
static inline void sv_drop(struct script *s, sv v)
{
    if ((v.tag & SV_COUNTED) && !--v.o->refs)
        script_die(s, v.o);
}

/* ---- natives */

/* What a native is called with. With a signature: v[i] is parameter i, SV_NULL where it was not given. */
struct script_args {
    const sv *v;
    const sv *rest;  /* of `*rest`; without a signature all positional ones are in v */
    const sv *kw;    /* of `**kw`, or of no signature: values, */
    const sv *names; /* and their names, strings */
    uint32_t n, n_rest, n_kw;
    const struct script_native *def;
};
typedef sv script_fn(struct script *s, const struct script_args *a);

/*
 * signature: "self, dim, /, keepdim=, *, dtype=": `=` means that it may be left out, `*rest` and `**kw` gather. NULL: as called.
 * `name=!` leaves the language when it is given as anything but None and False, `name=!mean|sum` or `name=!0` when as anything but those either.
 * At most SCRIPT_PARAMETERS of them. What a registered module's native does not know leaves the language too.
 */
enum { SCRIPT_PARAMETERS = 32 };
struct script_native {
    const char *name; /* NULL ends a table */
    script_fn *fn;
    const char *signature;
    uint32_t data;                                                                  /* the native's: which op of a family of ops */
    enum { NATIVE_PLAIN, NATIVE_STATIC, NATIVE_CLASS /* v[0] is the class */ } how; /* in a class */
};

struct script_member { /* a property of a native class */
    const char *name;
    sv (*get)(struct script *s, sv self, uint32_t data);
    bool (*set)(struct script *s, sv self, sv value, uint32_t data); /* value SV_NULL: del. NULL: read only */
    uint32_t data;
};

/* The first of every native object. Attributes that were set from the language live here. */
struct script_object {
    struct obj h;
    sv *slots;         /* by the class's keys; h.aux of them */
    struct dict *dict; /* once it is one: __dict__ was asked for, or the class has too many */
};

enum script_binary {
    BINARY_ADD,
    BINARY_SUB,
    BINARY_MUL,
    BINARY_DIV,
    BINARY_FLOORDIV,
    BINARY_MOD,
    BINARY_POW,
    BINARY_MATMUL,
    BINARY_AND,
    BINARY_OR,
    BINARY_XOR,
    BINARY_LSHIFT,
    BINARY_RSHIFT,
    BINARY_COUNT
};
enum script_compare { COMPARE_LT, COMPARE_LE, COMPARE_EQ, COMPARE_NE, COMPARE_GT, COMPARE_GE };
enum script_unary { UNARY_NEG, UNARY_POS, UNARY_INVERT, UNARY_ABS };
enum { SCRIPT_ABSENT = 2 }; /* of getattr: nothing of that name, no exception is set */

/*
 * A native class. Every function may be NULL; what is given is inherited by the classes derived from it, in the language too, where
 * a method of that meaning (__add__, __getattr__, ..) goes first. Functions that answer sv may answer sv_not_implemented().
 */
struct script_class {
    const char *name;
    const struct script_class *base;     /* registered before; NULL: object */
    size_t bytes;                        /* of an object: a struct that begins with struct script_object; 0: the base's */
    const struct script_native *methods; /* __init__ and __new__ as well; without, it takes no arguments */
    const struct script_member *members;
    void (*die)(struct script *s, struct obj *self);              /* lets go of what the native part holds; attributes go after it */
    sv (*getattr)(struct script *s, sv self, sv name);            /* when nothing else has it; SV_NULL without an exception: absent */
    int (*setattr)(struct script *s, sv self, sv name, sv value); /* before all else, of instances; SV_NULL: del; 1 done, 0 not mine, -1 */
    sv (*call)(struct script *s, sv self, const struct script_args *a);               /* v: positional ones without self */
    sv (*binary)(struct script *s, enum script_binary op, sv a, sv b, bool in_place); /* a or b is of this class */
    sv (*compare)(struct script *s, enum script_compare op, sv a, sv b);              /* a or b; never `is`; NULL: by identity */
    sv (*unary)(struct script *s, enum script_unary op, sv self);
    sv (*getitem)(struct script *s, sv self, sv key);
    bool (*setitem)(struct script *s, sv self, sv key, sv value); /* SV_NULL: del */
    int (*contains)(struct script *s, sv self, sv value);
    int64_t (*len)(struct script *s, sv self);
    sv (*iter)(struct script *s, sv self); /* NULL: by getitem 0, 1, .. until IndexError when there is len */
    sv (*next)(struct script *s, sv self); /* SV_NULL without an exception: at its end */
    int (*truth)(struct script *s, sv self);
    sv (*number)(struct script *s, sv self, bool whole); /* int(x), x as an index; float(x) */
    sv (*repr)(struct script *s, sv self);
    bool final; /* no class may be derived from it */
};

struct script_constant {
    const char *name;
    sv value; /* no counted one */
};

/* A module of natives, as `import` finds it. A class or function of a dotted name lies in the module of that name. */
struct script_module {
    const char *name;
    const struct script_native *functions;
    const struct script_class *const *classes; /* NULL ends */
    const struct script_constant *constants;
    bool (*begin)(struct script *s, sv module); /* when a script first imports it: script_set() what cannot be shared */
};

/* ---- images */

/* An image on top of `below` (NULL: the language itself). Lives in `arena`, which nobody else uses while the image is added to. */
MUST_CHECK enum err_code image_new(struct arena *arena, const struct image *below, struct image **ret, struct err *err);
MUST_CHECK enum err_code image_native(struct image *im, const struct script_module *module, struct err *err);

/* Other names of parameters, for natives of modules and for functions of files whose path begins with `under`. */
struct script_keyword {
    const char *name, *also; /* NULL ends a table */
};
void image_keywords(struct image *im, const struct script_keyword *table, const char *under);

/* Compiles a module: name as `import` says it ("transformers.models.llama.modeling_llama"), path as an error says it. `text` may go. */
MUST_CHECK enum err_code image_source(struct image *im, const char *name, const char *path, const char *text, size_t bytes, bool package,
                                      struct err *err);
/* Compiles a text that runs in the namespace of a module of this image, whenever that has run: what it says otherwise. One a module. */
MUST_CHECK enum err_code image_continue(struct image *im, const char *name, const char *path, const char *text, size_t bytes,
                                        struct err *err);
bool image_has(const struct image *im, const char *name); /* a module of text */
sv image_symbol(struct image *im, const char *name);      /* a name that compares by address; SV_NULL: no memory */

/* ---- a script */

struct script_host { /* both may be NULL */
    /* The text of a module that no image has; false: there is none, ImportError. Compiled into the script's own memory. */
    bool (*source)(void *of, const char *name, const char **path, const char **text, size_t *bytes, bool *package);
    void (*print)(void *of, const char *text, size_t bytes); /* print(); tests see it, nobody else */
    void *of;                                                /* the caller's: script_of() */
    void *files;                                             /* what source() is handed; NULL: `of` */
};
struct script_limits {
    uint64_t steps; /* calls, turns of loops, and what natives charge with script_charge(); they come out of the arena's budget too */
    uint32_t depth; /* of Python's frames; beyond: RecursionError */
    uint32_t stack; /* values on the evaluation stack, 16 bytes each */
};
extern const struct script_limits script_limits_default;

MUST_CHECK enum err_code script_new(struct arena *arena, const struct image *im, const struct script_limits *limits,
                                    const struct script_host *host, struct script **ret, struct err *err);
void *script_of(struct script *s);
uint64_t script_steps_left(const struct script *s);
struct arena *script_arena(struct script *s);         /* that its memory comes from: what lives as long as it, and stands or is frozen with it */
bool script_charge(struct script *s, uint64_t steps); /* false: spent */
/* A number of its own, id() in the language: where it lies in its script or image, the same wherever these lie. No address leaves the language. */
uint64_t script_place(const struct script *s, const struct obj *o);
sv script_import(struct script *s, const char *name);

/* ---- calls */

sv script_call(struct script *s, sv f, uint32_t n, const sv *argv);
/* argv[n..n + n_kw) by name; names are strings */
sv script_call_kw(struct script *s, sv f, uint32_t n, const sv *argv, uint32_t n_kw, const sv *names);
sv script_call_args(struct script *s, sv f, const struct script_args *a);              /* as a native without a signature was called */
sv script_call_spread(struct script *s, sv f, sv args, sv kw);                         /* f(*args, **kw): a tuple, a dict or SV_NULL */
sv script_call_method(struct script *s, sv self, sv name, uint32_t n, const sv *argv); /* without a bound method in between */
sv script_call_method_args(struct script *s, sv self, sv name, const struct script_args *a);

/* ---- attributes, items, operators, as the language sees them */

sv script_symbol(struct script *s, const char *name);        /* lives as long as the script; nothing is owned */
sv script_intern(struct script *s, sv str);                  /* the symbol of a string */
sv script_get(struct script *s, sv of, sv name);             /* of.name */
int script_find(struct script *s, sv of, sv name, sv *ret);  /* 0 and *ret, SCRIPT_ABSENT, or -1: no AttributeError is made */
bool script_set(struct script *s, sv of, sv name, sv value); /* value SV_NULL: del */
/* The same on the object itself: what object.__setattr__ and object.__getattribute__ do. */
sv script_get_plain(struct script *s, sv of, sv name);
int script_find_plain(struct script *s, sv of, sv name, sv *ret); /* as script_find() */
bool script_set_plain(struct script *s, sv of, sv name, sv value);
bool script_store(struct script *s, sv of, sv name, sv value); /* into an instance's own attributes, whatever its class has of that name */
sv script_dict_of(struct script *s, sv of);                    /* of.__dict__ */

sv script_getitem(struct script *s, sv of, sv key);
bool script_setitem(struct script *s, sv of, sv key, sv value); /* SV_NULL: del */
int script_contains(struct script *s, sv in, sv value);
int64_t script_len(struct script *s, sv v); /* -1 */
sv script_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place);
sv script_compare(struct script *s, enum script_compare op, sv a, sv b);
sv script_unary(struct script *s, enum script_unary op, sv v);
int script_equal(struct script *s, sv a, sv b); /* 1, 0, -1 */
int script_truth(struct script *s, sv v);       /* 1, 0, -1 */
sv script_iter(struct script *s, sv v);
sv script_next(struct script *s, sv iter); /* SV_NULL: at its end unless script_failed() */
sv script_str(struct script *s, sv v);     /* str(v) */
sv script_repr(struct script *s, sv v);

/* ---- making values */

sv str_new(struct script *s, const char *text, size_t bytes);
sv str_format(struct script *s, const char *fmt, ...) PRINTF(2, 3);
sv tuple_new(struct script *s, uint32_t n, const sv *items);  /* keeps them */
sv tuple_take(struct script *s, uint32_t n, const sv *items); /* takes them */
/* Memory of the script for while a native runs, zeroed; given back with as many bytes. NULL: there is none, and the script is over. */
void *script_memory(struct script *s, size_t bytes);
void script_memory_give(struct script *s, void *p, size_t bytes);
void script_stirs(struct script *s, const struct obj *o); /* before a native object is written that was made earlier (freeze.h) */
sv list_new(struct script *s, uint32_t n, const sv *items);   /* keeps them */
bool list_append(struct script *s, sv list, sv item);         /* keeps it */
sv dict_new(struct script *s);
bool dict_set(struct script *s, sv dict, sv key, sv value); /* keeps both */
bool dict_del(struct script *s, sv dict, sv key);           /* false without an exception: there was none */
sv dict_get(struct script *s, sv dict, sv key);             /* lent, not owned; SV_NULL: none, unless script_failed() */
sv method_new(struct script *s, sv function, sv self);      /* a bound method; keeps both */
sv native_new(struct script *s, const struct script_native *def,
              sv self); /* a function made on the fly; self (kept) comes first, unless SV_NULL */

/* An object of a native class or one derived from it, zeroed beyond its first; no __init__ is called. */
sv script_object(struct script *s, struct cls *cls);
struct cls *script_class(struct script *s, const struct script_class *def); /* of a registered class; NULL: it is not */

/* ---- looking into values */

const char *str_text(sv str, size_t *ret_bytes); /* terminated; NULL: no string (nor derived from it) */
bool str_is(sv v, const char *text);             /* a string, and this one */
bool script_partial(struct script *s, sv v, sv *function, sv *args, sv *kw); /* of functools.partial: lent; false: it is none */
bool slice_parts(sv v, sv ret[3]);               /* start, stop, step of a slice, lent; false: it is none */
const sv *seq_items(sv v, uint32_t *ret_n);      /* of a tuple or list, or derived from one; NULL: it is none. Valid until it changes */
/* Entry *at of a dict and onwards, in order; false: at the end. Starts with *at = 0. Lent. */
bool dict_each(sv dict, uint32_t *at, sv *key, sv *value);
uint32_t dict_count(sv dict);
struct cls *sv_class(struct script *s, sv v);
const char *cls_name(const struct cls *c);
const char *cls_module(const struct cls *c); /* where it is written; "": nowhere */
sv cls_value(struct cls *c);
struct cls *sv_as_class(sv v); /* NULL: v is no class */
bool cls_derives(const struct cls *c, const struct cls *from);
bool sv_isa(struct script *s, sv v, const struct script_class *def); /* of a native class or one derived from it */
bool script_int(struct script *s, sv v, int64_t *ret);               /* an int, a bool or what has __index__; else TypeError */
bool script_double(struct script *s, sv v, double *ret);             /* an int, a float, a bool; else TypeError */

/* ---- errors */

enum script_exc {
#define EXC(name, base) EXC_##name,
#include "script/exceptions.def"
#undef EXC
    EXC_COUNT
};
sv script_raise(struct script *s, enum script_exc what, const char *fmt, ...) PRINTF(3, 4); /* SV_NULL, to be returned */
sv script_leave(struct script *s, const char *fmt, ...) PRINTF(2, 3); /* it leaves the language: ends the script; SV_NULL */
sv script_fail(struct script *s, const struct err *err);              /* ends the script with the caller's error; SV_NULL */
sv script_nomem(struct script *s);                                    /* ends the script: ERR_NOMEM; SV_NULL */
bool script_failed(const struct script *s);                           /* an exception is set, or the script has ended */
bool script_over(const struct script *s);                             /* it has ended */
bool script_caught(struct script *s, enum script_exc what);           /* the exception that is set is one, and no end */
void script_forgive(struct script *s);                                /* drops the exception that is set; an end stays */

/* What failed, with the file and line where it was raised: ERR_SCRIPT_RAISED, ERR_LEAVES_LANGUAGE, ERR_SCRIPT_BUDGET, ERR_NOMEM, or
 * the caller's own. */
enum err_code script_error(struct script *s, struct err *err);

/* Where the program is: the innermost frame that runs. NULL: none does. */
const char *script_where(const struct script *s, const char **ret_path, uint32_t *ret_line);

#endif
