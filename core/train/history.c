#include "train/history.h"

#include "base/budget.h"
#include "torch/alloc.h"
#include "train/play.h"

struct telling {
    const struct tape *tape;
    const struct history_reader *reader;
    struct torch_alloc *alloc;
    uint32_t at, block;
    uint64_t live_bytes;
    bool full;
    uint64_t *address; /* by birth, of those alive at the end */
    uint32_t *by_address, n_left;
};

static void tell(struct telling *t, struct history_event e)
{
    e.at = t->at;
    e.allocated_bytes = t->live_bytes;
    e.reserved_bytes = torch_alloc_stats(t->alloc).reserved_bytes;
    t->full |= !t->reader->event(t->reader->of, &e);
}

static void tell_segment(void *of, bool taken, uint64_t address, uint64_t bytes, unsigned stream, bool small)
{
    struct telling *t = of;

    tell(t, (struct history_event){.kind = taken ? HISTORY_SEGMENT : HISTORY_SEGMENT_GONE,
                                   .block = t->block,
                                   .address = address,
                                   .bytes = bytes,
                                   .asked_bytes = bytes,
                                   .stream = stream,
                                   .small = small});
}

static void tell_block(struct telling *t, bool born, uint32_t block)
{
    const struct birth *b = &t->tape->births[block];
    struct history_event e = {.kind = born ? HISTORY_BORN : HISTORY_DIED,
                              .block = block,
                              .birth = b,
                              .phase = phase_of(b),
                              .category = category_of(t->tape, b),
                              .address = torch_alloc_address(t->alloc, block),
                              .bytes = torch_alloc_block_bytes(t->alloc, block),
                              .asked_bytes = b->bytes,
                              .stream = b->stream};

    t->live_bytes += born ? e.bytes : 0;
    t->live_bytes -= born ? 0 : e.bytes;
    tell(t, e);
}

/* An event that is not of a block: what streams hold is free at once here. */
static void pass(struct telling *t, uint32_t event)
{
    if (event == EVENT_RELEASE)
        torch_alloc_empty_cache(t->alloc);
}

static bool play(struct telling *t)
{
    const struct tape *tape = t->tape;

    if (tape->limits_loading)
        torch_alloc_limit(t->alloc, tape->capacity_bytes);
    for (uint32_t i = 0; i < tape->n_events && !t->full; i++) {
        uint32_t e = tape->events[i], block = e & EVENT_BLOCK;

        t->at = i;
        if (i == tape->steps_begin)
            torch_alloc_limit(t->alloc, tape->capacity_bytes);
        if (!event_is_of_block(e)) {
            pass(t, e);
        } else if (e & EVENT_DEATH) {
            tell_block(t, false, block);
            torch_alloc_give(t->alloc, block);
        } else {
            t->block = block;
            if (!torch_alloc_take(t->alloc, block, tape->births[block].bytes, tape->births[block].stream))
                return false;
            if (tape->births[block].readers)
                torch_alloc_cross(t->alloc, block);
            tell_block(t, true, block);
        }
    }
    return !t->full;
}

/* --- what is left ------------------------------------------------------------------------------------------------------------- */

static void sift(const uint64_t *key, uint32_t *v, uint32_t n, uint32_t i)
{
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        uint32_t moved = v[i];

        child += child + 1 < n && key[v[child + 1]] > key[v[child]];
        if (key[v[child]] <= key[moved])
            return;
        v[i] = v[child];
        v[child] = moved;
    }
}

static void sort_by_address(struct telling *t)
{
    for (uint32_t i = t->n_left / 2; i-- > 0;)
        sift(t->address, t->by_address, t->n_left, i);
    for (uint32_t n = t->n_left; n-- > 1;) {
        uint32_t last = t->by_address[n];

        t->by_address[n] = t->by_address[0];
        t->by_address[0] = last;
        sift(t->address, t->by_address, n, 0);
    }
}

static uint32_t holder(const struct telling *t, uint64_t address)
{
    uint32_t low = 0, n = t->n_left;

    while (n > 1) {
        low += t->address[t->by_address[low + n / 2]] <= address ? n / 2 : 0;
        n -= n / 2;
    }
    return t->n_left && t->address[t->by_address[low]] == address ? t->by_address[low] : HISTORY_NOBODY;
}

static void see(void *of, const struct torch_block *b)
{
    const struct telling *t = of;

    t->reader->left(t->reader->of, b, b->cached ? HISTORY_NOBODY : holder(t, b->address));
}

static enum err_code tell_left(struct telling *t, struct arena *arena, struct err *err)
{
    uint32_t n = t->tape->n_births;

    t->address = arena_array(arena, uint64_t, n);
    t->by_address = arena_array(arena, uint32_t, n);
    if (!t->address || !t->by_address)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for a snapshot");
    for (uint32_t i = 0; i < n; i++) {
        t->address[i] = torch_alloc_address(t->alloc, i);
        if (t->address[i])
            t->by_address[t->n_left++] = i;
    }
    sort_by_address(t);
    return torch_alloc_each_block(t->alloc, arena, see, t, err);
}

/* --- the whole ---------------------------------------------------------------------------------------------------------------- */

static enum err_code tell_run(const struct taped *run, bool expandable, const struct history_reader *reader, struct arena *arena,
                              struct err *err)
{
    struct telling t = {.tape = &run->tape, .reader = reader};
    const struct torch_alloc_watch watch = {&t, tell_segment};
    struct history h = {&run->t->model.tree,   run->tape.n_births,    run->tape.n_events,
                        run->tape.steps_begin, run->tape.peaks_begin, run->t->last_begins};
    struct torch_alloc_options o = {.expandable = expandable, .addresses_fall = run->tape.addresses_fall, .max_live = run->tape.n_births};
    struct peak walk;
    enum err_code rc;

    peak_walk(&run->tape, &walk);
    o.max_blocks = 3 * walk.most_live + 4096;
    rc = torch_alloc_new(arena, &o, &t.alloc, err);
    if (!rc)
        rc = budget_take(arena->budget, run->tape.n_events / EVENTS_REPLAYED, err);
    if (rc)
        return rc;
    torch_alloc_watch(t.alloc, &watch);
    if (!reader->begin(reader->of, &h) || !play(&t))
        rc = torch_alloc_status(t.alloc, err);
    if (!rc && (t.full || torch_alloc_stats(t.alloc).oom))
        rc = err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for the history of this step");
    return rc || !reader->left ? rc : tell_left(&t, arena, err);
}

enum err_code train_history(const struct arch *arch, const struct step *step, const struct device *device, uint64_t capacity_bytes,
                            bool expandable_segments, const struct history_reader *reader, struct arena *arena, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct play_question q = {arch, step, device, LOOK_REPLAY, false, false};
    struct taped run;
    enum err_code rc = train_play(&q, arena, &run, err);

    run.tape.capacity_bytes = capacity_bytes;
    run.tape.limits_loading = train_loads_as_played(step);
    if (!rc)
        rc = tell_run(&run, expandable_segments, reader, arena, err);
    arena_rewind(arena, arena_kept(arena, mark));
    return rc;
}
