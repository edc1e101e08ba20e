#include "server/batch.h"

#include "server/batch_inside.h"
#include "server/clock.h"
#include "server/installed.h"
#include "server/library.h"
#include "server/story.h"

#include <stdlib.h>
#include <string.h>

enum {
    AHEAD_BYTES = 8 << 20, /* of answers that are ready: no other item is begun but the one whose turn it is */
    KEPT_BYTES = 4 << 20,  /* of answers that were sent and are kept for equal items */
    TELL_MS = 10000,
};

/* --- places ------------------------------------------------------------------------------------------------------------------------ */

static bool is_over(struct batch *b)
{
    return b->stopped.code || atomic_load(&b->is_left);
}

static struct place *free_place(struct batch *b)
{
    for (int i = 0; i < WINDOW; i++)
        if (b->places[i].state == PLACE_FREE)
            return &b->places[i];
    return NULL;
}

/* The item of the place has what it will have. */
static void settle(struct place *p)
{
    struct batch *b = p->batch;
    struct item *it = p->item;

    gather_end(&p->gather);
    it->state = ITEM_DONE;
    it->answer = p->made;
    it->err = p->err;
    it->retry_after_s = p->retry_after_s;
    it->was_cached = p->was_cached;
    it->events = p->made ? p->made->work_events : p->task.job.work.events;
    b->held_bytes += it->answer ? it->answer->bytes : 0;
    p->made = NULL;
    p->err = NULL;
    p->state = PLACE_FREE;
}

static void fail(struct place *p, const struct err *err)
{
    p->err = malloc(sizeof *err);
    if (p->err)
        *p->err = *err;
    settle(p);
}

static void refuse(struct place *p, enum err_code code, const char *detail)
{
    struct err err = {0};

    (void)err_set(&err, code, "", "%s", detail);
    fail(p, &err);
}

/* --- on the worker ------------------------------------------------------------------------------------------------------------------- */

static struct answer_key key_of(const struct exchange *x, const struct api_request *rq)
{
    return (struct answer_key){.method = rq->method, .path = rq->path, .query = rq->query, .content_type = rq->content_type, .body = rq->body,
                               .body_bytes = rq->body_bytes, .token = x->token_digest};
}

static struct api_request request_of(const struct place *p)
{
    const struct api_item item = {.body = p->item->body, .bytes = p->item->bytes};

    return api_item_request(&p->batch->x->rq, &item);
}

static void compute(struct place *p, struct arena *arena)
{
    struct exchange *x = p->batch->x;
    struct api_request rq = request_of(p);
    struct answer_key key = key_of(x, &rq);
    struct api_response r;

    rq.arena = arena;
    rq.budget = &p->task.job.work;
    rq.library = library_shared;
    rq.installed = installed_all();
    api_answer(&rq, gather_configs(&p->gather), p->gather.n, &r);
    if (rq.budget->is_stopped)
        return;
    metrics_work(x->desk->service->metrics, "/estimate/batch", r.work_events);
    if (r.status == 200) {
        p->made = story_keep(x->desk->service, &key, &p->gather, x->head.token != NULL, &r, true);
        return;
    }
    p->retry_after_s = r.retry_after_s;
    p->err = r.err ? malloc(sizeof *p->err) : NULL;
    if (p->err)
        *p->err = *r.err;
}

static struct place *place_of(struct task *t)
{
    return (struct place *)(void *)((char *)t - offsetof(struct place, task));
}

static void run_item(struct job *job, struct arena *arena)
{
    static const struct err late = {.code = ERR_OVERLOADED, .detail = "the item waited longer than the service grants one"};
    struct place *p = place_of(task_of(job));

    if (arena && !atomic_load(&p->batch->is_left)) {
        compute(p, arena);
        return;
    }
    p->err = malloc(sizeof late);
    if (p->err)
        *p->err = late;
}

/* --- step by step -------------------------------------------------------------------------------------------------------------------- */

static void go_on(struct batch *b);

static void on_computed(struct task *t)
{
    struct place *p = place_of(t);
    struct batch *b = p->batch;

    b->running--;
    settle(p);
    go_on(b);
}

/* Of those that have their config the one whose turn comes first. */
static struct place *first_ready(struct batch *b)
{
    struct place *first = NULL;

    for (struct place *p = b->places; p < b->places + WINDOW; p++)
        if (p->state == PLACE_READY && (!first || p->item < first->item))
            first = p;
    return first;
}

static bool find_cached(struct place *p)
{
    struct exchange *x = p->batch->x;
    struct api_request rq = request_of(p);
    struct answer_key key = key_of(x, &rq);

    p->made = answers_find(x->desk->service->answers, &key, clock_ms());
    p->was_cached = p->made;
    return p->made;
}

static void push(struct place *p)
{
    static const char limited[] = "answers that have to be computed are limited for one caller, and each item of a batch is one; those in the cache are not";
    struct batch *b = p->batch;
    const struct options *o = b->x->desk->service->o;
    uint64_t until_ms = clock_ms() + o->deadline_s * 1000ull;

    p->retry_after_s = story_may_compute(b->x);
    if (p->retry_after_s) {
        metrics_refused(b->x->desk->service->metrics, REFUSED_RATE);
        refuse(p, ERR_TOO_MANY, limited);
        return;
    }
    p->task = (struct task){.x = b->x, .finished = on_computed,
                            .job = {.run = run_item, .is_large = true, .cancelled = &b->is_cancelled,
                                    .until_ms = until_ms < b->until_ms ? until_ms : b->until_ms}};
    p->state = PLACE_RUNNING;
    b->running++;
    if (desk_push(&p->task))
        return;
    b->running--;
    refuse(p, ERR_OVERLOADED, "too many requests are waiting to be computed");
}

/* What the batch may not have computed any more. */
static bool is_out_of_reach(const struct batch *b, const struct item *it)
{
    return b->events >= b->most_events && !it->is_charged;
}

/* As many workers as the batch may have. */
static void run_ready(struct batch *b)
{
    struct place *p;

    while (b->running < b->lanes && (p = first_ready(b)))
        is_out_of_reach(b, p->item) ? settle(p) : push(p);
}

static void have_configs(struct place *p)
{
    if (p->gather.no_memory)
        refuse(p, ERR_NOMEM, "no memory for the configs");
    else if (is_over(p->batch))
        settle(p);
    else
        p->state = PLACE_READY;
}

static void count_fetch(struct place *p)
{
    struct item_need *need = &p->batch->items->needs[p->item->need];
    struct gather_sum sum;

    gather_sum(&p->gather, &sum);
    if (need->is_counted || !sum.tier || strcmp(sum.tier, "hub") != 0)
        return;
    need->is_counted = true;
    p->batch->fetched++;
}

static void on_fetched(void *arg)
{
    struct place *p = arg;
    struct batch *b = p->batch;
    struct exchange *x = b->x;

    b->fetching--;
    count_fetch(p);
    have_configs(p);
    go_on(b);
    exchange_let_go(x);
}

static void fetch(struct place *p)
{
    struct batch *b = p->batch;
    struct exchange *x = b->x;

    p->needs = (struct api_needs){0};
    if (p->item->need != API_NO_NEED)
        p->needs = (struct api_needs){.n = 1, .v = &b->items->needs[p->item->need].need};
    p->state = PLACE_FETCHING;
    if (gather_begin(&p->gather, x->desk->hub, &p->needs, x->head.token, on_fetched, p)) {
        have_configs(p);
        return;
    }
    b->fetching++;
    exchange_hold(x);
}

/* --- how much is fetched ------------------------------------------------------------------------------------------------------------- */

enum may { MAY_FETCH, MAY_LATER, MAY_NOT };

static bool is_at_hand(const struct batch *b, const struct api_need *need)
{
    struct hub_request rq = {.model = need->model, .revision = need->revision, .token = b->x->head.token};

    return hub_has(b->x->desk->hub, &rq);
}

static enum may may_fetch(const struct batch *b, const struct item *it)
{
    const struct item_need *need = it->need == API_NO_NEED ? NULL : &b->items->needs[it->need];
    unsigned most = b->x->desk->service->o->batch_fetches;

    if (!need || is_at_hand(b, &need->need))
        return MAY_FETCH;
    if (b->fetching >= FETCHES)
        return MAY_LATER;
    if (need->is_counted || b->fetched + b->fetching < most)
        return MAY_FETCH;
    return b->fetching ? MAY_LATER : MAY_NOT;
}

/* false: later, when a place is free or a fetch has ended. */
static bool begin(struct batch *b, struct item *it)
{
    struct place *p = free_place(b);
    enum may may = p ? may_fetch(b, it) : MAY_LATER;

    if (may == MAY_LATER)
        return false;
    *p = (struct place){.batch = b, .item = it};
    it->state = ITEM_UNDER_WAY;
    if (find_cached(p))
        settle(p);
    else if (may == MAY_NOT)
        refuse(p, ERR_BUDGET, "one call may have so many configs fetched from the hub, and those before this one were as many: ask for it in another call");
    else
        fetch(p);
    return true;
}

/* --- the order ----------------------------------------------------------------------------------------------------------------------- */

/* Items are looked at in their order, so far ahead as there is room for answers that wait. */
static void look_ahead(struct batch *b)
{
    struct item *its_turn = b->at < b->items->n ? item_first(b->items, b->at) : NULL;

    if (its_turn && its_turn->state == ITEM_OPEN && !is_out_of_reach(b, its_turn) && !begin(b, its_turn))
        return;
    if (b->next < b->at)
        b->next = b->at;
    for (; b->next < b->items->n && b->next < b->at + 2 * WINDOW && b->held_bytes < AHEAD_BYTES; b->next++) {
        struct item *it = item_first(b->items, b->next);

        if (it->state == ITEM_OPEN && !is_out_of_reach(b, it) && !begin(b, it))
            return;
    }
}

/* In the order of the items, whatever came first: equal batches end at the same one. */
static void charge(struct batch *b, struct item *it)
{
    if (it->is_charged)
        return;
    it->is_charged = true;
    it->is_over = b->events >= b->most_events;
    b->events += it->is_over ? 0 : it->events;
}

bool batch_is_ready(struct batch *b)
{
    struct item *it = b->at < b->items->n ? item_first(b->items, b->at) : NULL;

    if (it && (it->state == ITEM_DONE || is_out_of_reach(b, it)))
        charge(b, it);
    return !it || b->stopped.code || it->state == ITEM_DONE || it->is_over;
}

static bool is_waiting(const struct batch *b)
{
    return b->x->at != NULL;
}

/* What can begin begins; who waits for the item that is ready now is called. */
static void go_on(struct batch *b)
{
    if (!is_over(b)) {
        look_ahead(b);
        run_ready(b);
    }
    if (!atomic_load(&b->is_left) && is_waiting(b) && batch_is_ready(b))
        exchange_ready(b->x);
}

/* In the log every ten seconds. */
static void tell(struct batch *b)
{
    uint64_t now = clock_ms();

    if (now - b->told_ms < TELL_MS)
        return;
    b->told_ms = now;
    log_note(b->x->desk->service->log, "info", "batch %s: %u of %u items are sent", b->x->id, b->at, b->items->n);
}

static enum batch_outcome outcome_of(const struct batch *b, const struct item *it)
{
    if (&b->items->v[b->at] != it)
        return BATCH_REPEATED;
    if (it->state != ITEM_DONE || it->is_over)
        return BATCH_REFUSED;
    return !it->answer ? BATCH_PROBLEM : it->was_cached ? BATCH_CACHED : BATCH_COMPUTED;
}

/* Equal items that follow are sent the same answer, or one that is asked for anew, and counted anew. */
static bool is_worth_keeping(struct batch *b, struct item *it)
{
    if (!it->left || !it->answer)
        return it->left;
    if (!it->is_kept && b->kept_bytes + it->answer->bytes > KEPT_BYTES)
        return false;
    b->kept_bytes += it->is_kept ? 0 : it->answer->bytes;
    return it->is_kept = true;
}

static void forget(struct batch *b, struct item *it)
{
    size_t bytes = it->answer ? it->answer->bytes : 0;

    b->held_bytes -= bytes;
    b->kept_bytes -= it->is_kept ? bytes : 0;
    item_forget(it);
}

void batch_pass(struct batch *b)
{
    struct item *it = item_first(b->items, b->at);

    metrics_batch_item(b->x->desk->service->metrics, outcome_of(b, it));
    it->left--;
    if (it->state == ITEM_DONE && !is_worth_keeping(b, it))
        forget(b, it);
    b->at++;
    tell(b);
    go_on(b);
}

const char *batch_content_type(const struct exchange *x)
{
    return x->batch->by_lines ? "application/x-ndjson" : "application/json";
}

bool batch_is(const struct exchange *x)
{
    return !strcmp(x->rq.path, "/estimate/batch") && !strcmp(x->rq.method, "POST");
}

/* --- life ------------------------------------------------------------------------------------------------------------------------------ */

/* On the worker: the items, out of the arena. */
static void run_read(struct job *job, struct arena *arena)
{
    struct exchange *x = task_of(job)->x;
    struct api_response refusal;
    struct api_batch parts;

    if (!arena)
        return;
    x->rq.arena = arena;
    if (api_batch_read(&x->rq, &parts, &refusal))
        x->batch->items = items_new(&parts);
    else
        x->made = answer_new(&refusal, NULL);
}

static void on_read(struct task *t)
{
    struct exchange *x = t->x;

    if (x->is_answered)
        return;
    if (x->batch->items) {
        exchange_drop_body(x);
        story_stream(x);
        if (x->is_streaming)
            go_on(x->batch);
        return;
    }
    x->answer = x->made;
    x->made = NULL;
    if (x->answer)
        exchange_ready(x);
    else
        exchange_give_up(x);
}

static bool wants_lines(const struct head *h)
{
    return h->accept && (strstr(h->accept, "application/x-ndjson") || strstr(h->accept, "application/jsonl"));
}

static struct batch *batch_new(struct exchange *x)
{
    const struct service *s = x->desk->service;
    struct batch *b = calloc(1, sizeof *b);
    struct workers_counts workers;

    if (!b)
        return NULL;
    b->x = x;
    b->by_lines = wants_lines(&x->head);
    b->until_ms = x->began_us / 1000 + s->o->batch_deadline_s * 1000ull;
    b->told_ms = clock_ms();
    b->most_events = s->o->batch_work * (uint64_t)s->o->work_budget;
    workers_counts_read(s->workers, &workers);
    b->lanes = workers.threads > 1 ? workers.threads - 1 : 1;
    return b;
}

void batch_begin(struct exchange *x)
{
    x->batch = batch_new(x);
    x->task = (struct task){.x = x, .finished = on_read, .job = {.run = run_read, .until_ms = x->began_us / 1000 + x->desk->service->o->deadline_s * 1000ull}};
    exchange_hold(x);
    if (!x->batch) {
        exchange_give_up(x);
    } else if (!desk_push(&x->task)) {
        metrics_refused(x->desk->service->metrics, REFUSED_QUEUE);
        (void)exchange_refuse(x, ERR_OVERLOADED, 1, "too many requests are waiting to be computed");
        exchange_ready(x);
    }
    exchange_let_go(x);
}

void batch_refuse(struct exchange *x, enum err_code code, const char *detail)
{
    struct batch *b = x->batch;

    if (!b->stopped.code)
        (void)err_set(&b->stopped, code, "", "%s", detail);
    atomic_store(&b->is_cancelled, true);
    go_on(b);
}

void batch_expire(struct exchange *x)
{
    if (clock_ms() >= x->batch->until_ms)
        batch_refuse(x, ERR_OVERLOADED, "the batch took longer than the service grants one: send fewer requests at once");
}

void batch_leave(struct exchange *x)
{
    atomic_store(&x->batch->is_left, true);
    atomic_store(&x->batch->is_cancelled, true);
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    for (struct place *p = b->places; p < b->places + WINDOW; p++) {
        gather_end(&p->gather);
        answer_give_back(p->made);
        free(p->err);
    }
    items_free(b->items);
    free(b);
}

unsigned batch_items(const struct batch *b)
{
    return b && b->items ? b->items->n : 0;
}

unsigned batch_sent(const struct batch *b, uint64_t *ret_bytes)
{
    *ret_bytes = b ? b->sent_bytes : 0;
    return b && b->items ? b->at : 0;
}
