/* GET and POST /estimate: two ways to ask the same question. */
#include "api/answer/estimate.h"
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
            return err_set(c->err, ERR_UNKNOWN_MEMBER, i->pointer, "the parameter %.80s is not known, and strict refuses what is not",
                           i->pointer + 1);
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
    need_add(needs, theirs_model(c->doc, needs->arena), json_str(json_get(c->doc, "revision")),
             need_of_code(json_str(json_get(c->doc, "program")), json_get(c->doc, "modeling")));
}

void get_estimate_needs(const struct call *c, struct needs *needs)
{
    need_add(needs, query_value(&c->query, "model"), query_value(&c->query, "revision"), need_of_code(query_value(&c->query, "program"), false));
}

static enum err_code answer_post(struct call *c, bool snapshot)
{
    struct notes noted = {.arena = c->arena};
    struct shape shape;
    enum err_code rc = shape_read(c, &shape, &noted);

    shape.snapshot = snapshot;
    return rc ? rc : estimate_answer(c, &shape, &noted);
}

static enum err_code answer_get(struct call *c, bool snapshot)
{
    struct json *doc = NULL;
    struct shape shape;
    enum err_code rc = shape_read(c, &shape, NULL); /* the other parameters are the question's */

    shape.snapshot = snapshot;
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

enum err_code post_estimate(struct call *c)
{
    return answer_post(c, false);
}

enum err_code get_estimate(struct call *c)
{
    return answer_get(c, false);
}

enum err_code post_snapshot(struct call *c)
{
    return answer_post(c, true);
}

enum err_code get_snapshot(struct call *c)
{
    return answer_get(c, true);
}
