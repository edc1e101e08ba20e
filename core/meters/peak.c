#include "meters/peak.h"

#include "base/budget.h"
#include "meters/clock.h"

#include <string.h>

_Static_assert((int)STREAM_COUNT <= (int)TORCH_ALLOC_STREAMS, "the allocator model keeps a pool for every stream");

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASE_COUNT] = {"init", "batch", "forward", "loss",     "loss_backward",
                                                   "backward", "clip", "optimizer", "between", "prefill", "decode"};

    return names[phase];
}

const char *category_name(enum category category)
{
    static const char *const names[CATEGORY_COUNT] = {"parameters",    "gradients",  "optimizer_states", "activations",
                                                      "logits_and_loss", "communication", "temporaries",  "workspaces",
                                                      "buffers",       "inputs",     "block_slack",      "kv_cache"};

    return names[category];
}

const char *stage_name(enum stage stage)
{
    static const char *const names[STAGE_COUNT] = {"init", "batch",     "forward",   "loss", "backward",
                                                   "between", "clip", "optimizer", "zero_grad", "rest", "prefill", "decode"};

    return names[stage];
}

enum phase phase_of(const struct birth *b)
{
    static const uint8_t phases[STAGE_COUNT] = {PHASE_INIT,    PHASE_BATCH, PHASE_FORWARD,   PHASE_LOSS,    PHASE_BACKWARD,
                                                PHASE_BETWEEN, PHASE_CLIP,  PHASE_OPTIMIZER, PHASE_BETWEEN, PHASE_BETWEEN,
                                                PHASE_PREFILL, PHASE_DECODE};

    if (b->stage == STAGE_BACKWARD && b->forward_stage == STAGE_LOSS)
        return PHASE_LOSS_BACKWARD;
    return (enum phase)phases[b->stage];
}

enum category category_of(const struct tape *t, const struct birth *b)
{
    static const uint8_t marked[] = {[MARK_PARAMETER] = CATEGORY_PARAMETERS,
                                     [MARK_BUFFER] = CATEGORY_BUFFERS,
                                     [MARK_GRADIENT] = CATEGORY_GRADIENTS,
                                     [MARK_OPTIMIZER_STATE] = CATEGORY_OPTIMIZER_STATES,
                                     [MARK_WORKSPACE] = CATEGORY_WORKSPACES,
                                     [MARK_COMMUNICATION] = CATEGORY_COMMUNICATION,
                                     [MARK_CACHE] = CATEGORY_KV_CACHE};

    if (b->mark)
        return (enum category)marked[b->mark];
    switch ((enum stage)b->stage) {
    case STAGE_INIT:
        return CATEGORY_PARAMETERS; /* what loading leaves behind */
    case STAGE_BATCH:
        return CATEGORY_INPUTS;
    case STAGE_LOSS:
        return CATEGORY_LOGITS_AND_LOSS;
    case STAGE_FORWARD:
    case STAGE_PREFILL:
    case STAGE_DECODE:
        return b->module == t->head_module && b->module ? CATEGORY_LOGITS_AND_LOSS : CATEGORY_ACTIVATIONS;
    case STAGE_BACKWARD:
        if (b->forward_stage == STAGE_LOSS)
            return CATEGORY_LOGITS_AND_LOSS;
        return b->recompute ? CATEGORY_ACTIVATIONS : CATEGORY_TEMPORARIES;
    default:
        return CATEGORY_TEMPORARIES;
    }
}

/* -------------------------------------------------------------------------------------------------------------- peaks */
/* Dead blocks that another stream reads, on a GPU that is past them only when the host has waited: of `deaths` so far, those
 * before event `at` have passed. */
struct held {
    uint64_t bytes;
    uint32_t at, deaths, passed;
};

static void hold(const struct birth *b, struct held *h)
{
    h->bytes += torch_alloc_round(b->bytes);
    h->deaths++;
}

/* Event `i`, which is not of a block: what the host knows to have passed after it. */
static void pass(const struct tape *t, uint32_t i, struct held *h)
{
    uint32_t position = t->events[i] & EVENT_POSITION; /* of EVENT_SYNC and EVENT_RELEASE: beyond every tape */
    uint32_t until = position < i ? position : i;

    if (h->deaths == h->passed && h->at < until) /* none is held */
        h->at = until;
    for (; h->at < until; h->at++) {
        uint32_t e = t->events[h->at];
        const struct birth *b = &t->births[e & EVENT_BLOCK];

        if (!(e & EVENT_DEATH) || !b->readers)
            continue;
        h->bytes -= torch_alloc_round(b->bytes);
        h->passed++;
    }
}

/* The highest moments are kept by what a phase is read from. */
enum { OF_LOSS = STAGE_COUNT, KINDS_OF_MOMENT = 2 * STAGE_COUNT };

struct walking {
    uint64_t live, peak, active;
    uint64_t high[KINDS_OF_MOMENT];
    uint32_t at, blocks, most;
    struct held held;
};

/* A birth at event i, with which so much is allocated. */
static inline void note(struct walking *w, const struct birth *b, uint32_t i, uint64_t live)
{
    uint32_t kind = b->stage + (b->forward_stage == STAGE_LOSS ? (uint32_t)OF_LOSS : 0);

    w->high[kind] = live > w->high[kind] ? live : w->high[kind];
    if (live > w->peak) {
        w->peak = live;
        w->at = i;
    }
}

static inline void note_active(struct walking *w, uint64_t active)
{
    w->active = active > w->active ? active : w->active;
}

static void walk_events(const struct tape *t, uint32_t from, uint32_t until, struct walking *w)
{
    uint64_t live = w->live;
    uint32_t blocks = w->blocks;

    for (uint32_t i = from; i < until; i++) {
        uint32_t e = t->events[i];
        const struct birth *b = &t->births[e & EVENT_BLOCK];

        if (!event_is_of_block(e)) {
            pass(t, i, &w->held);
            continue;
        }
        if (e & EVENT_DEATH) {
            live -= torch_alloc_round(b->bytes);
            blocks--;
            if (b->readers)
                hold(b, &w->held);
            continue;
        }
        live += torch_alloc_round(b->bytes);
        blocks++;
        if (blocks + w->held.deaths - w->held.passed > w->most)
            w->most = blocks + w->held.deaths - w->held.passed;
        note(w, b, i, live);
        if (w->held.bytes)
            note_active(w, live + w->held.bytes);
    }
    w->live = live;
    w->blocks = blocks;
}

/* Where the steps begin, and where those of them whose peaks are told. */
static void begin_steps(struct walking *w, struct peak *p)
{
    p->loading_bytes = w->peak;
    p->static_bytes = w->live;
    w->peak = 0;
}

static void begin_peaks(struct walking *w, struct peak *p)
{
    p->first_bytes = w->peak;
    p->peak_bytes = w->peak = w->active = w->live;
    w->at = 0;
    memset(w->high, 0, sizeof w->high);
}

static void finish(const struct tape *t, const struct walking *w, struct peak *p)
{
    for (uint32_t kind = 0; kind < KINDS_OF_MOMENT; kind++) {
        struct birth b = {.stage = (uint8_t)(kind % OF_LOSS), .forward_stage = kind < OF_LOSS ? STAGE_INIT : STAGE_LOSS};
        uint64_t *phase = &p->phase_bytes[phase_of(&b)];

        *phase = w->high[kind] > *phase ? w->high[kind] : *phase;
    }
    p->peak_phase = w->peak > p->peak_bytes ? phase_of(&t->births[t->events[w->at]]) : PHASE_INIT;
    p->peak_bytes = w->peak;
    p->peak_event = w->at;
    p->active_bytes = w->active > w->peak ? w->active : w->peak;
    p->resting_bytes = w->live;
}

void peak_walk(const struct tape *t, struct peak *ret)
{
    struct walking w = {0};
    struct peak p = {0};

    walk_events(t, 0, t->steps_begin, &w);
    begin_steps(&w, &p);
    walk_events(t, t->steps_begin, t->peaks_begin, &w);
    begin_peaks(&w, &p);
    walk_events(t, t->peaks_begin, t->n_events, &w);
    finish(t, &w, &p);
    p.most_live = w.most;
    p.crossed = w.held.deaths > 0;
    *ret = p;
}

/* An event that is not of a block. */
static void play_other(const struct tape *t, uint32_t i, struct torch_alloc *alloc, struct held *h)
{
    pass(t, i, h);
    if (t->events[i] == EVENT_RELEASE)
        torch_alloc_empty_cache(alloc);
    else
        torch_alloc_wait(alloc, h->passed);
}

/* The host is about to take or give a block. */
static void tell_time(const struct tape *t, uint32_t i, struct torch_alloc *alloc)
{
    if (i < t->clock_begins)
        return;
    if (i >= t->clock->next)
        t->clock->advance(t->clock, i);
    torch_alloc_time(alloc, t->clock->host_s);
}

static void give_block(const struct tape *t, uint32_t i, uint32_t block, struct torch_alloc *alloc)
{
    const struct birth *b = &t->births[block];

    if (!t->clock || !b->readers || i < t->clock_begins) {
        torch_alloc_give(alloc, block);
        return;
    }
    tell_time(t, i, alloc);
    torch_alloc_give_until(alloc, block, t->clock->passes(t->clock, b->readers));
}

enum { COUNT_EVERY = 4096 }; /* events */

static bool count(const struct tape *t, uint32_t from, uint32_t *ret_until)
{
    uint32_t n = t->n_events - from < COUNT_EVERY ? t->n_events - from : COUNT_EVERY;

    *ret_until = from + n;
    return budget_spend(t->budget, n / EVENTS_REPLAYED);
}

/* Event `i` is a birth whose block dies in the next, which nobody looks at. */
static bool dies_at_once(const struct tape *t, uint32_t i)
{
    return i + 1 < t->n_events && t->events[i + 1] == (t->events[i] | EVENT_DEATH) && !t->births[t->events[i]].readers &&
           i + 1 != t->steps_begin && i + 1 != t->peaks_begin;
}

/* A birth whose block dies in the next event: true where a cached block had room, which nobody sees change. */
static bool visit(const struct tape *t, uint32_t i, struct torch_alloc *alloc, bool crossed, struct walking *w)
{
    const struct birth *b = &t->births[t->events[i]];
    uint64_t bytes = dies_at_once(t, i) ? torch_alloc_visit(alloc, b->bytes, b->stream) : 0;

    if (!bytes)
        return false;
    note(w, b, i, w->live + bytes);
    if (crossed)
        note_active(w, torch_alloc_active_bytes(alloc) + bytes);
    return true;
}

bool peak_replay(const struct tape *t, struct torch_alloc *alloc, struct peak *ret)
{
    struct walking w = {0};
    struct peak p = {0};
    uint32_t counted = 0;

    if (t->clock)
        t->clock->begin(t->clock);
    if (t->limits_loading)
        torch_alloc_limit(alloc, t->capacity_bytes);
    for (uint32_t i = 0; i < t->n_events; i++) {
        uint32_t e = t->events[i], block = e & EVENT_BLOCK;
        const struct birth *b = &t->births[block];

        if (i >= counted && !count(t, counted, &counted))
            return false;
        if (i == t->steps_begin) {
            torch_alloc_reset_peaks(alloc);
            torch_alloc_forget_retries(alloc);
            torch_alloc_limit(alloc, t->capacity_bytes);
            begin_steps(&w, &p);
        }
        if (i == t->peaks_begin)
            begin_peaks(&w, &p);
        if (!event_is_of_block(e)) {
            play_other(t, i, alloc, &w.held);
            continue;
        }
        if (e & EVENT_DEATH) {
            w.live -= torch_alloc_block_bytes(alloc, block);
            if (b->readers)
                w.held.deaths++;
            give_block(t, i, block, alloc);
            continue;
        }
        if (t->clock)
            tell_time(t, i, alloc);
        if (visit(t, i, alloc, p.crossed, &w)) {
            i++;
            continue;
        }
        if (!torch_alloc_take(alloc, block, b->bytes, b->stream))
            return false;
        if (b->readers) {
            torch_alloc_cross(alloc, block);
            p.crossed = true;
        }
        w.live += torch_alloc_block_bytes(alloc, block);
        note(&w, b, i, w.live);
        if (p.crossed)
            note_active(&w, torch_alloc_active_bytes(alloc));
    }
    finish(t, &w, &p);
    *ret = p;
    return true;
}

/* -------------------------------------------------------------------------------------------------------- what is alive */
static bool same(const struct alike *a, const struct alike *b)
{
    return a->op == b->op && a->category == b->category && a->stage == b->stage && a->bytes_each == b->bytes_each;
}

enum { KINDS = 4096 }; /* different groups alive at once; open addressing */

static struct alike *kind_of(struct alike *table, const struct alike *key)
{
    uint64_t h = (key->bytes_each / 512) * UINT64_C(0x9E3779B97F4A7C15) + key->op * UINT64_C(0x85EBCA6B) +
                 key->category * UINT64_C(0xC2B2AE35) + key->stage * UINT64_C(0x27D4EB2F);

    for (uint32_t i = 0; i < KINDS; i++) {
        struct alike *k = &table[((h >> 20 ^ h) + i) & (KINDS - 1)];

        if (!k->count || same(k, key))
            return k;
    }
    return NULL;
}

static void keep_largest(struct alike *groups, uint32_t *n, uint32_t max, const struct alike *k)
{
    uint32_t at = *n;
    uint64_t sum = k->bytes_each * k->count;

    while (at && (groups[at - 1].bytes_each * groups[at - 1].count < sum ||
                  (groups[at - 1].bytes_each * groups[at - 1].count == sum && groups[at - 1].first > k->first)))
        at--;
    if (at >= max)
        return;
    if (*n < max)
        ++*n;
    for (uint32_t i = *n - 1; i > at; i--)
        groups[i] = groups[i - 1];
    groups[at] = *k;
}

enum err_code peak_describe(const struct tape *t, const struct peak *p, struct arena *scratch,
                            uint64_t breakdown[CATEGORY_COUNT], uint32_t max_groups, struct alike *groups, uint32_t *ret_groups,
                            struct err *err)
{
    unsigned char *mark = scratch->cur;
    uint8_t *live = arena_array(scratch, uint8_t, t->n_births + 1);
    struct alike *table = arena_array(scratch, struct alike, KINDS);
    uint64_t sum = 0;
    uint32_t n = 0;

    if (!live || !table)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small to describe the peak");
    memset(breakdown, 0, sizeof breakdown[0] * CATEGORY_COUNT);
    for (uint32_t i = 0; i <= p->peak_event && i < t->n_events; i++)
        if (event_is_of_block(t->events[i]))
            live[t->events[i] & EVENT_BLOCK] = !(t->events[i] & EVENT_DEATH);
    for (uint32_t i = 0; i < t->n_births; i++) {
        const struct birth *b = &t->births[i];
        struct alike key = {b->op, 0, b->stage, i, 0, 0}, *k;

        if (!live[i])
            continue;
        key.category = (uint8_t)category_of(t, b);
        key.bytes_each = torch_alloc_round(b->bytes);
        breakdown[key.category] += key.bytes_each;
        sum += key.bytes_each;
        k = kind_of(table, &key);
        if (!k)
            continue;
        if (!k->count)
            *k = key;
        k->count++;
    }
    breakdown[CATEGORY_BLOCK_SLACK] = p->peak_bytes - sum;
    for (uint32_t i = 0; i < KINDS; i++)
        if (table[i].count)
            keep_largest(groups, &n, max_groups, &table[i]);
    *ret_groups = n;
    arena_rewind(scratch, mark);
    return ERR_OK;
}
