/* GET and POST /estimate, POST /estimate/batch: three ways to ask the same question. */
#include "api/estimate.h"
#include "api/routes.h"

#include <stdio.h>
#include <string.h>

enum { LAUNCHES_ALL = 1 };

/* --- the query of any of them -------------------------------------------------------------------------------------------------- */

static const struct word launch_words[] = {{"recommendation", 0, NULL, NULL}, {"all", LAUNCHES_ALL, NULL, NULL}, {0}};

#define AT(member) .key = #member, .at = offsetof(struct shape, member)
static const struct member shape_members[] = {
    {AT(top), .kind = KIND_WHOLE, .min = 1, .max = 1000},
    {AT(launch), .kind = KIND_WORDS, .words = launch_words},
    {AT(timeline), .kind = KIND_BOOL},
    {AT(strict), .kind = KIND_BOOL},
    {AT(largest), .kind = KIND_BOOL},
    {0},
};
#define SHAPE_NAMES "top|launch|timeline|strict|largest"

/* These are no members of the document: what is wrong with one is told by its name alone. */
static enum err_code blame_shape(struct call *c, enum err_code rc)
{
    if (!c->parameter && c->err->at[0] == '/')
        c->parameter = arena_str(c->arena, c->err->at + 1, strlen(c->err->at + 1));
    c->err->at[0] = 0;
    return rc;
}

bool shape_launches_all(const struct shape *s)
{
    return s->launch.n && launch_words[s->launch.at[0]].value == LAUNCHES_ALL;
}

/* What a POST's query holds beside them. */
static enum err_code note_others(struct call *c, const struct left_out *others, bool strict, struct notes *noted)
{
    for (const struct ignored *i = others->ignored; i; i = i->next) {
        if (strict)
            return err_set(c->err, ERR_UNKNOWN_MEMBER, i->pointer, "the parameter %.80s is not known, and strict refuses what is not", i->pointer + 1);
        note(noted, "the parameter %.80s is not known and was ignored", i->pointer + 1);
    }
    return left_out_check(others, c->err);
}

enum err_code shape_read(struct call *c, struct shape *ret, struct notes *ret_noted)
{
    struct left_out others;
    struct decoding d = {.arena = c->arena, .warnings = ret_noted, .err = c->err, .left_out = ret_noted ? &others : NULL};
    struct json *doc = NULL;
    enum err_code rc = query_document(&c->query, shape_members, NULL, c->arena, &doc, &c->parameter, c->err);

    *ret = (struct shape){0};
    left_out_init(&others, c->arena, false);
    if (!rc)
        rc = decode(&d, doc, shape_members, ret);
    if (!rc)
        rc = note_others(c, &others, ret->strict == TRI_TRUE, ret_noted);
    json_free(doc);
    if (!ret->top.set)
        ret->top = (struct quantity){.set = true, .whole = SHAPE_TOP};
    return rc ? blame_shape(c, rc) : ERR_OK;
}

/* --- one ----------------------------------------------------------------------------------------------------------------------- */

void estimate_needs(const struct call *c, struct needs *needs)
{
    need_add(needs, json_str(json_get(c->doc, "model")), json_str(json_get(c->doc, "revision")));
}

void get_estimate_needs(const struct call *c, struct needs *needs)
{
    need_add(needs, query_value(&c->query, "model"), query_value(&c->query, "revision"));
}

enum err_code post_estimate(struct call *c)
{
    struct notes noted = {.arena = c->arena};
    struct shape shape;
    enum err_code rc = shape_read(c, &shape, &noted);

    return rc ? rc : estimate_answer(c, &shape, &noted);
}

enum err_code get_estimate(struct call *c)
{
    struct json *doc = NULL;
    struct shape shape;
    enum err_code rc = shape_read(c, &shape, NULL); /* the other parameters are the question's */

    if (rc)
        return rc;
    rc = query_document(&c->query, estimate_members, SHAPE_NAMES, c->arena, &doc, &c->parameter, c->err);
    if (!rc) {
        c->doc = doc;
        rc = estimate_answer(c, &shape, NULL);
    }
    if (rc && !c->parameter)
        c->parameter = query_blame(&c->query, estimate_members, c->err->at, c->arena);
    json_free(doc);
    return rc;
}

/* --- many ---------------------------------------------------------------------------------------------------------------------- */

enum { BATCH_MAX = API_NEEDS_MAX, PROBLEM_BYTES = 1024 }; /* a problem document is no longer */

static enum err_code check_batch(struct call *c, const struct json **ret_requests)
{
    const struct json *requests = json_get(c->doc, "requests");

    if (json_type(c->doc) != JSON_OBJECT)
        return err_set(c->err, ERR_FIELD_TYPE, "", "must be an object, not %s", json_type_name(json_type(c->doc)));
    if (!requests)
        return err_set(c->err, ERR_FIELD_MISSING, "/requests", "a list of requests, each as POST /estimate takes it");
    if (json_type(requests) != JSON_ARRAY)
        return err_set(c->err, ERR_FIELD_TYPE, "/requests", "must be a list, not %s", json_type_name(json_type(requests)));
    if (!json_count(requests) || json_count(requests) > BATCH_MAX)
        return err_set(c->err, ERR_FIELD_RANGE, "/requests", "must have 1 to %d requests, not %zu", (int)BATCH_MAX, json_count(requests));
    *ret_requests = requests;
    return ERR_OK;
}

void batch_needs(const struct call *c, struct needs *needs)
{
    json_each(item, json_get(c->doc, "requests"))
        need_add(needs, json_str(json_get(item, "model")), json_str(json_get(item, "revision")));
}

/* What is wrong with an item, in its place. Its pointer begins at the batch. */
static void put_problem(struct call *item, uint32_t i)
{
    char prefix[32];

    (void)snprintf(prefix, sizeof prefix, "/requests/%u", i);
    (void)err_under(item->err, prefix);
    problem(item);
}

struct batch {
    struct call *call;
    struct shape shape;
    struct notes noted;
    struct arena keep, work; /* the answers; one item after the other */
    struct buf out;
    struct jsonw w;
    uint32_t left;           /* items without an answer yet, this one included */
};

/* The item's document as the single answer has it, less its last newline. */
static bool put_answer(struct batch *b, const struct api_response *r)
{
    size_t reserved = (size_t)b->left * PROBLEM_BYTES;

    if (r->status == 200 && b->out.bytes + r->bytes + reserved > ANSWER_MAX_BYTES)
        return false;
    jsonw_raw(&b->w, NULL, r->body, r->bytes - 1);
    return true;
}

static void answer_item(struct batch *b, const struct json *doc, uint32_t i)
{
    struct api_response response = {0};
    struct err err = {0};
    struct call item = *b->call;
    struct arena work = b->work;
    enum err_code rc;

    item.doc = doc;
    item.arena = &work;
    item.ret = &response;
    item.err = &err;
    rc = estimate_answer(&item, &b->shape, &b->noted);
    if (rc) {
        work = b->work;
        put_problem(&item, i);
    }
    if (!put_answer(b, &response)) {
        work = b->work;
        (void)err_set(&err, ERR_NOMEM, "", "the answers together are larger than the service grants: send fewer requests, or ?top=1");
        put_problem(&item, i);
        (void)put_answer(b, &response);
    }
    b->call->ret->fits |= response.fits;
    b->call->ret->modelled |= response.modelled;
    b->left--;
}

/* The answers get a third of the arena, at most what an answer may have; the rest serves one item after another. */
static void split(struct batch *b)
{
    struct arena *a = b->call->arena;
    size_t room = (size_t)(a->end - a->cur) / 3;

    if (room > 2 * (size_t)ANSWER_MAX_BYTES)
        room = 2 * (size_t)ANSWER_MAX_BYTES;
    b->keep = (struct arena){a->cur, a->cur + room};
    b->work = (struct arena){a->cur + room, a->end};
}

static enum err_code answer_batch(struct batch *b, const struct json *requests)
{
    struct call answer = *b->call;
    uint32_t i = 0;

    split(b);
    b->left = (uint32_t)json_count(requests);
    answer.arena = &b->keep;
    begin_json(&answer, &b->out, &b->w);
    jsonw_object(&b->w, NULL);
    jsonw_array(&b->w, "results");
    json_each(item, requests)
        answer_item(b, item, i++);
    jsonw_end(&b->w);
    jsonw_end(&b->w);
    return finish_json(&answer, &b->w);
}

enum err_code post_batch(struct call *c)
{
    struct batch b = {.call = c, .noted.arena = c->arena};
    const struct json *requests = NULL;
    enum err_code rc = check_batch(c, &requests);

    if (!rc)
        rc = shape_read(c, &b.shape, &b.noted);
    return rc ? rc : answer_batch(&b, requests);
}
