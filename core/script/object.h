/*
 * object.h - how values lie in memory, and what the files of this room give each other. Callers use script.h.
 *
 * What an image holds (names, constants, code, builtin classes, natives) is SV_OBJECT: never counted, never written after it was made.
 */
#ifndef SCRIPT_OBJECT_H
#define SCRIPT_OBJECT_H

#include "script/script.h"

#include <string.h>

enum { STR_SYMBOL = 1 /* interned: equal names are one object */, STR_ASCII = 2 };

struct str {
    struct obj h;
    uint32_t bytes, hash;
    char text[];
};

struct tuple {
    struct obj h;
    uint32_t n;
    sv items[];
};

struct list {
    struct obj h;
    uint32_t n, cap;
    sv *items;
    struct dict *attributes; /* of a class derived from list; NULL: none yet */
};

struct entry {
    sv key, value; /* key SV_NULL: deleted */
};

/* In the order of insertion. Up to DICT_SMALL entries are searched one by one, more through an index. */
enum { DICT_SMALL = 8 };
enum { DICT_OTHERS = 1 /* a key is no symbol: a name may be there as another string */ };
struct dict { /* and set: values are SV_NONE; h.flags: DICT_OTHERS */
    struct obj h;
    uint32_t n, used, cap;
    uint32_t version; /* of its layout: where an entry lies */
    struct entry *entries;
    uint32_t *index, mask; /* entry + 1, 0: free; NULL while small */
    uint32_t *hashes;
    struct dict *attributes;
};

struct cell {
    struct obj h;
    sv value;
};

struct cls {
    struct obj h;
    struct str *name, *module;
    struct str *qualname;
    uint32_t version; /* changes with the class, or with one it derives from; unique in its script */
    uint8_t layout;   /* enum kind of its instances */
    uint8_t has_known;
    uint16_t flags; /* enum cls_flag */
    uint32_t has;   /* enum cls_has: which meanings its methods give to an instance */
    uint32_t n_mro, n_bases, n_keys, max_keys;
    struct cls **mro, **bases;
    struct dict *dict;
    const struct script_class *native; /* merged with its bases'; NULL: none */
    const struct script_class *def;    /* as it was registered */
    size_t bytes;                      /* of an instance */
    struct str **keys;                 /* attributes of its instances by slot */
    struct cls *next;                  /* of the script's */
    sv meta;                           /* the metaclass, if it has one of its own */
    enum script_exc exc;               /* of a builtin exception */
};
enum cls_flag {
    CLS_SHARED = 1 /* in an image: not written */,
    CLS_FINAL = 2,
    CLS_BOXED = 4 /* holds a str, int, float, tuple: struct boxed */,
    CLS_EXCEPTION = 8,
    CLS_SLOTTED = 16
};
enum cls_has {
    HAS_GETATTR = 1,
    HAS_GETATTRIBUTE = 2,
    HAS_SETATTR = 4,
    HAS_DELATTR = 8,
    HAS_DEL = 16,
    HAS_GET = 32,
    HAS_SET = 64,
    HAS_EQ = 128,
    HAS_HASH = 256,
    HAS_BOOL = 512,
    HAS_LEN = 1024,
    HAS_NEW = 2048,
    HAS_ITER = 4096,
    HAS_GETITEM = 8192,
    HAS_CALL = 16384,
    HAS_NE = 32768,
    HAS_SETITEM = 65536,
    HAS_CONTAINS = 1 << 17,
    HAS_REPR = 1 << 18,
    HAS_STR = 1 << 19,
    HAS_NEXT = 1 << 20,
    HAS_INIT = 1 << 21,
    HAS_DELITEM = 1 << 22
};

struct boxed { /* an instance of a class derived from str, int, float or tuple */
    struct script_object base;
    sv value;
};

struct exc { /* an exception */
    struct script_object base;
    sv obj; /* of an AttributeError: whose attribute was missed */
    sv args, trace, cause, context;
    bool suppress;
};

struct func {
    struct obj h;
    const struct code *code;
    struct run_code *run;  /* this script's inline caches of the code */
    struct module *module; /* its globals */
    sv name, qualname;
    sv defaults;   /* tuple or SV_NULL */
    sv kwdefaults; /* dict or SV_NULL */
    sv closure;    /* tuple of cells or SV_NULL */
    struct dict *attributes;
};

struct native {
    struct obj h;
    const struct script_native *def;
    struct signature *signature; /* NULL: as called */
    struct str *name;
    bool registered;   /* by image_native(): no part of the language */
    sv self;           /* goes first; SV_NULL: none */
    struct cls *owner; /* the class it is a method of; NULL */
};

struct signature {
    uint16_t n, n_positional_only, n_positional, n_needed; /* needed: the first ones */
    bool rest, kw;
    uint32_t required, refused; /* a bit each; refused: but with some values */
    struct str *names[];
};

struct method {
    struct obj h;
    sv function, self;
};

struct module {
    struct obj h;
    struct str *name;
    struct dict *dict;
    const char *path;
    bool package, ready;
};

struct range {
    struct obj h;
    int64_t start, stop, step;
};

struct slice {
    struct obj h;
    sv start, stop, step;
};

struct super {
    struct obj h;
    struct cls *after; /* search begins behind it */
    struct cls *type;  /* whose order is searched */
    sv self;
};

struct property { /* also a cached one */
    struct obj h;
    sv get, set, del, doc;
    sv name;
};

struct wrap { /* staticmethod, classmethod */
    struct obj h;
    bool is_class;
    sv function;
};

struct member {
    struct obj h;
    const struct script_member *def;
    struct str *name;
};

struct alias { /* list[int], a | b: origin and arguments, read by whoever asks */
    struct obj h;
    sv origin, args; /* origin SV_NONE: a union */
};

enum iter_kind {
    ITER_SEQ /* list or tuple */,
    ITER_STR,
    ITER_RANGE,
    ITER_KEYS,
    ITER_VALUES,
    ITER_ITEMS,
    ITER_ENUMERATE,
    ITER_ZIP,
    ITER_MAP,
    ITER_FILTER,
    ITER_REVERSED,
    ITER_GETITEM,
    ITER_CALL /* iter(f, sentinel) */,
    ITER_REVERSED_KEYS
};
struct iter { /* h.aux: enum iter_kind */
    struct obj h;
    sv of;    /* what is walked; a tuple of iterators for zip and map; SV_NULL at its end */
    sv other; /* map's and filter's function; the tuple that zip, enumerate and items use again */
    int64_t at, stop, step;
};

struct view { /* d.keys(), values(), items(): h.aux, as iter_kind */
    struct obj h;
    sv dict;
};

struct gen {
    struct obj h;
    struct frame *frame;
    uint8_t state; /* enum gen_state */
    sv name;
    sv exc; /* its own handled exception */
};
enum gen_state { GEN_CREATED, GEN_SUSPENDED, GEN_RUNNING, GEN_DONE };

struct trace { /* an entry of a traceback */
    struct obj h;
    sv next;  /* towards where it was raised */
    sv frame; /* struct frame_obj */
    uint32_t line;
    const struct code *code;
};

struct frame_obj { /* what a traceback holds of a frame: once the frame ends, its locals */
    struct obj h;
    struct frame *frame; /* while it runs */
    sv func, back;       /* back: the frame object of who called */
    uint32_t n;
    sv *locals;
};

/* ---- code */

struct handler { /* pc in [from, to): an exception goes on at `target` with `depth` values on the stack */
    uint32_t from, to, target, depth;
    bool lasti;
};

struct code {
    struct obj h;
    struct str *name, *qualname;
    const char *path;
    const uint32_t *ops; /* operation in the low byte, operand above */
    const uint32_t *lines;
    const sv *consts;
    struct str **names; /* of sites: each has a cache in struct run_code */
    struct str **vars;  /* locals, cells, free */
    const struct handler *handlers;
    uint32_t n_ops, n_consts, n_names, n_handlers, id;
    uint16_t n_args, n_positional_only, n_keyword; /* n_args: positional ones */
    uint16_t n_vars, n_all, n_free, stack, flags, line;
    const struct annotation *annotations;
    uint16_t n_annotations;
};
struct annotation { /* of a parameter, or `return` */
    struct str *name, *text;
};
enum { OPS_PER_STEP = 5 /* as a power of two: a call and a turn of a loop cost a step, and one for so many operations of their code */ };
enum code_flag {
    CODE_REST = 1,
    CODE_KW = 2,
    CODE_GENERATOR = 4,
    CODE_FUNCTION = 8 /* locals in slots */,
    CODE_SIMPLE = 16 /* neither rest, kw nor
                 keyword-only ones */
};

struct cache { /* of one site */
    struct str *name;
    uint32_t version, index;
    union {
        sv value;
        struct entry *entry;
    };
};

struct run_code {
    const struct code *code;
    struct cache cache[];
};

struct frame {
    struct frame *back;
    const struct code *code;
    struct func *func; /* owned; NULL: a module's or a class's body */
    struct module *module;
    struct run_code *run;
    struct dict *names;      /* of a class body: owned; of a module: its dict, lent */
    const uint32_t *pc;      /* of the operation that runs */
    sv *locals, *sp, *limit; /* limit: what it calls may use the stack from here on */
    struct frame_obj *obj;
    bool entry, owned_names, of_gen; /* entry: C called; of_gen: lies in a generator */
    struct gen *gen;
};

/* ---- builtin classes: in the first image */

enum builtin {
    B_OBJECT,
    B_TYPE,
    B_NONE,
    B_INT,
    B_BOOL,
    B_FLOAT,
    B_STR,
    B_TUPLE,
    B_LIST,
    B_DICT,
    B_SET,
    B_FROZENSET,
    B_FUNC,
    B_NATIVE,
    B_METHOD,
    B_MODULE,
    B_CELL,
    B_CODE,
    B_GEN,
    B_RANGE,
    B_SLICE,
    B_ITER,
    B_SUPER,
    B_PROPERTY,
    B_CACHED,
    B_STATICMETHOD,
    B_CLASSMETHOD,
    B_TRACE,
    B_FRAME,
    B_VIEW,
    B_ALIAS,
    B_ELLIPSIS,
    B_NOTIMPLEMENTED,
    B_MEMBER,
    B_ENUMERATE,
    B_ZIP,
    B_MAP,
    B_FILTER,
    B_REVERSED,
    B_UNION,
    B_COUNT
};

enum symbol {
#define SYM(id, text) SYM_##id,
#include "script/symbols.def"
#undef SYM
    SYM_COUNT
};

struct world { /* of the first image */
    struct cls *types[B_COUNT];
    struct cls *exceptions[EXC_COUNT];
    struct str *symbols[SYM_COUNT];
    struct str *letters[128];
    struct dict *builtins;
    struct tuple *empty;
    struct obj *object_new, *object_init; /* object's own */
    uint32_t n_classes;
    bool made; /* natives that come now are no part of the language */
    const struct script_keyword *keywords; /* image_keywords(); NULL: none */
    const char *keywords_under;
};

struct source_module {
    struct source_module *next;
    struct str *name;
    const struct source_module *begins;  /* of an image below, whose module this one continues; NULL: none */
    const struct code *code, *continued; /* continued: image_continue(); NULL: nothing */
    const char *path;
    bool package;
};

struct native_module {
    struct native_module *next;
    struct str *name;
    const struct script_module *def;
    struct dict *dict; /* shared: copied into each script that imports it */
};

struct native_classes {
    struct native_classes *next;
    const struct script_class *def;
    struct cls *cls;
};

struct image {
    struct arena *arena, *beyond; /* beyond: where there is no room left; NULL: nowhere */
    bool is_beyond;
    const void *end; /* of its memory */
    const struct image *below;
    struct world *world;
    struct str **table; /* of names */
    uint32_t n_names, cap;
    uint32_t n_codes; /* with those below */
    struct source_module *sources;
    struct source_module **by_name; /* the newest of a name; NULL: few, or no room */
    uint32_t n_sources, n_places;
    struct native_module *natives;
    struct native_classes *classes;
    const struct script_class *class_defs;
};

struct str *image_intern(struct image *im, const char *text, size_t bytes);
void *image_room(struct image *im, size_t bytes); /* zeroed */
struct str *image_find(const struct image *im, const char *text, size_t bytes, uint32_t hash);
const struct source_module *image_source_of(const struct image *im, const struct str *name); /* not of those below */
enum err_code image_again(struct image *im, const char *name, struct err *err); /* what was compiled last, under another name */
enum err_code world_new(struct image *im, struct err *err);
struct cls *world_class(struct image *im, struct cls *base, const char *name, enum kind layout);
const char *signature_allows(const char *text, uint32_t at);
bool world_methods(struct image *im, struct cls *c, const struct script_native *methods, const struct script_member *members);
struct native *world_native(struct image *im, const struct script_native *def, struct cls *owner);
bool shared_set(struct arena *a, struct dict *d, struct str *key, sv value);
struct dict *shared_dict(struct arena *a);
uint32_t text_hash(const char *text, size_t bytes);
enum err_code compile_module(struct image *im, const char *path, const char *text, size_t bytes, const struct code **ret, struct err *err);

/* ---- the script */

enum { METHOD_CACHE = 1024, HEAP_CLASSES = 64, SCRIPT_C_DEPTH = 600 };

struct method_cache {
    const struct cls *cls;
    uint32_t version;
    const struct str *name;
    sv value;
};

struct script {
    struct world *w;
    struct str **sym;          /* w->symbols */
    size_t heap_bytes;         /* of the arena */
    int64_t steps, steps_kept; /* of the slice that is being spent; beside it */
    struct frame *frame;
    sv *stack, *stack_end, *sp; /* sp: free from here on, for what runs next */
    sv exc;                     /* that is raised; SV_NULL: none */
    sv handled;                 /* that an except block handles: sys.exc_info() */
    bool over;                  /* for good: `end` says why */
    struct err end;
    uint32_t depth, max_depth, c_depth, die_depth;
    uint32_t next_version;
    struct obj **dying; /* deeper than may be nested: their turn comes */
    uint32_t n_dying, max_dying;
    struct arena *arena;
    struct {
        void *next;
    } free_lists[HEAP_CLASSES];
    void *large[64];
    struct image *own; /* names and modules that came while it ran */
    const struct image *image;
    struct run_code **runs; /* by code id */
    uint32_t n_runs;
    struct cls *classes;
    struct dict *modules; /* name: module */
    struct dict *builtins;
    struct script_host host;
    char (*where)[160];
    struct method_cache *cache; /* METHOD_CACHE of them */
    char end_path[128];
    uint32_t end_line;
    unsigned char *still; /* where what was thawed lies (freeze.h): nobody writes there but counts, caches and names; NULL: anywhere */
    size_t still_bytes;
    bool stirred; /* somebody did */
};

static inline bool lies_still(const struct script *s, const void *p)
{
    return (uintptr_t)p - (uintptr_t)s->still < s->still_bytes;
}

/* Before an object that may lie there is written: all but its count, what is remembered at a site, and the layout of a class's instances. */
static inline void stirs(struct script *s, const void *o)
{
    s->stirred |= lies_still(s, o);
}

/* For the script's life, however often it is put back: names, caches, layouts. Zeroed; NULL: no memory, and the script is over. */
void *script_lasting(struct script *s, size_t bytes);

bool script_set_up(struct script *s, struct arena *arena, struct arena *cache, struct arena *stack, const struct script_limits *limits,
                   const struct script_host *host);

/* ---- heap: sizes up to 1 KB in steps of 16, larger ones by powers of two */
enum { HEAP_STEP = 16, HEAP_SMALL = HEAP_STEP * HEAP_CLASSES };
void *heap_more(struct script *s, size_t bytes);
void heap_give_large(struct script *s, void *p, size_t bytes);

static inline void *heap_take(struct script *s, size_t bytes) /* NULL: no memory, and the script is over */
{
    size_t k = bytes ? (bytes - 1) / HEAP_STEP : 0;
    void *p = k < HEAP_CLASSES ? s->free_lists[k].next : NULL;

    if (!p)
        return heap_more(s, bytes);
    memcpy(&s->free_lists[k].next, p, sizeof(void *));
    return p;
}

static inline void heap_give(struct script *s, void *p, size_t bytes)
{
    size_t k = bytes ? (bytes - 1) / HEAP_STEP : 0;

    if (lies_still(s, p)) { /* not taken again: what lies there is what was thawed */
        s->stirred = true;
        return;
    }
    if (k >= HEAP_CLASSES) {
        heap_give_large(s, p, bytes);
        return;
    }
    memcpy(p, &s->free_lists[k].next, sizeof(void *));
    s->free_lists[k].next = p;
}

static inline void *heap_zero(struct script *s, size_t bytes)
{
    void *p = heap_take(s, bytes);

    return p ? memset(p, 0, bytes) : NULL;
}

static inline void *obj_new(struct script *s, size_t bytes, enum kind kind) /* one reference; nothing else is set beyond its header */
{
    struct obj *o = heap_take(s, bytes);

    if (o)
        *o = (struct obj){.refs = 1, .kind = (uint8_t)kind};
    return o;
}

/* Whoever looks at many items or bytes in one step pays for them; few are free. False: spent. A step takes some 50 ns. */
static inline bool pay_items(struct script *s, uint64_t n)
{
    return n < 16 || script_charge(s, n / 16);
}

static inline bool pay_bytes(struct script *s, uint64_t n)
{
    return n < 1024 || script_charge(s, n / 1024);
}

/* Each byte is looked at by a loop. */
static inline bool pay_letters(struct script *s, uint64_t n)
{
    return n < 256 || script_charge(s, n / 32);
}

/* ---- strings */
struct str *str_raw(struct script *s, size_t bytes); /* to be written; hash is not known */
uint32_t str_hash(const struct str *t);
static inline bool str_same(const struct str *a, const struct str *b)
{
    return a == b || (!(a->h.flags & b->h.flags & STR_SYMBOL) && a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0);
}
struct str *as_str(sv v);                    /* also of a derived class; NULL: none */
struct str *name_of(struct script *s, sv v); /* the symbol; NULL: TypeError is set */
uint32_t str_length(const struct str *t);    /* code points */
size_t str_offset(const struct str *t, uint32_t nth);
sv str_slice(struct script *s, const struct str *t, int64_t from, int64_t step, int64_t n);
const char *text_find(struct script *s, const char *in, size_t n, const struct str *t);
sv str_join(struct script *s, const struct str *between, sv of);
sv str_concat(struct script *s, const struct str *a, const struct str *b);
sv str_repeat(struct script *s, const struct str *t, int64_t n);
sv format_value(struct script *s, sv v, sv spec); /* format(v, spec) */
sv format_percent(struct script *s, const struct str *fmt, sv args);
sv format_call(struct script *s, const struct str *fmt, const struct script_args *a);

/* Text that grows on the script's heap; ends as a str. */
struct writer {
    struct script *s;
    char *data;
    size_t n, cap;
    bool failed;
};
void text_put(struct writer *w, const char *text, size_t n);
void put_text(struct writer *w, const char *text);
void put_str(struct writer *w, sv v); /* str(v), lent */
sv written(struct writer *w);         /* SV_NULL: it failed; the writer is empty again */
void unwritten(struct writer *w);

/* ---- containers */
struct list *as_list(sv v);
struct tuple *as_tuple(sv v);
struct dict *as_dict(sv v); /* dict or set */
sv tuple_slice(struct script *s, const struct tuple *t, int64_t from, int64_t step, int64_t n);
sv tuple_of(struct script *s, sv iterable);
sv list_of(struct script *s, sv iterable);
bool list_extend(struct script *s, struct list *l, sv iterable);
bool list_push(struct script *s, struct list *l, sv item); /* takes it */
sv list_slice(struct script *s, const struct list *l, int64_t from, int64_t step, int64_t n);
bool list_set_slice(struct script *s, struct list *l, const struct slice *at, sv value); /* SV_NULL: del */
bool list_sort(struct script *s, struct list *l, sv key, bool reverse);
struct dict *dict_make(struct script *s);
sv set_new(struct script *s, bool frozen);
int dict_find(struct script *s, const struct dict *d, sv key, struct entry **ret); /* 1, 0, -1 */
struct entry *dict_find_name(const struct dict *d, const struct str *name);        /* keys are symbols or strings */
bool dict_put(struct script *s, struct dict *d, sv key, sv value);                 /* keeps both */
bool dict_put_name(struct script *s, struct dict *d, struct str *name, sv value);
bool dict_room(struct script *s, struct dict *d, uint32_t n);                /* for n entries in all */
bool dict_add(struct script *s, struct dict *d, struct str *name, sv value); /* a symbol that is known not to be there */
int dict_remove(struct script *s, struct dict *d, sv key, sv *ret);          /* takes it out: 1, 0, -1; ret NULL: it dies */
void dict_clear(struct script *s, struct dict *d);
void dict_release(struct script *s, struct dict *d);
bool dict_merge(struct script *s, struct dict *d, sv from, bool unique); /* unique: TypeError for a key that is there */
sv dict_copy(struct script *s, const struct dict *d);
bool sv_hash(struct script *s, sv v, uint32_t *ret);
static inline struct dict *dict_ptr(sv v)
{
    return (struct dict *)(void *)v.o;
}
sv set_operate(struct script *s, enum script_binary op, sv a, sv b, bool in_place);
int set_compare(struct script *s, enum script_compare op, const struct dict *a, const struct dict *b);

bool slice_bounds(struct script *s, const struct slice *at, int64_t length, int64_t *from, int64_t *step, int64_t *n);
bool index_of(struct script *s, sv key, int64_t length, const char *what, int64_t *ret);
sv slice_new(struct script *s, sv start, sv stop, sv step); /* takes them */

/* ---- classes, attributes */
struct cls *class_of_any(const struct script *s, sv v);
static inline struct cls *class_of(const struct script *s, sv v)
{
    return sv_is_obj(v) && v.o->cls && v.o->kind != KIND_CLASS ? v.o->cls : class_of_any(s, v);
}
sv type_find(struct script *s, struct cls *c, const struct str *name); /* lent; along its order; SV_NULL: none */
uint32_t cls_learn(struct script *s, struct cls *c);
static inline uint32_t cls_has(struct script *s, struct cls *c)
{
    return c->flags & CLS_SHARED ? 0 : c->has_known ? c->has : cls_learn(s, c);
}
sv class_new(struct script *s, struct str *name, uint32_t n_bases, const sv *bases, struct dict *names, sv meta,
             const struct script_args *kw);
sv class_call(struct script *s, struct cls *c, const struct script_args *a);
sv class_statement(struct script *s, sv body, sv bases, sv keywords, struct str *name);
sv class_make(struct script *s, sv of, const struct script_args *a); /* of.__call__, `of` a class */
void class_changed(struct script *s, struct cls *c);
bool class_set(struct script *s, struct cls *c, struct str *name, sv value);
int class_get(struct script *s, struct cls *c, struct str *name, sv *ret);
sv instance_new(struct script *s, struct cls *c);
bool instance_set(struct script *s, struct script_object *o, struct cls *c, struct str *name, sv value);
bool instances_may_hide(const struct cls *c, const struct str *name); /* some instance has an attribute of that name: the class's is not every one's */
sv *instance_slot(struct script *s, struct script_object *o, struct cls *c, const struct str *name); /* NULL: not there */
struct dict **attributes_of(sv v);                                 /* of what keeps them in a dict; NULL: it has none */
int attr_find(struct script *s, sv of, struct str *name, sv *ret); /* script_find with a symbol */
sv attr_get(struct script *s, sv of, struct str *name);
bool attr_set(struct script *s, sv of, struct str *name, sv value);
int attr_plain(struct script *s, sv of, struct str *name, sv *ret);
int super_find(struct script *s, struct super *u, struct str *name, sv *ret);
sv descriptor_get(struct script *s, sv found, sv self, struct cls *of); /* `found` lent; binds it */
sv method_find(struct script *s, sv of, struct str *name, sv *self);    /* a function and *self (kept), or *self SV_NULL: bound already */
int special(struct script *s, sv of, enum symbol name, uint32_t n, const sv *argv, sv *ret); /* calls type(of).name: 1, 0: no such, -1 */
sv special_call(struct script *s, sv of, enum symbol name, uint32_t n, const sv *argv);
sv dict_of(struct script *s, sv of);
int isinstance_of(struct script *s, sv v, sv of);
int issubclass_of(struct script *s, sv c, sv of);
sv alias_new(struct script *s, sv origin, sv args); /* keeps */
sv attr_error(struct script *s, sv of, const struct str *name);

/* ---- calls */
sv sv_call(struct script *s, sv f, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names); /* argv[0..n), then by name */
sv call_native(struct script *s, const struct native *f, sv self, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names);
bool bind_args(struct script *s, struct func *f, sv *locals, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names, bool taken);
struct frame *frame_push(struct script *s, const struct code *code);
void frame_end(struct script *s, struct frame *f);
sv vm_run(struct script *s, struct frame *f);
sv run_body(struct script *s, const struct code *code, struct module *m, struct dict *names, sv closure);
struct run_code *run_code_of(struct script *s, const struct code *code);
sv func_new(struct script *s, const struct code *code, struct module *m);
sv call_func(struct script *s, struct func *f, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names);

/* ---- generators, iterators, exceptions */
sv gen_new(struct script *s, struct frame *f);
sv gen_send(struct script *s, struct gen *g, sv value, sv thrown, sv *returned); /* SV_NULL and *returned: it ended */
void gen_die(struct script *s, struct gen *g);
sv gen_close(struct script *s, struct gen *g);
sv iter_new(struct script *s, enum iter_kind kind, sv of); /* keeps */
sv iter_of(struct script *s, sv v);
sv iter_next(struct script *s, sv it);
sv exc_new(struct script *s, struct cls *c, sv args);      /* keeps args, a tuple */
void exc_set(struct script *s, sv exc);                    /* takes it: it is raised */
bool exc_raise_value(struct script *s, sv what, sv cause); /* raise what from cause: keeps */
int exc_matches(struct script *s, sv exc, sv type);
void trace_add(struct script *s, struct frame *f);
uint32_t frame_line(const struct frame *f);
void frame_give(struct script *s, struct frame *f);
void frame_obj_die(struct script *s, struct frame_obj *o);
bool enter(struct script *s); /* C calls itself: false: too deep */
static inline void leave(struct script *s)
{
    s->c_depth--;
}
sv raise_type(struct script *s, const char *fmt, sv of); /* TypeError with the name of its class for %s */

/* ---- modules */
sv import_module(struct script *s, struct str *name);
sv import_name(struct script *s, struct module *from, struct str *name, unsigned dots, bool names);
sv import_from(struct script *s, sv module, struct str *name);
bool import_star(struct script *s, sv module, struct dict *into);

/* ---- tables of natives */
extern const struct script_native str_methods[], list_methods[], tuple_methods[], dict_methods[], set_methods[], int_methods[],
    float_methods[], object_methods[], type_methods[], property_methods[], gen_methods[], func_methods[], exception_methods[],
    builtin_functions[], iter_methods[], range_methods[], slice_methods[], method_methods[], view_methods[], super_methods[],
    frozenset_methods[], bool_methods[], wrap_methods[], enumerate_methods[], zip_methods[], map_methods[], filter_methods[],
    reversed_methods[], cached_methods[], module_methods[], none_methods[];
extern const struct script_member int_members[], func_members[], method_members[], type_members[], object_members[], exception_members[],
    code_members[], native_members[], range_members[], slice_members[], property_members[], alias_members[], gen_members[], super_members[],
    module_members[], cell_members[], wrap_members[], float_members[], view_members[], trace_members[];
extern const struct script_module *const builtin_modules[];
struct library_text {
    const char *name, *text;
};
extern const struct library_text library_texts[]; /* modules of the language itself */

#define AS(type, v) ((struct type *)(void *)(v).o)

#endif
