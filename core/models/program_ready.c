/* program_ready.c - modules that were imported once, for all walks of a question, and of all questions where their files are the service's own. */
#include "models/installed.h"
#include "models/program_parts.h"
#include "models/stand_in.h"
#include "script/freeze.h"

#include "base/budget.h"

#include <string.h>

struct program_ready *program_ready(struct arena *arena)
{
    bool fits = (size_t)(arena->end - arena->cur) > 2 * (size_t)READY_ROOM;
    struct stands *stands = (size_t)(arena->end - arena->cur) > 2 * (size_t)STANDS_ROOM ? program_stands_new(arena) : NULL;
    struct program_ready *r = fits ? arena_new(arena, struct program_ready) : NULL;
    void *room = r ? arena_push_raw(arena, READY_ROOM, 64, 1) : NULL;

    if (!room)
        return NULL;
    arena_init(&r->arena, room, READY_ROOM);
    r->stands = stands;
    return r;
}

bool program_is_kept(const struct program_ready *r)
{
    return r->used;
}

struct script_host program_host(const struct program_source *from)
{
    if (from->host)
        return *from->host;
    if (from->installed)
        return (struct script_host){.source = installed_source, .files = from->installed};
    return (struct script_host){.source = from->n_files ? stand_in_source : NULL};
}

struct making {
    const struct program_source *from;
    const struct quirks *q;
    bool layers_wrapped;
    unsigned capability;
};

/* What runs ask for by and by, whatever the family: imported with the rest, else each model that stands is written when its first run asks. */
static const char *const asked_later[] = {"torch.utils.checkpoint", "torch.nn._module", "torch._return_types", "torch._formulas", "torch.cuda.amp", "copy"};

static bool import_what_is_asked_later(struct script *s)
{
    for (size_t i = 0; i < sizeof asked_later / sizeof *asked_later; i++) {
        sv module = script_import(s, asked_later[i]);

        if (!sv_ok(module))
            return false;
        sv_drop(s, module);
    }
    return true;
}

/* A config looks at the annotations of its classes when it is made, and a class without any gets a dict then. */
static bool annotate(struct script *s, sv config_class)
{
    sv mro = script_get(s, config_class, script_symbol(s, "__mro__")), found;
    uint32_t n = 0;
    const sv *classes = sv_ok(mro) ? seq_items(mro, &n) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        found = sv_null();
        if (script_find(s, classes[i], script_symbol(s, "__annotations__"), &found) < 0)
            return false;
        sv_drop(s, found);
    }
    sv_drop(s, mro);
    return classes;
}

/* The program with its modules imported. */
static struct script *import_all(void *of, struct arena *arena, struct arena *apart, void **root)
{
    const struct making *m = of;
    struct program *p = *root = arena_new(arena, struct program);
    struct script_host host = program_host(m->from);
    struct err err = {0};
    sv config_class;

    if (!p)
        return NULL;
    host.of = &p->n;
    if (script_new_apart(arena, apart, m->from->image, &script_limits_default, &host, &p->s, &err) ||
        natives_begin(&p->n, p->s, apart, m->q, &err))
        return NULL;
    p->n.layers_wrapped = m->layers_wrapped;
    p->n.capability = m->capability;
    if (!sv_ok(program_classes(p, m->from, &config_class)) || !annotate(p->s, config_class) || !import_what_is_asked_later(p->s))
        return NULL;
    return natives_sleep(&p->n) ? p->s : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ the shelf */
enum { SHELF_ROWS = 48, SHELF_ROOM = 12 << 20 };

/* All that importing reads. */
struct shelf_key {
    struct quirks q;
    bool layers_wrapped;
    char names[4][96];
};

struct program_shelf {
    void (*lock)(bool);
    struct arena arena;
    uint32_t n;
    struct shelf_row {
        struct shelf_key key;
        const struct frozen *frozen;
        uint64_t events; /* that importing took */
    } rows[SHELF_ROWS];
};

struct program_shelf *program_shelf_new(struct arena *arena, void (*lock)(bool))
{
    struct program_shelf *s = arena_new(arena, struct program_shelf);
    void *room = s ? arena_push_raw(arena, SHELF_ROOM, 64, 1) : NULL;

    if (!room)
        return NULL;
    arena_init(&s->arena, room, SHELF_ROOM);
    s->lock = lock;
    return s;
}

/* False: it is nobody else's. */
static bool key_of(const struct model *m, struct shelf_key *ret)
{
    const struct program_source *from = m->source;
    const char *names[] = {from->module, from->config_module, from->config_class, from->model_class};

    if (!from->shelf || program_is_of_files(from))
        return false;
    memset(ret, 0, sizeof *ret); /* gaps are compared too */
    memcpy(&ret->q, m->q, sizeof ret->q);
    ret->layers_wrapped = m->layers_wrapped;
    for (int i = 0; i < 4; i++) {
        size_t n = names[i] ? strlen(names[i]) : 0;

        if (n >= sizeof ret->names[i])
            return false;
        if (n)
            memcpy(ret->names[i], names[i], n);
    }
    return true;
}

static void locked(const struct program_shelf *s, bool is)
{
    if (s->lock)
        s->lock(is);
}

/* What is found takes as many events as importing it. */
static const struct frozen *from_shelf(struct program_shelf *s, const struct shelf_key *key, struct budget *budget)
{
    const struct frozen *found = NULL;
    uint64_t events = 0;

    locked(s, true);
    for (uint32_t i = 0; !found && i < s->n; i++)
        if (!memcmp(&s->rows[i].key, key, sizeof *key)) {
            found = s->rows[i].frozen;
            events = s->rows[i].events;
        }
    locked(s, false);
    if (found)
        (void)budget_spend(budget, events); /* beyond the limit: the walk sees that */
    return found;
}

/* Where it has no room whoever wants it imports. */
static void to_shelf(struct program_shelf *s, const struct shelf_key *key, const struct frozen *frozen, uint64_t events)
{
    bool is_there = false;
    const struct frozen *own;

    locked(s, true);
    for (uint32_t i = 0; i < s->n; i++)
        is_there = is_there || !memcmp(&s->rows[i].key, key, sizeof *key); /* another thread was first */
    own = !is_there && s->n < SHELF_ROWS ? script_frozen_copy(frozen, &s->arena) : NULL;
    if (own) {
        memcpy(&s->rows[s->n].key, key, sizeof *key);
        s->rows[s->n].frozen = own;
        s->rows[s->n++].events = events;
    }
    locked(s, false);
}

/* -------------------------------------------------------------------------------------------------------------------- */
static unsigned capability_of(const struct model *m)
{
    return program_is_of_files(m->source) ? m->capability : 0;
}

static const struct frozen *import_once(struct model *m)
{
    struct program_ready *r = m->source->ready;
    struct making making = {m->source, m->q, m->layers_wrapped, capability_of(m)};
    struct arena *arena = m->tree.arena;
    uint64_t before = arena->budget ? arena->budget->events : 0;
    const struct frozen *frozen = NULL;
    struct shelf_key key;
    bool shared = key_of(m, &key);

    if (shared)
        frozen = from_shelf(m->source->shelf, &key, arena->budget);
    if (frozen)
        return frozen;
    arena_init(&r->arena, (unsigned char *)r->arena.end - READY_ROOM, READY_ROOM);
    frozen = script_freeze(&r->arena, arena, import_all, &making);
    if (shared && frozen && arena->budget && !budget_is_over(arena->budget))
        to_shelf(m->source->shelf, &key, frozen, arena->budget->events - before);
    return frozen;
}

const struct frozen *program_imported(struct model *m)
{
    struct program_ready *r = m->source->ready;

    if (!r || r->state == READY_NEVER)
        return NULL;
    if (r->state == READY_KEPT && !memcmp(&r->q, m->q, sizeof r->q) && r->layers_wrapped == m->layers_wrapped &&
        r->capability == capability_of(m))
        return r->frozen;
    r->q = *m->q;
    r->layers_wrapped = m->layers_wrapped;
    r->capability = capability_of(m);
    r->frozen = import_once(m);
    r->state = r->frozen ? READY_KEPT : READY_NEVER;
    r->used = r->frozen;
    return r->frozen;
}
