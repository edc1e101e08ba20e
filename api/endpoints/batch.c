/* POST /estimate/batch: many questions, each as POST /estimate takes it. */
#include "api/answer/estimate.h"
#include "api/routes.h"

#include <stdio.h>
#include <string.h>

/* --- taken apart ---------------------------------------------------------------------------------------------------------------- */

static enum err_code check_batch(struct call *c, const struct json **ret_requests)
{
    const struct json *requests = json_get(c->doc, "requests");

    if (json_type(c->doc) != JSON_OBJECT)
        return err_set(c->err, ERR_FIELD_TYPE, "", "must be an object, not %s", json_type_name(json_type(c->doc)));
    if (!requests)
        return err_set(c->err, ERR_FIELD_MISSING, "/requests", "a list of requests, each as POST /estimate takes it");
    if (json_type(requests) != JSON_ARRAY)
        return err_set(c->err, ERR_FIELD_TYPE, "/requests", "must be a list, not %s", json_type_name(json_type(requests)));
    if (!json_count(requests) || json_count(requests) > API_ITEMS_MAX)
        return err_set(c->err, ERR_FIELD_RANGE, "/requests", "must have 1 to %d requests, not %zu", (int)API_ITEMS_MAX,
                       json_count(requests));
    *ret_requests = requests;
    return ERR_OK;
}

static uint32_t add_need(struct needs *needs, const struct json *item)
{
    return need_add(needs, theirs_model(item, needs->arena), json_str(json_get(item, "revision")),
                    need_of_code(json_str(json_get(item, "program")), json_get(item, "modeling")));
}

void batch_needs(const struct call *c, struct needs *needs)
{
    json_each (item, json_get(c->doc, "requests"))
        (void)add_need(needs, item);
}

/* Past the value that begins here, in text that was read as JSON: strings and brackets tell where it ends. */
static const char *skip_value(const char *at, const char *end)
{
    unsigned depth = 0;

    for (bool quoted = false; at < end; at++) {
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (quoted)
            continue;
        else if (*at == '{' || *at == '[')
            depth++;
        else if (!depth && (*at == ',' || *at == '}' || *at == ']'))
            return at;
        else if (*at == '}' || *at == ']')
            depth--;
    }
    return at;
}

/* The value of the object's member number n, counted from 0. */
static const char *find_member(const char *at, const char *end, size_t n)
{
    for (at = memchr(at, '{', (size_t)(end - at)) + 1; n--; at++)
        at = skip_value(at, end);
    for (at = memchr(at, '"', (size_t)(end - at)) + 1; *at != '"'; at++)
        at += *at == '\\';
    return memchr(at, ':', (size_t)(end - at)) + 1;
}

/* The last of several members of that name counts, here as everywhere. */
static size_t place_of(const struct json *object, const struct json *member)
{
    size_t n = 0;

    for (const struct json *v = json_first(object); v != member; v = json_next(v))
        n++;
    return n;
}

static size_t without_blanks(const char *at, const char *end, char *out)
{
    size_t n = 0;

    for (bool quoted = false; at < end; at++) {
        if (!quoted && strchr(" \t\r\n", *at))
            continue;
        if (quoted && *at == '\\')
            out[n++] = *at++;
        else if (*at == '"')
            quoted = !quoted;
        out[n++] = *at;
    }
    return n;
}

/* FNV-1a. */
static uint32_t hash(const char *s, size_t n)
{
    uint32_t h = 2166136261U;

    while (n--)
        h = (h ^ (unsigned char)*s++) * 16777619U;
    return h;
}

enum { SLOTS = 4096 };

/* The first item with this body: `slots` has the numbers of those before, 1 for the first. Equal sums are few and short: a chain is walked to its end. */
static uint32_t first_of(const struct api_item *items, uint32_t i, uint16_t slots[SLOTS])
{
    uint32_t at = hash(items[i].body, items[i].bytes) % SLOTS;

    for (; slots[at]; at = (at + 1) % SLOTS) {
        const struct api_item *o = &items[slots[at] - 1];

        if (o->bytes == items[i].bytes && !memcmp(o->body, items[i].body, o->bytes))
            return slots[at] - 1U;
    }
    slots[at] = (uint16_t)(i + 1);
    return i;
}

static enum err_code take_apart(struct call *c, const struct json *requests, struct api_batch *ret)
{
    const char *end = c->rq->body + c->rq->body_bytes;
    const char *at = find_member(c->rq->body, end, place_of(c->doc, requests));
    size_t n = json_count(requests);
    struct api_item *items = arena_array(c->arena, struct api_item, n);
    char *text = arena_array_raw(c->arena, char, (size_t)(end - at));
    uint16_t *slots = arena_array(c->arena, uint16_t, SLOTS);
    struct needs needs = {.arena = c->arena};
    uint32_t i = 0;

    if (!items || !text || !slots || !needs_init(&needs, API_NEEDS_MAX))
        return err_set(c->err, ERR_NOMEM, "", "no room for the batch");
    at = memchr(at, '[', (size_t)(end - at));
    json_each (item, requests) {
        const char *from = at + 1;

        at = skip_value(from, end);
        items[i] = (struct api_item){.body = text, .bytes = without_blanks(from, at, text)};
        text += items[i].bytes;
        items[i].same_as = first_of(items, i, slots);
        items[i].need = add_need(&needs, item);
        i++;
    }
    if (needs.full)
        return err_set(c->err, ERR_NOMEM, "", "no room for the batch");
    *ret = (struct api_batch){.n = i, .items = items, .needs = {.n = needs.n, .v = needs.v}};
    return ERR_OK;
}

/* The query is read here too, so that what is wrong with it is told once. */
static enum err_code read_batch(struct call *c, struct api_batch *ret)
{
    struct notes noted = {.arena = c->arena};
    const struct json *requests = NULL;
    struct shape shape;
    enum err_code rc = check_batch(c, &requests);

    if (!rc)
        rc = shape_read(c, &shape, &noted);
    return rc ? rc : take_apart(c, requests, ret);
}

bool api_batch_read(const struct api_request *rq, struct api_batch *ret, struct api_response *ret_refusal)
{
    struct api_response response = {.route = "/estimate/batch"};
    struct err err = {0};
    struct call c = {.rq = rq, .rest = "", .arena = rq->arena, .ret = &response, .err = &err};
    struct json *doc = NULL;
    enum err_code rc = read_post(&c, &doc);

    if (!rc)
        rc = read_batch(&c, ret);
    json_free(doc);
    if (!rc)
        return true;
    problem(&c);
    *ret_refusal = response;
    return false;
}

struct api_request api_item_request(const struct api_request *batch, const struct api_item *item)
{
    return (struct api_request){.method = "POST",
                                .path = "/estimate",
                                .query = batch->query,
                                .content_type = "application/json",
                                .body = item->body,
                                .body_bytes = item->bytes};
}

void api_item_problem(const struct err *err, unsigned retry_after_s, uint32_t i, struct arena *arena, struct api_response *ret)
{
    struct err copy = *err;
    struct call c = {.arena = arena, .ret = ret, .err = &copy, .retry_after_s = retry_after_s};
    char prefix[32];

    *ret = (struct api_response){.route = "/estimate/batch"};
    (void)snprintf(prefix, sizeof prefix, "/requests/%u", i);
    (void)err_under(&copy, prefix);
    problem(&c);
}

const struct err api_item_over = {.code = ERR_BUDGET,
                                  .detail = "the items before this one caused as much work as one batch may: ask for it in another call"};

/* --- one after another ------------------------------------------------------------------------------------------------------------ */

enum { PROBLEM_BYTES = 1024 }; /* a problem document is no longer */

/* Where an item's answer stands among those before. */
struct span {
    size_t at, bytes;
};

struct batch {
    struct call *call;
    struct api_batch parts;
    struct arena keep, work; /* the answers; one item after the other */
    struct span *answered;   /* bytes 0: a problem */
    uint64_t events;         /* of work */
    struct buf out;
};

static bool has_room(const struct batch *b, uint32_t i, size_t bytes)
{
    size_t reserved = (size_t)(b->parts.n - i) * PROBLEM_BYTES;

    return b->out.bytes + bytes + reserved <= ANSWER_MAX_BYTES;
}

static void put_answer(struct batch *b, uint32_t i, const char *body, size_t bytes)
{
    b->answered[i] = (struct span){b->out.bytes, bytes};
    buf_add(&b->out, body, bytes);
}

static void put_problem(struct batch *b, const struct err *err, unsigned retry_after_s, struct arena work, uint32_t i)
{
    struct api_response told;

    api_item_problem(err, retry_after_s, i, &work, &told);
    buf_add(&b->out, told.body, told.bytes - 1);
}

/* The item's document as the single answer has it, less its last newline. */
static void answer_item(struct batch *b, uint32_t i)
{
    static const struct err no_room = {.code = ERR_NOMEM,
                                       .detail = "the answers together are larger than the service grants: send fewer requests, or ?top=1"};
    struct api_request rq = api_item_request(b->call->rq, &b->parts.items[i]);
    struct span before = b->answered[b->parts.items[i].same_as];
    struct arena work = b->work;
    struct api_response r;

    if (before.bytes && has_room(b, i, before.bytes)) {
        buf_add(&b->out, buf_text(&b->out) + before.at, before.bytes);
        return;
    }
    if (b->events >= API_BATCH_WORK * API_WORK_EVENTS) {
        put_problem(b, &api_item_over, 0, work, i);
        return;
    }
    rq.arena = &work;
    rq.budget = b->call->rq->budget; /* the caller's, of all items; none: each has its own */
    api_answer(&rq, b->call->configs, b->call->n_configs, &r);
    b->events += r.work_events;
    if (r.status == 200 && has_room(b, i, r.bytes))
        put_answer(b, i, r.body, r.bytes - 1);
    else
        put_problem(b, r.status != 200 && r.err ? r.err : &no_room, r.retry_after_s, work, i);
    b->call->ret->fits |= r.fits;
    b->call->ret->modelled |= r.modelled;
}

/* The answers get a third of the arena, at most what an answer may have; the rest serves one item after another. */
static void split(struct batch *b)
{
    struct arena *a = b->call->arena;
    size_t room = (size_t)(a->end - a->cur) / 3;

    if (room > 2 * (size_t)ANSWER_MAX_BYTES)
        room = 2 * (size_t)ANSWER_MAX_BYTES;
    b->keep = b->work = *a;
    b->work.cur = b->keep.end = a->cur + room;
}

enum err_code post_batch(struct call *c)
{
    struct batch b = {.call = c};
    enum err_code rc = read_batch(c, &b.parts);

    if (rc)
        return rc;
    b.answered = arena_array(c->arena, struct span, b.parts.n);
    split(&b);
    buf_init(&b.out, &b.keep, ANSWER_MAX_BYTES);
    buf_str(&b.out, API_BATCH_HEAD);
    for (uint32_t i = 0; b.answered && i < b.parts.n; i++) {
        buf_str(&b.out, i ? API_BATCH_BETWEEN : "");
        answer_item(&b, i);
    }
    buf_str(&b.out, API_BATCH_TAIL);
    if (!b.answered || !buf_ok(&b.out))
        return err_set(c->err, ERR_NOMEM, "", "the answer is larger than the service grants");
    c->ret->status = 200;
    c->ret->content_type = "application/json";
    c->ret->body = buf_text(&b.out);
    c->ret->bytes = b.out.bytes;
    return ERR_OK;
}
