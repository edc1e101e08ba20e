/* The replayed step over its events: what is allocated, of what category, and what was born at each point. */
#include "api/answer/estimate.h"

#include "torch/module.h"
#include "train/history.h"

#include <string.h>

enum { POINTS = 800, LARGEST = 48 };

struct point {
    bool seen;
    uint32_t at, module;
    uint16_t op, node;
    uint8_t phase, category;
    bool recompute;
    uint64_t bytes, allocated_bytes, reserved_bytes;
    uint64_t by_category[CATEGORY_COUNT];
};

struct life {
    uint32_t block, module, born, died; /* died 0: not within the step */
    uint16_t op;
    uint8_t phase, category;
    uint64_t bytes;
};

/* Where the figures of a step come from: live blocks by category; a stretch of events is told by its highest point. */
struct timeline {
    struct arena *arena;
    const struct tree *tree;
    uint32_t begins, n_events, last_begins;
    uint64_t by_category[CATEGORY_COUNT];
    struct point point[POINTS];
    uint32_t n_lives;
    struct life life[LARGEST];
    const char **module; /* of each point, then of each life: its path */
};

enum err_code history_of(struct estimate *e, const struct plan_candidate *c, const struct history_reader *reader, struct arena *scratch)
{
    struct step step = c->step;
    uint64_t limit = e->question.capacity_bytes - (uint64_t)(e->question.margin * (double)e->question.capacity_bytes);
    uint64_t beside = c->device_bytes - measured_reserved(&c->memory, e->question.expandable_segments);

    step.r.rank = c->memory.worst_rank;
    return train_history(&e->model.arch, &step, &e->question.device, c->retries ? limit - beside : 0, e->question.expandable_segments,
                         reader, scratch, e->call->err);
}

/* --- taken -------------------------------------------------------------------------------------------------------------------- */

static bool begin(void *of, const struct history *h)
{
    struct timeline *t = of;

    t->tree = h->tree;
    t->begins = h->peaks_begin;
    t->last_begins = h->last_begins;
    t->n_events = h->n_events;
    return t->n_events > t->begins;
}

static uint64_t rounded(const struct history_event *e)
{
    return torch_alloc_round(e->asked_bytes);
}

static void count(struct timeline *t, const struct history_event *e)
{
    uint64_t sign = e->kind == HISTORY_BORN ? 1 : (uint64_t)-1;

    t->by_category[e->category] += sign * rounded(e);
    t->by_category[CATEGORY_BLOCK_SLACK] += sign * (e->bytes - rounded(e));
}

/* The largest that are born, by bytes; of equals the first. */
static void keep_life(struct timeline *t, const struct history_event *e)
{
    uint32_t at = t->n_lives;
    struct life life = {e->block, e->birth->module, e->at, 0, e->birth->op, (uint8_t)e->phase, (uint8_t)e->category, e->bytes};

    while (at && t->life[at - 1].bytes < life.bytes)
        at--;
    if (at == LARGEST)
        return;
    t->n_lives += t->n_lives < LARGEST;
    memmove(t->life + at + 1, t->life + at, (t->n_lives - 1 - at) * sizeof life);
    t->life[at] = life;
}

static void end_life(struct timeline *t, const struct history_event *e)
{
    for (uint32_t i = 0; i < t->n_lives; i++)
        if (t->life[i].block == e->block)
            t->life[i].died = e->at;
}

static bool event(void *of, const struct history_event *e)
{
    struct timeline *t = of;
    struct point *p;

    if (!e->birth)
        return true;
    count(t, e);
    if (e->kind == HISTORY_DIED)
        end_life(t, e);
    if (e->kind != HISTORY_BORN || e->at < t->begins)
        return true;
    keep_life(t, e);
    p = &t->point[(uint64_t)(e->at - t->begins) * POINTS / (t->n_events - t->begins)];
    if (p->seen && p->allocated_bytes >= e->allocated_bytes)
        return true;
    *p = (struct point){true,
                        e->at,
                        e->birth->module,
                        e->birth->op,
                        e->birth->node,
                        (uint8_t)e->phase,
                        (uint8_t)e->category,
                        e->birth->recompute,
                        e->bytes,
                        e->allocated_bytes,
                        e->reserved_bytes,
                        {0}};
    memcpy(p->by_category, t->by_category, sizeof p->by_category);
    return true;
}

/* Paths of modules while the tree stands: it goes with the run. */
static bool name_modules(struct timeline *t)
{
    char text[128];

    t->module = arena_array(t->arena, const char *, POINTS + LARGEST);
    for (uint32_t i = 0; t->module && i < POINTS + LARGEST; i++) {
        uint32_t number = i < POINTS ? t->point[i].module : t->life[i - POINTS].module;
        const char *path = module_path(t->tree, number, text, sizeof text);

        t->module[i] = i && i != POINTS && t->module[i - 1] && !strcmp(path, t->module[i - 1]) ? t->module[i - 1]
                                                                                               : arena_str(t->arena, path, strlen(path));
        if (!t->module[i])
            return false;
    }
    return t->module != NULL;
}

static void left(void *of, const struct torch_block *b, uint32_t block)
{
    struct timeline *t = of;

    (void)b, (void)block;
    if (!t->module && !name_modules(t))
        t->module = NULL;
}

/* Nothing where no model ran, or where the work ended. */
enum err_code timeline_take(struct estimate *e, struct arena *scratch)
{
    const struct plan_candidate *c = e->answer.candidates;
    struct timeline *t = arena_new(e->call->arena, struct timeline);
    const struct history_reader reader = {t, begin, event, left};
    enum err_code rc;

    if (!t)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the timeline");
    t->arena = e->call->arena;
    rc = history_of(e, c, &reader, scratch);
    if (rc == ERR_BUDGET) {
        note(&e->warnings, "?timeline: the work that one question may cause ended before it");
        return ERR_OK;
    }
    if (!rc && !t->module)
        rc = err_set(e->call->err, ERR_NOMEM, "", "no room for the timeline");
    e->timeline = t;
    return rc;
}

/* --- written ------------------------------------------------------------------------------------------------------------------ */

#define EACH(t, p)                                                         \
    for (const struct point *p = (t)->point; p < (t)->point + POINTS; p++) \
        if (p->seen)

static void write_numbers(struct jsonw *w, const char *name, const struct timeline *t, uint64_t (*of)(const struct point *p))
{
    jsonw_array(w, name);
    EACH(t, p) jsonw_u64(w, NULL, of(p));
    jsonw_end(w);
}

static uint64_t at_of(const struct point *p)
{
    return p->at;
}

static uint64_t allocated_of(const struct point *p)
{
    return p->allocated_bytes;
}

static uint64_t reserved_of(const struct point *p)
{
    return p->reserved_bytes;
}

static uint64_t bytes_of(const struct point *p)
{
    return p->bytes;
}

static void write_categories(struct jsonw *w, const struct timeline *t)
{
    jsonw_object(w, "by_category");
    for (int c = 0; c < CATEGORIES_OF_A_STEP; c++) {
        jsonw_array(w, category_name((enum category)c));
        EACH(t, p) jsonw_u64(w, NULL, p->by_category[c]);
        jsonw_end(w);
    }
    jsonw_end(w);
}

static void write_names(struct jsonw *w, const struct timeline *t)
{
    jsonw_array(w, "phase");
    EACH(t, p) jsonw_str(w, NULL, phase_name((enum phase)p->phase));
    jsonw_end(w);
    jsonw_array(w, "op");
    EACH(t, p) jsonw_str(w, NULL, op_rows[p->op].aten);
    jsonw_end(w);
    jsonw_array(w, "category");
    EACH(t, p) jsonw_str(w, NULL, category_name((enum category)p->category));
    jsonw_end(w);
    jsonw_array(w, "module");
    EACH(t, p) jsonw_str(w, NULL, t->module[p - t->point]);
    jsonw_end(w);
}

static void write_lives(struct jsonw *w, const struct timeline *t)
{
    jsonw_array(w, "largest");
    for (uint32_t i = 0; i < t->n_lives; i++) {
        const struct life *l = &t->life[i];

        jsonw_object(w, NULL);
        jsonw_str(w, "op", op_rows[l->op].aten);
        jsonw_str(w, "category", category_name((enum category)l->category));
        jsonw_str(w, "phase", phase_name((enum phase)l->phase));
        jsonw_str(w, "module", t->module[POINTS + i]);
        jsonw_u64(w, "bytes", l->bytes);
        jsonw_u64(w, "born", l->born);
        if (l->died)
            jsonw_u64(w, "died", l->died);
        else
            jsonw_null(w, "died");
        jsonw_end(w);
    }
    jsonw_end(w);
}

void timeline_write(struct jsonw *w, const struct estimate *e)
{
    const struct timeline *t = e->timeline;

    if (!t)
        return;
    w->pretty = false; /* columns of numbers: a line each would be most of the answer */
    jsonw_object(w, "timeline");
    jsonw_u64(w, "begins", t->begins);
    jsonw_u64(w, "last_step_begins", t->last_begins);
    jsonw_u64(w, "ends", t->n_events);
    write_numbers(w, "at", t, at_of);
    write_numbers(w, "allocated_bytes", t, allocated_of);
    write_numbers(w, "reserved_bytes", t, reserved_of);
    write_numbers(w, "bytes", t, bytes_of);
    write_names(w, t);
    write_categories(w, t);
    write_lives(w, t);
    jsonw_end(w);
    w->pretty = true;
}
