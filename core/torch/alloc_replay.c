/* alloc_replay.c - see alloc.h. Function names in comments are those of c10/cuda/CUDACachingAllocator.cpp. */
#include "torch/alloc_inside.h"

#include "base/budget.h"

#include <math.h>

/* kMinBlockSize */
#define MIN_BLOCK_BYTES UINT64_C(512)

/* Births and deaths ------------------------------------------------------------------------------------------------------ */

/* What a cached block could grow to. */
static uint64_t reach(const struct torch_alloc *t, uint32_t of)
{
    const struct block *b = &t->blocks[of];

    return b->bytes + (is_hole(t, b->next) ? t->blocks[b->next].bytes : 0);
}

/* get_free_block(): the smallest that fits, the lowest among equals. An expandable one counts as large as it could grow, so
 * that a larger block elsewhere is preferred to the end of the segment. */
static uint32_t best_fit(const struct torch_alloc *t, const struct pool *p, uint8_t stream, uint64_t want)
{
    uint32_t b = shelves_fit(&p->free, stream, want), next;

    while (b && t->expandable && is_hole(t, t->blocks[b].next)) { /* else none after it reaches less far */
        next = shelves_next(t, &p->free, b);
        if (!next || reach(t, next) >= reach(t, b))
            break;
        b = next;
    }
    return b;
}

/* should_split() */
static bool splits(const struct torch_alloc *t, const struct pool *p, uint64_t rest)
{
    return p->small || t->expandable ? rest >= MIN_BLOCK_BYTES : rest > ALLOC_SMALL_BYTES;
}

/* alloc_found_block(): b is handed out, its rest stays cached. */
static void claim(struct torch_alloc *t, struct pool *p, uint32_t b, uint64_t want)
{
    uint64_t rest = t->blocks[b].bytes - want;

    shelf_take(t, &p->free, b);
    if (splits(t, p, rest))
        shelf_put(t, &p->free, block_cut(t, b, want));
    t->blocks[b].free = false;
}

static bool usable(struct torch_alloc *t, uint32_t handle)
{
    if (!t->rc && handle >= t->n_live)
        t->rc = ERR_INTERNAL;
    return !t->rc;
}

static bool may_be_born(struct torch_alloc *t, uint32_t handle, unsigned stream)
{
    if (usable(t, handle) && (t->live[handle] || stream >= TORCH_ALLOC_STREAMS))
        t->rc = ERR_INTERNAL;
    return !t->rc;
}

/* free_block(): nobody reads it any more. */
static void block_free(struct torch_alloc *t, uint32_t b)
{
    t->stats.requested_bytes -= t->blocks[b].asked_bytes;
    t->stats.active_bytes -= t->blocks[b].bytes;
    cache(t, t->blocks[b].small ? &t->small : &t->large, b);
}

enum { PAID_AT_ONCE = 1 << 16, LOOKS_OF_EVENT = 64 };

void alloc_pay(struct torch_alloc *t)
{
    t->looks_paid += PAID_AT_ONCE;
    if (!budget_spend(t->budget, PAID_AT_ONCE / LOOKS_OF_EVENT) && !t->rc)
        t->rc = ERR_BUDGET;
}

static void process_until(struct torch_alloc *t, double now_s)
{
    uint32_t kept = 0;

    if (t->first_s > now_s)
        return;
    alloc_look(t, t->n_waiting);
    t->first_s = INFINITY;
    for (uint32_t i = 0; i < t->n_waiting; i++) {
        if (t->until_s[i] <= now_s) {
            block_free(t, t->waiting[i]);
            continue;
        }
        t->first_s = t->until_s[i] < t->first_s ? t->until_s[i] : t->first_s;
        t->until_s[kept] = t->until_s[i];
        t->waiting[kept++] = t->waiting[i];
    }
    t->n_waiting = kept;
}

/* process_events(), which begins every malloc(): what the streams are past is free. */
static void process_events(struct torch_alloc *t)
{
    if (t->n_waiting)
        process_until(t, t->now_s);
    for (; t->returned != t->passed; t->returned++)
        block_free(t, t->waiting[t->returned % t->n_blocks]);
}

/* malloc(): a cached block, a new segment, or the second try after release_cached_blocks(). */
static uint32_t find_room(struct torch_alloc *t, struct pool *p, uint8_t stream, uint64_t want)
{
    uint32_t b = best_fit(t, p, stream, want);

    if (!b)
        b = alloc_grow(t, p, stream, want);
    if (!b && !t->rc) {
        t->stats.retries++;
        torch_alloc_empty_cache(t);
        b = alloc_grow(t, p, stream, want);
        t->stats.oom |= !b;
    }
    return t->rc ? NO_NODE : b;
}

static void count_birth(struct torch_alloc_stats *s, const struct block *b, uint64_t want)
{
    s->requested_bytes += b->asked_bytes;
    s->allocated_bytes += b->bytes;
    s->active_bytes += b->bytes;
    s->slack_bytes += b->bytes - want;
    s->requested_peak_bytes = max_u64(s->requested_peak_bytes, s->requested_bytes);
    s->allocated_peak_bytes = max_u64(s->allocated_peak_bytes, s->allocated_bytes);
    s->active_peak_bytes = max_u64(s->active_peak_bytes, s->active_bytes);
    s->slack_peak_bytes = max_u64(s->slack_peak_bytes, s->slack_bytes);
}

bool torch_alloc_take(struct torch_alloc *t, uint32_t handle, uint64_t bytes, unsigned stream)
{
    if (!may_be_born(t, handle, stream))
        return false;
    t->looks_paid += LOOKS;
    process_events(t);
    if (bytes > ALLOC_SEGMENT_MAX_BYTES) {
        t->stats.oom = true;
        return false;
    }

    uint64_t want = torch_alloc_round(bytes);
    struct pool *p = want <= ALLOC_SMALL_BYTES ? &t->small : &t->large;
    uint32_t b = find_room(t, p, (uint8_t)stream, want);
    if (!b)
        return false;

    claim(t, p, b, want);
    if (t->rc)
        return false;
    t->live[handle] = b;
    t->blocks[b].asked_bytes = bytes;
    t->blocks[b].crossed = false;
    count_birth(&t->stats, &t->blocks[b], want);
    return true;
}

uint64_t torch_alloc_visit(struct torch_alloc *t, uint64_t bytes, unsigned stream)
{
    struct torch_alloc_stats *s = &t->stats, before;
    uint64_t want = torch_alloc_round(bytes);
    const struct pool *p = want <= ALLOC_SMALL_BYTES ? &t->small : &t->large;
    struct block seen;
    uint32_t b;

    if (t->rc || stream >= TORCH_ALLOC_STREAMS || bytes > ALLOC_SEGMENT_MAX_BYTES)
        return 0;
    process_events(t);
    b = best_fit(t, p, (uint8_t)stream, want);
    if (!b)
        return 0;
    seen = (struct block){.bytes = splits(t, p, t->blocks[b].bytes - want) ? want : t->blocks[b].bytes, .asked_bytes = bytes};
    before = *s;
    count_birth(s, &seen, want);
    s->requested_bytes = before.requested_bytes;
    s->allocated_bytes = before.allocated_bytes;
    s->active_bytes = before.active_bytes;
    s->slack_bytes = before.slack_bytes;
    return seen.bytes;
}

void torch_alloc_cross(struct torch_alloc *t, uint32_t handle)
{
    if (usable(t, handle) && t->live[handle])
        t->blocks[t->live[handle]].crossed = true;
}

/* Its last owner has gone; true: another stream may read it still. */
static bool leave(struct torch_alloc *t, uint32_t handle, uint32_t *ret)
{
    uint32_t b = usable(t, handle) ? t->live[handle] : NO_NODE;
    const struct block *block = &t->blocks[b];

    if (!b)
        return false;
    t->live[handle] = NO_NODE;
    t->stats.allocated_bytes -= block->bytes;
    t->stats.slack_bytes -= block->bytes - torch_alloc_round(block->asked_bytes);
    if (!block->crossed)
        block_free(t, b);
    *ret = b;
    return block->crossed;
}

void torch_alloc_give(struct torch_alloc *t, uint32_t handle)
{
    uint32_t b = NO_NODE;

    if (t->lag == TORCH_LAG_TIMED) {
        torch_alloc_give_until(t, handle, t->now_s);
        return;
    }
    if (!leave(t, handle, &b))
        return;
    t->waiting[t->given++ % t->n_blocks] = b;
    if (t->lag != TORCH_LAG_ALWAYS)
        t->passed = t->given;
}

void torch_alloc_give_until(struct torch_alloc *t, uint32_t handle, double until_s)
{
    uint32_t b = NO_NODE;

    if (!leave(t, handle, &b))
        return;
    t->first_s = until_s < t->first_s ? until_s : t->first_s;
    t->until_s[t->n_waiting] = until_s;
    t->waiting[t->n_waiting++] = b;
}

void torch_alloc_time(struct torch_alloc *t, double now_s)
{
    t->now_s = now_s;
}

uint32_t torch_alloc_mark(const struct torch_alloc *t)
{
    return t->given;
}

void torch_alloc_wait(struct torch_alloc *t, uint32_t mark)
{
    if (mark > t->passed)
        t->passed = mark < t->given ? mark : t->given;
}

uint64_t torch_alloc_block_bytes(const struct torch_alloc *t, uint32_t handle)
{
    return handle < t->n_live && t->live[handle] ? t->blocks[t->live[handle]].bytes : 0;
}

void torch_alloc_empty_cache(struct torch_alloc *t)
{
    process_until(t, INFINITY); /* synchronize_and_free_events() */
    t->passed = t->given;
    process_events(t);
    alloc_release(t, &t->small);
    alloc_release(t, &t->large);
}

void torch_alloc_forget_retries(struct torch_alloc *t)
{
    t->stats.retries = 0;
}

void torch_alloc_limit(struct torch_alloc *t, uint64_t capacity_bytes)
{
    t->capacity_bytes = capacity_bytes;
}

void torch_alloc_reset_peaks(struct torch_alloc *t)
{
    t->stats.allocated_peak_bytes = t->stats.allocated_bytes;
    t->stats.active_peak_bytes = t->stats.active_bytes;
    t->stats.reserved_peak_bytes = t->stats.reserved_bytes;
    t->stats.requested_peak_bytes = t->stats.requested_bytes;
    t->stats.slack_peak_bytes = t->stats.slack_bytes;
}

struct torch_alloc_stats torch_alloc_stats(const struct torch_alloc *t)
{
    return t->stats;
}

uint64_t torch_alloc_active_bytes(const struct torch_alloc *t)
{
    return t->stats.active_bytes;
}

enum err_code torch_alloc_status(const struct torch_alloc *t, struct err *err)
{
    if (t->rc == ERR_BUDGET)
        return budget_status(t->budget, err);
    if (t->rc == ERR_NOMEM)
        return err_set(err, ERR_NOMEM, "", "the allocator model has no more than %u blocks", (unsigned)t->n_blocks);
    if (t->rc)
        return err_set(err, t->rc, "", "a storage was born twice or has a handle or a stream that is out of range");
    return ERR_OK;
}

static bool pool_new(struct arena *a, const struct torch_alloc *t, struct pool *p)
{
    p->holes.rows = t->expandable ? arena_array_raw(a, struct row, t->n_blocks + SPARE_ROWS) : NULL;
    return shelves_new(a, t->n_blocks, p->small, &p->free) && (p->holes.rows || !t->expandable);
}

enum err_code torch_alloc_new(struct arena *a, const struct torch_alloc_options *options, struct torch_alloc **ret, struct err *err)
{
    uint64_t blocks = options->max_blocks ? options->max_blocks : UINT64_C(3) * options->max_live + 1024;
    struct torch_alloc *t = arena_new(a, struct torch_alloc);

    if (blocks > NODES_MAX - 1)
        blocks = NODES_MAX - 1;
    if (!t)
        return err_set(err, ERR_NOMEM, "", "no room for the allocator model");
    t->n_blocks = (uint32_t)blocks;
    t->n_live = options->max_live;
    t->budget = a->budget;
    t->capacity_bytes = options->capacity_bytes;
    t->expandable = options->expandable;
    t->lag = options->lag;
    t->first_s = INFINITY;
    t->fresh = NO_NODE + 1;
    t->small.small = true;
    t->live = arena_array(a, uint32_t, t->n_live);
    t->blocks = arena_array_raw(a, struct block, t->n_blocks);
    t->waiting = arena_array_raw(a, uint32_t, t->n_blocks);
    t->until_s = t->lag == TORCH_LAG_TIMED ? arena_array_raw(a, double, t->n_blocks) : NULL;
    if (!t->live || !t->blocks || !t->waiting || (t->lag == TORCH_LAG_TIMED && !t->until_s) || !pool_new(a, t, &t->small) ||
        !pool_new(a, t, &t->large) || (options->addresses_fall && !t->expandable && !addresses_new(a, &t->falling)))
        return err_set(err, ERR_NOMEM, "", "no room for %u blocks in the allocator model", (unsigned)t->n_blocks);
    t->blocks[NO_NODE] = (struct block){0};
    *ret = t;
    return ERR_OK;
}
