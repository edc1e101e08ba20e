#include "server/story.h"

#include "server/batch.h"
#include "server/clock.h"
#include "server/installed.h"
#include "server/library.h"
#include "server/policy.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGE_BYTES = 16 << 10, /* a body of more is read by a worker, and its job is a large one */
    PASSING_MS = 5000,      /* an answer that the hub's trouble shows in is kept this long */
    PINNED_MS = 86400000,   /* one that cannot change */
};

static struct answer_key key_of(const struct exchange *x)
{
    const struct api_request *rq = &x->rq;

    return (struct answer_key){.method = rq->method, .path = rq->path, .query = rq->query, .content_type = rq->content_type, .body = rq->body,
                               .body_bytes = rq->body_bytes, .token = x->token_digest};
}

/* --- at once ---------------------------------------------------------------------------------------------------------------------- */

static void read_question(struct exchange *x)
{
    bool is_post = x->verb == VERB_POST;

    x->rq = (struct api_request){
        .method = x->verb == VERB_HEAD ? "GET" : x->method,
        .path = x->head.path,
        .query = x->query,
        .content_type = is_post ? x->head.content_type : NULL,
        .body = is_post ? x->body : "",
        .body_bytes = is_post ? x->bytes : 0,
    };
}

static uint64_t kept_ms(const struct service *s, const struct gather_sum *sum)
{
    return sum->is_passing ? PASSING_MS : sum->is_pinned ? PINNED_MS : s->fresh_ms;
}

struct answer *story_keep(struct service *s, const struct answer_key *key, const struct gather *configs, bool has_token, const struct api_response *r,
                          bool is_lasting)
{
    struct gather_sum sum;
    struct answer_about about = {.is_miss = true, .work_events = r->work_events};
    uint64_t now = clock_ms();
    struct answer *a;

    gather_sum(configs, &sum);
    about.is_kept = s->answers && r->status == 200 && is_lasting;
    about.tier = sum.tier;
    about.is_private = sum.is_private || has_token;
    about.max_age_s = (unsigned)(kept_ms(s, &sum) / 1000);
    about.retry_after_s = r->status == 503 || r->status == 429 ? sum.retry_after_s : 0;
    a = answer_new(r, &about);
    if (a && about.is_kept)
        answers_keep(s->answers, key, a, now, now + kept_ms(s, &sum));
    return a;
}

static struct answer *make(struct exchange *x, const struct api_response *r, bool is_lasting)
{
    struct answer_key key = key_of(x);

    return story_keep(x->desk->service, &key, &x->gather, x->head.token, r, is_lasting);
}

static bool pack(struct exchange *x, struct answer *a, size_t most)
{
    struct answer_key key = key_of(x);
    bool now, good = answer_pack(a, most, &now);

    if (now)
        answers_recount(x->desk->service->answers, &key, a);
    return good;
}

bool story_pack(struct exchange *x)
{
    return pack(x, x->answer, PACK_AT_ONCE);
}

static enum exchange_next answer_cheap(struct exchange *x)
{
    struct api_response r;
    struct arena arena;

    arena_init(&arena, x->desk->scratch, API_CHEAP_BYTES);
    x->rq.arena = &arena;
    api_answer(&x->rq, NULL, 0, &r);
    x->answer = make(x, &r, r.max_age_s > 0);
    return NEXT_SEND;
}

/* --- who may wait ----------------------------------------------------------------------------------------------------------------- */

/* His address, or what our proxy saw of it. Not his token: nobody has verified it, and anyone can write another. */
static struct digest caller_of(const struct exchange *x)
{
    const struct service *s = x->desk->service;
    const char *who = x->head.address ? x->head.address : "";
    char forwarded[64], network[POLICY_NETWORK_BYTES];
    struct hash h;

    if (x->head.forwarded && policy_listed(s->o->proxies, who, strlen(who))) {
        policy_forwarded(x->head.forwarded, forwarded, sizeof forwarded);
        who = forwarded;
    }
    policy_network(who, network, sizeof network);
    hash_begin(&h, &s->key);
    hash_add(&h, network, strlen(network));
    return hash_end(&h);
}

/* The adapter's texts end with the connection; a job may last longer. */
static bool own_texts(struct exchange *x)
{
    size_t path = strlen(x->rq.path) + 1, type = x->rq.content_type ? strlen(x->rq.content_type) + 1 : 0;

    x->owned = malloc(path + type);
    if (!x->owned)
        return false;
    x->rq.path = memcpy(x->owned, x->rq.path, path);
    if (type)
        x->rq.content_type = memcpy(x->owned + path, x->rq.content_type, type);
    return true;
}

static enum exchange_next refuse(struct exchange *x, enum refusal why, enum err_code code, unsigned retry_after_s, const char *detail)
{
    metrics_refused(x->desk->service->metrics, why);
    return exchange_refuse(x, code, retry_after_s, "%s", detail);
}

static bool take(atomic_uint *n, unsigned most)
{
    if (atomic_fetch_add(n, 1) < most)
        return true;
    atomic_fetch_sub(n, 1);
    return false;
}

/* One address has half of them at most; two that share a slot have it together. */
static bool take_batch(struct exchange *x)
{
    struct service *s = x->desk->service;
    atomic_uint *of_address = &s->batches_of[caller_of(x).d[0] % BATCH_SLOTS];

    if (!take(of_address, (s->o->batches + 1) / 2))
        return false;
    if (!take(&s->batches, s->o->batches)) {
        atomic_fetch_sub(of_address, 1);
        return false;
    }
    x->batch_of_address = of_address;
    return true;
}

unsigned story_may_compute(struct exchange *x)
{
    struct service *s = x->desk->service;

    return s->limit ? limit_take(s->limit, caller_of(x), clock_ms()) : 0;
}

static enum exchange_next admit(struct exchange *x)
{
    unsigned wait_s = batch_is(x) ? 0 : story_may_compute(x);

    if (wait_s)
        return refuse(x, REFUSED_RATE, ERR_TOO_MANY, wait_s, "answers that have to be computed are limited for one caller; those in the cache are not");
    if (x->desk->is_refusing)
        return refuse(x, REFUSED_DRAINING, ERR_DRAINING, 1, "the service is going away");
    if (!exchange_take_slot(x))
        return refuse(x, REFUSED_WAITING, ERR_OVERLOADED, 1, "too many requests are waiting");
    if (batch_is(x) && !take_batch(x))
        return refuse(x, REFUSED_BATCHES, ERR_OVERLOADED, 5, "too many batches are being answered");
    if (!own_texts(x))
        return exchange_refuse(x, ERR_NOMEM, 1, "no memory for the request");
    return NEXT_WAIT;
}

enum exchange_next story_ask(struct exchange *x)
{
    struct service *s = x->desk->service;
    struct answer_key key;

    read_question(x);
    if (batch_is(x)) /* its items are looked up, one by one */
        return admit(x);
    key = key_of(x);
    x->answer = answers_find(s->answers, &key, x->desk->now_ms);
    if (x->answer) {
        x->is_hit = true;
        return NEXT_SEND;
    }
    return api_is_cheap(&x->rq) ? answer_cheap(x) : admit(x);
}

/* --- the worker ------------------------------------------------------------------------------------------------------------------- */

static void compute(struct exchange *x);
static void ask_hub(struct exchange *x);

static struct exchange *exchange_of(struct job *job)
{
    return task_of(job)->x;
}

static bool is_large(const struct exchange *x)
{
    return x->rq.body_bytes > LARGE_BYTES;
}

static void go_on(struct task *t);

static void push(struct exchange *x, void (*run)(struct job *job, struct arena *arena))
{
    x->task = (struct task){.x = x, .finished = go_on,
                            .job = {.run = run, .is_large = is_large(x), .cancelled = &x->is_dropped,
                                    .until_ms = x->began_us / 1000 + x->desk->service->o->deadline_s * 1000ull}};
    exchange_hold(x);
    if (!desk_push(&x->task)) {
        (void)refuse(x, REFUSED_QUEUE, ERR_OVERLOADED, 1, "too many requests are waiting to be computed");
        exchange_ready(x);
    }
    exchange_let_go(x);
}

/* Another may have asked the same meanwhile. */
static void run_answer(struct job *job, struct arena *arena)
{
    struct exchange *x = exchange_of(job);
    struct answer_key key = key_of(x);
    struct api_response r;

    x->is_late = !arena;
    if (!arena)
        return;
    x->made = answers_find(x->desk->service->answers, &key, clock_ms());
    if (x->made)
        return;
    x->rq.arena = arena;
    x->rq.budget = &job->work;
    x->rq.library = library_shared;
    x->rq.installed = installed_all();
    api_answer(&x->rq, gather_configs(&x->gather), x->gather.n, &r);
    if (job->work.is_stopped)
        return;
    metrics_work(x->desk->service->metrics, r.route, r.work_events);
    x->made = make(x, &r, true);
    if (x->made && x->takes_gzip)
        (void)pack(x, x->made, SIZE_MAX); /* here however large */
}

static size_t text_bytes(const char *text)
{
    return strlen(text) + 1;
}

/* Out of the arena, into a block of their own. */
static bool keep_needs(struct exchange *x, const struct api_needs *needs)
{
    size_t bytes = needs->n * sizeof *needs->v;
    struct api_need *v;
    char *text;

    for (uint32_t i = 0; i < needs->n; i++)
        bytes += text_bytes(needs->v[i].model) + text_bytes(needs->v[i].revision);
    v = needs->n ? malloc(bytes) : NULL;
    if (needs->n && !v)
        return false;
    text = (char *)(v + needs->n);
    for (uint32_t i = 0; i < needs->n; i++) {
        v[i].model = memcpy(text, needs->v[i].model, text_bytes(needs->v[i].model));
        text += text_bytes(v[i].model);
        v[i].revision = memcpy(text, needs->v[i].revision, text_bytes(needs->v[i].revision));
        text += text_bytes(v[i].revision);
        v[i].code = needs->v[i].code;
    }
    x->needs = (struct api_needs){.n = needs->n, .v = v};
    return true;
}

static void read_needs(struct exchange *x, struct arena *arena)
{
    struct api_needs needs;

    x->rq.arena = arena;
    api_needs(&x->rq, &needs);
    x->has_needs = !needs.failed && keep_needs(x, &needs);
}

static void run_needs(struct job *job, struct arena *arena)
{
    struct exchange *x = exchange_of(job);

    x->is_late = !arena;
    if (arena)
        read_needs(x, arena);
}

/* --- step by step ----------------------------------------------------------------------------------------------------------------- */

void story_begin(struct exchange *x)
{
    struct arena arena;

    if (batch_is(x)) {
        batch_begin(x);
        return;
    }
    if (x->rq.body_bytes > LARGE_BYTES) {
        push(x, run_needs);
        return;
    }
    arena_init(&arena, x->desk->scratch, API_CHEAP_BYTES);
    read_needs(x, &arena);
    ask_hub(x);
}

static void on_fetched(void *arg)
{
    struct exchange *x = arg;

    if (!x->is_answered)
        compute(x);
    exchange_let_go(x);
}

static void ask_hub(struct exchange *x)
{
    if (x->has_needs && gather_begin(&x->gather, x->desk->hub, &x->needs, x->head.token, on_fetched, x))
        compute(x);
    else if (x->has_needs)
        exchange_hold(x);
    else
        exchange_give_up(x);
}

static void compute(struct exchange *x)
{
    if (x->gather.no_memory)
        exchange_give_up(x);
    else
        push(x, run_answer);
}

/* A worker is done. */
static void go_on(struct task *t)
{
    struct exchange *x = t->x;

    if (x->is_answered)
        return;
    if (t->job.run == run_needs && x->has_needs) {
        ask_hub(x);
        return;
    }
    x->answer = x->made;
    x->made = NULL;
    if (!x->answer && x->is_late)
        (void)refuse(x, REFUSED_DEADLINE, ERR_OVERLOADED, 1, "the request waited longer than the service grants one");
    if (x->answer)
        exchange_ready(x);
    else
        exchange_give_up(x);
}

void story_stream(struct exchange *x)
{
    const struct api_response head = {.status = 200, .route = "/estimate/batch", .body = "", .content_type = batch_content_type(x)};
    const struct answer_about about = {.is_streamed = true, .is_private = x->head.token};

    x->answer = answer_new(&head, &about);
    x->is_streaming = x->answer;
    if (x->is_streaming)
        exchange_ready(x);
    else
        exchange_give_up(x);
}
