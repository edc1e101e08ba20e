#include "tests/support/ask.h"

#include "tests/support/carried.h"
#include "tests/support/programs.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIGS_MAX = 64 };

static size_t builtin_configs(const struct api_needs *needs, struct api_config *ret)
{
    size_t n = 0;

    for (uint32_t i = 0; i < needs->n && n < CONFIGS_MAX; i++) {
        const struct builtin *b = builtin_find(needs->v[i].model);

        if (b)
            ret[n++] = (struct api_config){.model = needs->v[i].model, .revision = needs->v[i].revision, .text = carried_text(b), .bytes = b->bytes,
                                           .source = "builtin"};
    }
    return n;
}

enum { AS_IT_COMES = -1 };

static struct reply run_on(int filling, struct budget *budget, size_t room, const struct api_config *configs, size_t n, const char *method, const char *path,
                           const char *type, const char *body)
{
    struct reply reply = {.block = malloc(room)};
    struct arena arena;
    char *plain = strdup(path), *query = strchr(plain, '?');
    struct api_request rq = {.method = method, .path = plain, .content_type = type, .body = body, .body_bytes = strlen(body), .arena = &arena, .library = programs_library,
                             .budget = budget};
    struct api_config found[CONFIGS_MAX];
    struct err err = {0};

    if (query) {
        *query = 0;
        rq.query = query + 1;
    }
    if (filling != AS_IT_COMES)
        memset(reply.block, filling, room);
    arena_init(&arena, reply.block, room);
    api_needs(&rq, &reply.needs);
    if (!configs)
        n = builtin_configs(&reply.needs, found);
    api_answer(&rq, configs ? configs : found, n, &reply.r);
    if (reply.r.content_type && strstr(reply.r.content_type, "json"))
        ck_assert_msg(!json_parse(reply.r.body, reply.r.bytes, &(struct json_limits){.bytes = 64 << 20, .depth = 64, .values = 10000000}, &reply.doc, &err),
                      "%.*s: %s", 200, reply.r.body, err.detail);
    free(plain);
    return reply;
}

static struct reply run(size_t room, const struct api_config *configs, size_t n, const char *method, const char *path, const char *type,
                        const char *body)
{
    return run_on(AS_IT_COMES, NULL, room, configs, n, method, path, type, body);
}

struct reply ask_working(struct budget *budget, const char *body)
{
    return run_on(AS_IT_COMES, budget, API_ARENA_BYTES, NULL, 0, "POST", "/estimate", NULL, body);
}

struct reply ask_within(size_t room, const char *method, const char *path, const char *type, const char *body)
{
    return run(room, NULL, 0, method, path, type, body);
}

struct reply ask_with(const struct api_config *configs, size_t n, const char *method, const char *path, const char *body)
{
    return run(API_ARENA_BYTES, configs, n, method, path, NULL, body);
}

struct reply ask(const char *body)
{
    return run(API_ARENA_BYTES, NULL, 0, "POST", "/estimate", NULL, body);
}

struct reply ask_over(int byte, const char *body)
{
    return run_on(byte, NULL, API_ARENA_BYTES, NULL, 0, "POST", "/estimate", NULL, body);
}

struct reply ask_get(const char *path)
{
    return run(API_ARENA_BYTES, NULL, 0, "GET", path, NULL, "");
}

void reply_done(struct reply reply)
{
    json_free(reply.doc);
    free(reply.block);
}

const char *reply_text(const struct reply *reply, const char *name)
{
    const char *s = json_str(json_get(reply->doc, name));

    return s ? s : "";
}

static const struct json *element(const struct json *array, unsigned long i)
{
    const struct json *v = json_first(array);

    while (v && i--)
        v = json_next(v);
    return v;
}

const struct json *reply_at(const struct reply *reply, const char *path)
{
    const struct json *v = reply->doc;
    char name[128];

    while (v && *path) {
        size_t n = strcspn(path, "/");

        memcpy(name, path, n);
        name[n] = 0;
        v = json_type(v) == JSON_ARRAY ? element(v, strtoul(name, NULL, 10)) : json_get(v, name);
        path += n + (path[n] == '/');
    }
    return v;
}

void reply_value(const struct reply *reply, const char *path, char text[64])
{
    const struct json *v = reply_at(reply, path);
    double number;
    bool flag;

    if (json_str(v))
        (void)snprintf(text, 64, "%s", json_str(v));
    else if (json_bool(v, &flag))
        (void)snprintf(text, 64, "%s", flag ? "true" : "false");
    else if (json_number(v, &number))
        (void)snprintf(text, 64, "%.10g", number);
    else
        (void)snprintf(text, 64, "(%s)", json_type_name(json_type(v)));
}
