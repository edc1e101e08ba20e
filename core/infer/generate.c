#include "infer/generate.h"

#include "base/budget.h"
#include "infer/steps.h"
#include "models/generation.h"
#include "models/program.h"
#include "models/split.h"
#include "parallel/tensor/tp.h"
#include "tuning/bnb.h"
#include "tuning/kbit_load.h"
#include "tuning/mxfp4.h"

/* Steps that are played of a longer answer: the first two, one in the middle whose costs are read, the last two; and pairs that look for where steps
 * begin to differ. */
enum { FIRST_STEPS = 2, SEARCHES = 3, HALVINGS = 12, MOST_PIECES = SEARCHES + 1, MOST_STEPS = 8 + 2 * SEARCHES * HALVINGS };

struct generating {
    const struct generate_question *q;
    struct model model;
    struct run run;
    struct generation *loop;
    struct work *prompt, *token; /* logs; NULL: nobody asks */
    val ids, mask;
    uint32_t begins;             /* first event behind loading */
    uint64_t cache_bytes;        /* of the last step */
    uint32_t at;                 /* tokens behind the first that have been made, or skipped */
    uint32_t n_played;
    struct played_step played[MOST_STEPS];
    bool skipped;                /* not every token was played */
    uint32_t n_pieces;           /* that all tokens behind the first two make; 0: it is not known */
    struct piece piece[MOST_PIECES];
};

/* Of a layer, each a module with three linears and an activation, and a chain of operators in forward. */
static uint32_t experts_of(const struct generate_question *q)
{
    return q->quirks->experts_in_turn ? (uint32_t)q->arch->experts : 0;
}

static enum err_code declare(struct generating *g, struct arena *arena, struct err *err)
{
    const struct generate_question *q = g->q;
    struct model *m = &g->model;
    enum err_code rc;

    m->arch = q->arch;
    m->q = q->quirks;
    m->source = q->arch->program;
    m->family = m->source ? m->source->run : NULL;
    m->attention = q->attention;
    m->padded = q->padded;
    m->quantised = q->weights || q->packed.kind;
    m->experts_packed = q->packed.leaves_experts ? NULL : q->packed.kind == PACKING_MXFP4 ? "mxfp4" : q->packed.kind == PACKING_FP8 ? "fp8" : NULL;
    m->use_cache = q->cache != CACHE_NONE;
    rc = tree_init(&m->tree, arena, q->dtype, 64 + q->arch->layers * (96 + experts_of(q) * 24), err);
    if (!rc)
        rc = model_declare(m, err);
    if (!rc && q->weights)
        rc = bnb_apply(&m->tree,
                       &(struct bnb_options){q->weights, q->compute, DTYPE_UINT8, q->packs_head, m->q->bnb_takes_derived, !m->q->bnb_loads_by_name}, err);
    if (!rc && q->packed.kind)
        rc = packed_apply(&m->tree, &q->packed, m->q, err);
    if (!rc && q->tensor_parallel > 1 && (q->weights || q->packed.kind))
        return err_set(err, ERR_FIELD_CONFLICT, "/inference/weights", "quantised weights cut over several GPUs are not modelled yet");
    if (!rc && q->tensor_parallel > 1)
        rc = split_apply(m, err);
    return rc;
}

static struct run_limits limits_of(const struct generate_question *q)
{
    uint32_t layers = q->arch->layers + 4, experts = experts_of(q);

    return (struct run_limits){
        .values = 8192 + layers * (512 + experts * 36),
        .storages = 4096 + layers * (256 + experts * 16),
        .nodes = 1024,
        .births = 16384 + layers * (800 + experts * 40) * (q->replay == REPLAY_ALL ? MOST_STEPS : 8),
        .marks = 64,
    };
}

static struct work *log_of(const struct generate_question *q, struct arena *arena)
{
    struct work *w = arena_new(arena, struct work);
    uint32_t messages = q->tensor_parallel > 1 ? 64 + q->arch->layers * 8 : 16;

    return w && work_init(w, arena, (struct work_limits){4096 + q->arch->layers * 320, messages, 0}) ? w : NULL;
}

/* from_pretrained(tp_plan="auto"): modules hold a part of their weights before these come to the device. */
static void cut(struct generating *g)
{
    uint32_t ranks = g->q->tensor_parallel;
    struct parallel_options o = {.method = METHOD_TP, .at = {.world = ranks, .data_parallel = 1, .tensor_parallel = ranks, .pipeline_parallel = 1}};
    struct wrapping w = {.r = &g->run, .tree = &g->model.tree, .embeddings = g->model.embeddings, .head = g->model.tree.head, .o = &o};

    (void)tp_cut(&w);
}

static void load(struct generating *g)
{
    struct run *r = &g->run;

    r->stage = STAGE_INIT;
    r->grad_enabled = false;
    r->loads_by_owner = g->q->by_owner;
    if (g->q->tensor_parallel > 1)
        cut(g);
    if (g->q->weights)
        kbit_load(r, &g->model.tree);
    else if (g->q->packed.kind == PACKING_MXFP4)
        mxfp4_load(r, &g->model.tree);
    else if (g->q->packed.kind)
        packed_load(r, &g->model.tree, g->q->packed.kind);
    else if (g->q->unpacks == PACKING_MXFP4)
        mxfp4_unpack(r, &g->model.tree);
    else
        materialise(r, &g->model.tree);
    release_cached(r);
    g->begins = r->n_events;
}

/* The next token. */
static struct played_step *step(struct generating *g, struct work *log)
{
    struct run *r = &g->run;
    struct played_step *s = &g->played[g->n_played++];

    *s = (struct played_step){.number = ++g->at, .event = r->n_events, .birth = r->n_births};
    r->work = log;
    generation_decode(g->loop);
    generation_mark_cache(g->loop, &g->cache_bytes);
    generation_choose(g->loop);
    r->work = NULL;
    s->end = r->n_events;
    s->n_births = r->n_births - s->birth;
    return s;
}

static struct run_tape tape_of(const struct generating *g)
{
    return (struct run_tape){g->run.births, g->run.events};
}

/* Positions of the whole text, which no cache has cut, live until the second token behind theirs asks the model; so do those of earlier releases. */
static uint32_t steps_held(const struct generating *g)
{
    return g->q->cache == CACHE_NONE || !g->q->quirks->generate_keeps_positions ? 2 : 1;
}

/* The last played step, behind as many as may hold what dies in it. NULL: nothing of it can be told. */
static struct played_step *read_last(struct generating *g)
{
    const struct run_tape t = tape_of(g);
    struct played_step *s = &g->played[g->n_played - 1], *older = steps_held(g) > 1 ? s - 2 : NULL;

    if (run_dead(&g->run) || (older && !step_leaves(&t, older, g->run.arena)))
        return NULL;
    return step_leaves(&t, s - 1, g->run.arena) && step_read(&t, older, s - 1, s, g->run.arena) ? s : NULL;
}

/* Plays token `number` behind one or two that stand where they would. */
static struct played_step *step_at(struct generating *g, uint32_t number)
{
    uint32_t held = steps_held(g);

    if (g->n_played + held + 1 > MOST_STEPS || run_dead(&g->run))
        return NULL;
    if (g->at + held + 1 != number)
        generation_skip(g->loop, (int64_t)number - held - 1 - g->at);
    g->at = number - held - 1;
    for (uint32_t i = 0; i <= held; i++)
        (void)step(g, NULL);
    return read_last(g);
}

/* The longest piece from `from` on, which `last` is not like; *next: the step behind it. */
static bool find_end(struct generating *g, struct piece *piece, const struct played_step *last, struct played_step **next)
{
    struct run_tape t = tape_of(g);
    const struct played_step *low = piece->from;
    struct played_step *high = NULL;
    uint32_t above = last->number;

    while (above - low->number > 1) {
        struct played_step *s = step_at(g, low->number + (above - low->number) / 2);

        if (!s)
            return false;
        if (steps_alike(&t, piece->from, s))
            low = s;
        else
            above = (high = s)->number;
    }
    piece->to = low;
    *next = high && high->number == low->number + 1 ? high : step_at(g, low->number + 1);
    return *next != NULL;
}

/* Pieces from the third token to the last. The tape is that of a run that was interrupted by skips; its walk knows nothing of them. */
static void cut_in_pieces(struct generating *g, struct played_step *first, struct played_step *last)
{
    struct run_tape t = tape_of(g);
    struct played_step *from = first;

    for (uint32_t i = 0; i < MOST_PIECES && from; i++) {
        struct piece *p = &g->piece[i];

        *p = (struct piece){from, last};
        if (steps_alike(&t, from, last)) {
            g->n_pieces = i + 1;
            return;
        }
        if (i + 1 == MOST_PIECES || !find_end(g, p, last, &from))
            return;
    }
}

/* `n` tokens behind the first: all of them, or the first and the last. The one whose costs are read is in the middle. */
static void decode(struct generating *g, uint32_t n)
{
    struct played_step *third, *last;

    g->run.stage = STAGE_DECODE;
    if (n <= FIRST_STEPS + 4) {
        while (g->at < n && !run_dead(&g->run))
            (void)step(g, g->at == n / 2 ? g->token : NULL);
        return;
    }
    g->skipped = true;
    for (int i = 0; i < FIRST_STEPS; i++)
        (void)step(g, NULL);
    (void)step(g, NULL);
    third = read_last(g);
    if (run_dead(&g->run))
        return;
    if (g->token) {
        generation_skip(g->loop, (int64_t)(n / 2) - g->at);
        g->at = n / 2;
        (void)step(g, g->token);
    }
    last = step_at(g, n);
    if (third && last && g->q->replay == REPLAY_ALL && !g->q->padded)
        cut_in_pieces(g, third, last);
}

static void play(struct generating *g)
{
    struct run *r = &g->run;
    int64_t size[] = {g->q->batch_size, g->q->prompt_tokens};

    load(g);
    if (g->model.family->evaluate && !run_dead(r))
        g->model.family->evaluate(&g->model);
    r->stage = STAGE_BATCH;
    g->ids = owned(r, empty(r, DTYPE_INT64, 2, size));
    g->mask = owned(r, empty(r, DTYPE_INT64, 2, size));
    r->stage = STAGE_PREFILL;
    if (!run_dead(r))
        g->loop = generation_begin(r, &g->model, g->ids, g->mask, g->q->cache, (int64_t)g->q->prompt_tokens + g->q->new_tokens - 1, &g->q->choice);
    if (!g->loop)
        return;
    r->work = g->prompt;
    generation_prefill(g->loop);
    r->work = NULL;
    generation_mark_cache(g->loop, &g->cache_bytes);
    r->stage = STAGE_DECODE;
    generation_choose(g->loop);
    decode(g, g->q->new_tokens - 1);
    if (g->q->look && !run_dead(r))
        g->q->look(g->q->looks, r, &g->model, g->loop);
}

/* ------------------------------------------------------------------------------------------------------------- figures */
struct replayed {
    struct peak peak;
    uint64_t reserved_bytes;
    uint32_t retries;
    bool ended;         /* false: the device ran out of memory */
    bool in_full;       /* each token was played; else those that were run */
};

/* The tape as it was run, skipped steps left out. */
static enum err_code replay_run(const struct tape *tape, struct torch_alloc *a, struct replayed *ret, struct err *err)
{
    ret->ended = peak_replay(tape, a, &ret->peak);
    return ret->ended ? ERR_OK : budget_status(tape->budget, err);
}

/* Its first two tokens, and then each of the others. */
static enum err_code replay_all(const struct generating *g, const struct tape *tape, struct torch_alloc *a, struct replayed *ret, struct err *err)
{
    const struct played_step *second = &g->played[FIRST_STEPS - 1];
    struct run_tape t = tape_of(g);
    struct tape begins = *tape;
    struct peak *p = &ret->peak;
    uint32_t most = pieces_survivors(g->piece, g->n_pieces), *left[2] = {0};
    uint64_t live, peak = 0;
    enum err_code rc;

    for (uint32_t i = 0; i < 2; i++) {
        const struct played_step *s = second - i;

        left[i] = arena_array(g->run.arena, uint32_t, (s->survivors > most ? s->survivors : most) + 1);
        if (!left[i])
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for this run");
        for (uint32_t k = 0; s->rank && k < s->n_births; k++)
            if (s->rank[k] != NOT_LEFT)
                left[i][s->rank[k]] = s->birth + k;
    }
    begins.n_births = second->birth + second->n_births;
    begins.n_events = second->end;
    if (!peak_replay(&begins, a, p))
        return budget_status(tape->budget, err);
    ret->in_full = true;
    rc = budget_take(tape->budget, pieces_events(g->piece, g->n_pieces), err);
    live = p->resting_bytes;
    ret->ended = !rc && pieces_play(&t, g->piece, g->n_pieces, a, begins.n_births, left, &live, &peak);
    if (peak > p->phase_bytes[PHASE_DECODE])
        p->phase_bytes[PHASE_DECODE] = peak;
    if (peak > p->peak_bytes) {
        p->peak_bytes = peak;
        p->peak_phase = PHASE_DECODE;
    }
    return rc;
}

enum { MOST_EVENTS = 8000000 }; /* of tokens that are replayed one by one */

static enum err_code replay_on(const struct generating *g, const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena,
                               struct replayed *ret, struct err *err)
{
    bool all = g->q->replay == REPLAY_ALL && expandable == g->q->expandable_segments && g->n_pieces && pieces_events(g->piece, g->n_pieces) <= MOST_EVENTS;
    struct torch_alloc_options o = {.expandable = expandable,
                                    .addresses_fall = g->q->device->addresses_fall,
                                    .max_live = tape->n_births + (all ? pieces_handles(g->piece, g->n_pieces) : 0)};
    unsigned char *mark = arena->cur;
    struct torch_alloc *a = NULL;
    enum err_code rc;

    o.max_blocks = 3 * walk->most_live + 4096;
    *ret = (struct replayed){.in_full = !g->skipped};
    rc = torch_alloc_new(arena, &o, &a, err);
    if (!rc)
        rc = all ? replay_all(g, tape, a, ret, err) : replay_run(tape, a, ret, err);
    if (!rc)
        rc = torch_alloc_status(a, err);
    if (!rc) {
        ret->reserved_bytes = torch_alloc_stats(a).reserved_peak_bytes;
        ret->retries = torch_alloc_stats(a).retries;
    }
    arena_rewind(arena, mark);
    return rc;
}

/* Without a limit; a block larger than any device ends even that: what would be alive is told. */
static enum err_code replay(const struct generating *g, const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena,
                            struct replayed *ret, struct err *err)
{
    enum err_code rc = replay_on(g, tape, walk, expandable, arena, ret, err);

    if (rc || ret->ended)
        return rc;
    ret->peak = *walk;
    ret->reserved_bytes = ret->reserved_bytes > walk->peak_bytes ? ret->reserved_bytes : walk->peak_bytes;
    return ERR_OK;
}

enum { LOADING_SLACK = 1 << 30 }; /* with less to spare, what loading reserves is asked of the allocator */

/* Whether it fits, by release-and-retry where it does not without: then what that run reserves is told. */
static enum err_code limit(const struct generating *g, const struct tape *tape, const struct peak *walk, struct arena *arena, struct replayed *asked,
                           struct generated *ret, struct err *err)
{
    struct tape limited = *tape;
    uint64_t high = walk->peak_bytes > walk->loading_bytes ? walk->peak_bytes : walk->loading_bytes;
    bool loads = walk->loading_bytes <= walk->peak_bytes || asked->peak.loading_bytes + LOADING_SLACK <= g->q->capacity_bytes;
    struct replayed r;
    enum err_code rc;

    ret->fits = asked->ended && asked->reserved_bytes <= g->q->capacity_bytes && loads;
    if (ret->fits || !g->q->capacity_bytes || high > g->q->capacity_bytes)
        return ERR_OK;
    limited.capacity_bytes = g->q->capacity_bytes;
    limited.limits_loading = true;
    rc = replay_on(g, &limited, walk, g->q->expandable_segments, arena, &r, err);
    ret->fits = !rc && r.ended && r.reserved_bytes <= g->q->capacity_bytes;
    if (ret->fits)
        asked->reserved_bytes = r.reserved_bytes;
    ret->retries = ret->fits ? r.retries : 0;
    return rc;
}

/* Its kernels as those of the forward of a step. */
static void read_cost(const struct generating *g, const struct work *log, uint32_t tokens, struct cost *ret)
{
    double parameters = 0;

    for (uint32_t i = 0; i < log->n_kernels; i++)
        log->kernels[i].stage = STAGE_FORWARD;
    cost_read(log, 1, ret);
    for (int s = 0; s < COST_STAGES; s++)
        parameters += (double)ret->sum[s].product_flops;
    ret->micro_batch_size = g->q->batch_size;
    ret->seq_len_tokens = tokens;
    ret->model_flops = parameters;
}

static enum err_code describe(struct generating *g, struct arena *arena, struct generated *ret, struct err *err)
{
    const struct generate_question *q = g->q;
    const struct run *r = &g->run;
    struct tape tape = {
        .births = r->births,
        .events = r->events,
        .n_births = r->n_births,
        .n_events = r->n_events,
        .steps_begin = g->begins,
        .peaks_begin = g->begins,
        .head_module = g->model.tree.head ? g->model.tree.head->number : 0,
        .budget = arena->budget,
    };
    struct replayed plain = {0}, expandable = {0};
    struct peak walk = {0}, *of = &walk;
    struct alike groups[GENERATE_LARGEST];
    uint32_t n = 0;
    enum err_code rc = ERR_OK;

    peak_walk(&tape, &walk);
    ret->resting_bytes = walk.resting_bytes;
    if (q->replay) {
        of = q->expandable_segments ? &expandable.peak : &plain.peak;
        rc = replay(g, &tape, &walk, false, arena, &plain, err);
        if (!rc)
            rc = replay(g, &tape, &walk, true, arena, &expandable, err);
        if (!rc)
            rc = limit(g, &tape, &walk, arena, q->expandable_segments ? &expandable : &plain, ret, err);
        ret->replayed_in_full = q->expandable_segments ? expandable.in_full : plain.in_full;
        ret->peak_reserved_bytes = plain.reserved_bytes;
        ret->peak_reserved_expandable_bytes = expandable.reserved_bytes;
    }
    if (rc)
        return rc;
    ret->peak_allocated_bytes = of->peak_bytes;
    ret->static_bytes = of->static_bytes;
    ret->prefill_bytes = of->phase_bytes[PHASE_PREFILL];
    ret->decode_bytes = of->phase_bytes[PHASE_DECODE];
    ret->peak_phase = of->peak_phase;
    ret->kv_cache_bytes = g->cache_bytes;
    ret->loading_bytes = of->loading_bytes;
    if (ret->loading_bytes > ret->peak_allocated_bytes) {
        ret->peak_allocated_bytes = ret->loading_bytes;
        ret->peak_phase = PHASE_INIT;
    }
    if (g->prompt) {
        read_cost(g, g->prompt, q->prompt_tokens, &ret->prefill);
        if (q->new_tokens > 1)
            read_cost(g, g->token, q->cache == CACHE_NONE ? q->prompt_tokens + (q->new_tokens - 1) / 2 + 1 : 1, &ret->decode);
    }
    walk.peak_bytes = of->peak_bytes; /* what the walk does not know of it is slack */
    return peak_describe(&tape, &walk, arena, ret->breakdown_bytes, GENERATE_LARGEST, groups, &n, err);
}

enum err_code generate(const struct generate_question *q, struct arena *arena, struct generated *ret, struct err *err)
{
    struct generating *g = arena_new(arena, struct generating);
    struct generated made = {0};
    enum err_code rc = budget_status(arena->budget, err);

    if (!g)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    g->q = q;
    if (!rc && q->timed && (!(g->prompt = log_of(q, arena)) || !(g->token = log_of(q, arena))))
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for the kernels of a token");
    if (!rc)
        rc = declare(g, arena, err);
    if (!rc)
        rc = budget_take(arena->budget, g->model.tree.n_modules, err);
    if (!rc && g->model.position_table && q->prompt_tokens + q->new_tokens - 1 > q->arch->max_positions)
        return err_set(err, ERR_FIELD_RANGE, "/inference/new_tokens", "this model has positions for %u tokens and no more", q->arch->max_positions);
    if (!rc)
        rc = run_init(&g->run, arena, q->quirks, *q->device, limits_of(q), err);
    if (rc)
        return rc;
    play(g);
    (void)run_count(&g->run);
    if (arena->full)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for this run");
    if (g->run.error.code) {
        *err = g->run.error;
        return err->code;
    }
    rc = describe(g, arena, &made, err);
    *ret = made;
    return rc;
}
