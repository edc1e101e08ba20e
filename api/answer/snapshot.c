/*
 * The replayed step as PyTorch writes it: torch.cuda.memory._snapshot(), what torch.cuda.memory._dump_snapshot() pickles.
 *
 * Members of torch 2.9's torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot): segments with their blocks at the end of the run, and the trace of all
 * events from the first weight on. Frames name the operator and its module, the category, the phase; there are no lines. `size` is the block's, so
 * that the sums are those of torch.cuda.memory_allocated(); PyTorch logs what was asked for, which is `requested_size` here.
 */
#include "api/answer/estimate.h"
#include "api/answer/pickle.h"

#include "torch/alloc.h"
#include "torch/module.h"
#include "train/history.h"

#include <stdio.h>

enum {
    KEY_ACTION,
    KEY_ADDR,
    KEY_SIZE,
    KEY_STREAM,
    KEY_FRAMES,
    KEY_REQUESTED,
    KEY_DEVICE,
    KEY_ADDRESS,
    KEY_TOTAL,
    KEY_ALLOCATED,
    KEY_ACTIVE,
    KEY_TYPE,
    KEY_POOL,
    KEY_EXPANDABLE,
    KEY_BLOCKS,
    KEY_STATE,
    KEY_NAME,
    KEY_FILENAME,
    KEY_LINE,
    KEY_TIME,
    WORD_ALLOC,
    WORD_FREE_REQUESTED,
    WORD_FREE_COMPLETED,
    WORD_SEGMENT,
    WORD_SEGMENT_GONE,
    WORD_MAP,
    WORD_UNMAP,
    WORD_LARGE,
    WORD_SMALL,
    WORD_ACTIVE,
    WORD_INACTIVE,
    WORDS_OF_SNAPSHOT
};

enum { BATCH = 1000, EVENTS_MAX = 300000 }; /* of a tape: about as many entries as ANSWER_MAX_BYTES have room for */

static const char *const words[WORDS_OF_SNAPSHOT] = {
    [KEY_ACTION] = "action",
    [KEY_ADDR] = "addr",
    [KEY_SIZE] = "size",
    [KEY_STREAM] = "stream",
    [KEY_FRAMES] = "frames",
    [KEY_REQUESTED] = "requested_size",
    [KEY_DEVICE] = "device",
    [KEY_ADDRESS] = "address",
    [KEY_TOTAL] = "total_size",
    [KEY_ALLOCATED] = "allocated_size",
    [KEY_ACTIVE] = "active_size",
    [KEY_TYPE] = "segment_type",
    [KEY_POOL] = "segment_pool_id",
    [KEY_EXPANDABLE] = "is_expandable",
    [KEY_BLOCKS] = "blocks",
    [KEY_STATE] = "state",
    [KEY_NAME] = "name",
    [KEY_FILENAME] = "filename",
    [KEY_LINE] = "line",
    [KEY_TIME] = "time_us",
    [WORD_ALLOC] = "alloc",
    [WORD_FREE_REQUESTED] = "free_requested",
    [WORD_FREE_COMPLETED] = "free_completed",
    [WORD_SEGMENT] = "segment_alloc",
    [WORD_SEGMENT_GONE] = "segment_free",
    [WORD_MAP] = "segment_map",
    [WORD_UNMAP] = "segment_unmap",
    [WORD_LARGE] = "large",
    [WORD_SMALL] = "small",
    [WORD_ACTIVE] = "active_allocated",
    [WORD_INACTIVE] = "inactive",
};

struct segment {
    uint64_t address, bytes, allocated_bytes, requested_bytes;
    uint32_t n_blocks;
    unsigned stream;
    bool small;
};

struct left_block {
    struct torch_block b;
    uint32_t frames; /* memo of its frames; 0: none */
};

struct writing {
    struct pickle p;
    struct arena *arena;
    const struct tree *tree;
    bool expandable, full, is_long;
    uint32_t word[WORDS_OF_SNAPSHOT];
    uint32_t *frames; /* by birth: 1 + memo */
    uint32_t *same;   /* a table of frames by operator, module, category and phase: birth + 1 of the first that had them */
    const struct birth **births;
    uint32_t n_births, nobody; /* memo of [], + 1 */
    uint32_t n_left, max_left;
    struct left_block *left;
    uint32_t counted;
};

static void key(struct writing *w, int word)
{
    pickle_key(&w->p, words[word], &w->word[word]);
}

static void number(struct writing *w, int word, uint64_t value)
{
    key(w, word);
    pickle_u64(&w->p, value);
}

static void word_of(struct writing *w, int name, int value)
{
    key(w, name);
    key(w, value);
}

static void frame(struct writing *w, const char *name, const char *file)
{
    pickle_dict(&w->p);
    key(w, KEY_NAME);
    pickle_str(&w->p, name);
    key(w, KEY_FILENAME);
    pickle_str(&w->p, file);
    number(w, KEY_LINE, 0);
    pickle_dict_end(&w->p);
}

/* --- frames ------------------------------------------------------------------------------------------------------------------ */

enum { SAME = 1 << 14 };

static bool looks_alike(const struct birth *a, const struct birth *b)
{
    return a->op == b->op && a->module == b->module && a->stage == b->stage && a->forward_stage == b->forward_stage && a->mark == b->mark &&
           a->recompute == b->recompute && a->node == b->node;
}

static uint32_t *place_of(struct writing *w, const struct birth *b)
{
    uint32_t h = (b->op * UINT32_C(2654435761)) ^ (b->module * UINT32_C(2246822519)) ^ ((uint32_t)b->stage * 3266489917u) ^
                 ((uint32_t)b->node * 668265263u) ^ (b->mark * 97u) ^ b->forward_stage;

    for (uint32_t i = 0; i < 8; i++) {
        uint32_t *at = &w->same[((h ^ h >> 15) + i) & (SAME - 1)];

        if (!*at || looks_alike(w->births[*at - 1], b))
            return at;
    }
    return NULL;
}

/* The innermost first, as PyTorch has them: what allocates, in which module; of what kind the block is; when. */
static uint32_t frames_new(struct writing *w, const struct history_event *e)
{
    char module[128], op[96];
    const char *path = module_path(w->tree, e->birth->module, module, sizeof module);

    (void)snprintf(op, sizeof op, "%s%s%s", op_rows[e->birth->op].aten, e->birth->node ? " in " : "",
                   e->birth->node ? op_rows[e->birth->node].node : "");
    pickle_list(&w->p);
    frame(w, op, path[0] ? path : "model");
    frame(w, category_name(e->category), "category");
    frame(w, e->birth->recompute ? "recompute" : phase_name(e->phase), "phase");
    pickle_list_end(&w->p);
    return pickle_keep(&w->p) + 1;
}

static void frames(struct writing *w, const struct history_event *e)
{
    uint32_t *place;

    key(w, KEY_FRAMES);
    if (!w->frames[e->block]) {
        place = place_of(w, e->birth);
        if (place && *place) {
            w->frames[e->block] = w->frames[*place - 1];
        } else {
            w->births[e->block] = e->birth;
            w->frames[e->block] = frames_new(w, e);
            if (place)
                *place = e->block + 1;
            return;
        }
    }
    pickle_again(&w->p, w->frames[e->block] - 1);
}

/* A segment is taken for a block whose frames nobody has written yet. */
static void no_frames(struct writing *w)
{
    key(w, KEY_FRAMES);
    pickle_list(&w->p);
    pickle_list_end(&w->p);
}

/* --- the trace ---------------------------------------------------------------------------------------------------------------- */

static void entry(struct writing *w, const struct history_event *e, int action)
{
    pickle_dict(&w->p);
    word_of(w, KEY_ACTION, action);
    number(w, KEY_ADDR, e->address);
    number(w, KEY_SIZE, e->bytes);
    number(w, KEY_REQUESTED, e->asked_bytes);
    number(w, KEY_STREAM, e->stream);
    number(w, KEY_TIME, e->at);
    if (e->birth)
        frames(w, e);
    else
        no_frames(w);
    pickle_dict_end(&w->p);
}

static bool begin(void *of, const struct history *h)
{
    struct writing *w = of;

    w->is_long = h->n_events > EVENTS_MAX;
    if (w->is_long)
        return false;
    w->tree = h->tree;
    w->n_births = h->n_births;
    w->frames = arena_array(w->arena, uint32_t, h->n_births);
    w->births = arena_array(w->arena, const struct birth *, h->n_births);
    w->same = arena_array(w->arena, uint32_t, SAME);
    w->max_left = h->n_births * 2 + 4096;
    w->left = arena_array_raw(w->arena, struct left_block, w->max_left);
    return w->frames && w->births && w->same && w->left;
}

static bool event(void *of, const struct history_event *e)
{
    struct writing *w = of;

    if (++w->counted % BATCH == 0)
        pickle_list_more(&w->p);
    switch (e->kind) {
    case HISTORY_BORN:
        entry(w, e, WORD_ALLOC);
        break;
    case HISTORY_DIED:
        entry(w, e, WORD_FREE_REQUESTED);
        entry(w, e, WORD_FREE_COMPLETED);
        break;
    case HISTORY_SEGMENT:
        entry(w, e, w->expandable ? WORD_MAP : WORD_SEGMENT);
        break;
    default:
        entry(w, e, w->expandable ? WORD_UNMAP : WORD_SEGMENT_GONE);
    }
    return buf_ok(w->p.out);
}

/* --- segments ----------------------------------------------------------------------------------------------------------------- */

static void left(void *of, const struct torch_block *b, uint32_t block)
{
    struct writing *w = of;

    w->full |= w->n_left == w->max_left;
    if (!w->full)
        w->left[w->n_left++] = (struct left_block){*b, block == HISTORY_NOBODY ? 0 : w->frames[block]};
}

static void block(struct writing *w, const struct left_block *l)
{
    pickle_dict(&w->p);
    number(w, KEY_ADDRESS, l->b.address);
    number(w, KEY_SIZE, l->b.bytes);
    number(w, KEY_REQUESTED, l->b.asked_bytes);
    word_of(w, KEY_STATE, l->b.cached ? WORD_INACTIVE : WORD_ACTIVE);
    if (l->frames) {
        key(w, KEY_FRAMES);
        pickle_again(&w->p, l->frames - 1);
    } else {
        no_frames(w);
    }
    pickle_dict_end(&w->p);
}

static void segment(struct writing *w, const struct left_block *first, uint32_t n)
{
    uint64_t total = 0, held = 0, asked = 0;

    for (uint32_t i = 0; i < n; i++) {
        total += first[i].b.bytes;
        held += first[i].b.cached ? 0 : first[i].b.bytes;
        asked += first[i].b.cached ? 0 : first[i].b.asked_bytes;
    }
    pickle_dict(&w->p);
    number(w, KEY_DEVICE, 0);
    number(w, KEY_ADDRESS, first->b.address);
    number(w, KEY_TOTAL, total);
    number(w, KEY_ALLOCATED, held);
    number(w, KEY_ACTIVE, held);
    number(w, KEY_REQUESTED, asked);
    number(w, KEY_STREAM, first->b.stream);
    word_of(w, KEY_TYPE, first->b.small ? WORD_SMALL : WORD_LARGE);
    key(w, KEY_POOL);
    pickle_pair(&w->p, 0, 0);
    key(w, KEY_EXPANDABLE);
    pickle_bool(&w->p, w->expandable);
    no_frames(w);
    key(w, KEY_BLOCKS);
    pickle_list(&w->p);
    for (uint32_t i = 0; i < n; i++)
        block(w, &first[i]);
    pickle_list_end(&w->p);
    pickle_dict_end(&w->p);
}

static void segments(struct writing *w)
{
    for (uint32_t i = 0, n; i < w->n_left; i += n) {
        for (n = 1; i + n < w->n_left && !w->left[i + n].b.begins;)
            n++;
        segment(w, &w->left[i], n);
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------------------- */

enum err_code snapshot_write(struct estimate *e, struct arena *scratch, struct buf *out)
{
    const struct plan_candidate *c = e->answer.candidates;
    struct writing w = {.arena = e->call->arena, .expandable = e->question.expandable_segments};
    const struct history_reader reader = {&w, begin, event, left};
    enum err_code rc;

    pickle_begin(&w.p, out);
    pickle_dict(&w.p);
    pickle_str(&w.p, "device_traces");
    pickle_list(&w.p);
    pickle_list(&w.p);
    rc = history_of(e, c, &reader, scratch);
    if (w.is_long || !buf_ok(out))
        return err_set(e->call->err, ERR_FIELD_RANGE, "",
                       "the snapshot of this step is larger than the service grants: fewer gradient_accumulation_steps "
                       "have a shorter one");
    if (rc)
        return rc;
    pickle_list_end(&w.p);
    pickle_list_end(&w.p);
    pickle_str(&w.p, "segments");
    pickle_list(&w.p);
    segments(&w);
    pickle_list_end(&w.p);
    pickle_dict_end(&w.p);
    pickle_end(&w.p);
    if (!buf_ok(out) || w.full)
        return err_set(e->call->err, ERR_NOMEM, "", "the snapshot is larger than the service grants");
    return ERR_OK;
}
