#include "api/routes.h"

#include "api/request/request.h"

#include <stdio.h>
#include <string.h>

enum { AN_HOUR_S = 3600, FIVE_MINUTES_S = 300 }; /* tables change with the program, a branch of a model when somebody pushes */

static const struct route {
    const char *method, *path; /* as openapi.yaml writes it; a parameter at the end is whatever follows */
    endpoint *answer;
    endpoint_needs *needs; /* NULL: tables are enough, and the answer is cheap */
    unsigned max_age_s;
} routes[] = {
    {"GET", "/estimate", get_estimate, get_estimate_needs, FIVE_MINUTES_S},
    {"POST", "/estimate", post_estimate, estimate_needs, FIVE_MINUTES_S},
    {"GET", "/estimate/snapshot", get_snapshot, get_estimate_needs, FIVE_MINUTES_S},
    {"POST", "/estimate/snapshot", post_snapshot, estimate_needs, FIVE_MINUTES_S},
    {"POST", "/estimate/batch", post_batch, batch_needs, 0},
    {"GET", "/models", get_models, NULL, AN_HOUR_S},
    {"POST", "/models", post_models, estimate_needs, FIVE_MINUTES_S},
    {"GET", "/models/{id}", get_model, get_model_needs, FIVE_MINUTES_S},
    {"GET", "/gpus", get_gpus, NULL, AN_HOUR_S},
    {"GET", "/gpus/{name}", get_gpu, NULL, AN_HOUR_S},
    {"GET", "/clusters", get_clusters, NULL, AN_HOUR_S},
    {"GET", "/clusters/{name}", get_cluster, NULL, AN_HOUR_S},
    {"GET", "/methods", get_methods, NULL, AN_HOUR_S},
    {"GET", "/optimizers", get_optimizers, NULL, AN_HOUR_S},
    {"GET", "/dtypes", get_dtypes, NULL, AN_HOUR_S},
    {"GET", "/healthz", get_health, NULL, 0},
    {"GET", "/", get_page, NULL, AN_HOUR_S},
    {"GET", "/answer", get_answer, get_estimate_needs, FIVE_MINUTES_S},
    {"GET", "/page.js", get_script, NULL, AN_HOUR_S},
    {"GET", "/page.css", get_style, NULL, AN_HOUR_S},
    {"GET", "/uplot.js", get_charts, NULL, AN_HOUR_S},
    {"GET", "/icon.svg", get_icon, NULL, AN_HOUR_S},
    {"GET", "/glossary", get_glossary, NULL, AN_HOUR_S},
    {"GET", "/openapi.yaml", get_openapi, NULL, AN_HOUR_S},
};
enum { ROUTES = sizeof routes / sizeof *routes };

/* What follows the route's path, "" for a whole one; NULL: it is another path. */
static const char *match(const struct route *r, const char *path)
{
    size_t n = strcspn(r->path, "{");

    if (r->path[n])
        return !strncmp(path, r->path, n) && path[n] ? path + n : NULL;
    return strcmp(path, r->path) ? NULL : "";
}

static bool same_method(const char *route, const char *asked)
{
    return !strcmp(route, asked) || (!strcmp(route, "GET") && !strcmp(asked, "HEAD"));
}

static const struct route *find(const struct api_request *rq, const char **ret_rest, bool *ret_path_known)
{
    *ret_path_known = false;
    for (int i = 0; i < ROUTES; i++) {
        *ret_rest = match(&routes[i], rq->path);
        if (!*ret_rest)
            continue;
        *ret_path_known = true;
        if (same_method(routes[i].method, rq->method))
            return &routes[i];
    }
    return NULL;
}

bool api_is_cheap(const struct api_request *rq)
{
    bool path_known;
    const char *rest;
    const struct route *route = find(rq, &rest, &path_known);

    return !route || !route->needs;
}

/* "GET, HEAD, POST": what the path answers. */
static const char *allowed(const struct api_request *rq)
{
    char text[32] = "";

    for (int i = 0; i < ROUTES; i++)
        if (match(&routes[i], rq->path)) {
            if (text[0])
                strcat(text, ", ");
            strcat(text, strcmp(routes[i].method, "GET") ? "POST" : "GET, HEAD");
        }
    return arena_str(rq->arena, text, strlen(text));
}

/* --- the body ----------------------------------------------------------------------------------------------------------------- */

/* The media type without its parameters. */
static bool type_is(const char *type, size_t n, const char *name)
{
    return word_same(type, n, name, strlen(name));
}

static enum err_code check_type(const struct api_request *rq, struct err *err)
{
    const char *type = rq->content_type;
    size_t n = type ? strcspn(type, ";, ") : 0, at = 0;

    if (!n || type_is(type, n, "application/json") || (n > 5 && type_is(type + n - 5, 5, "+json")))
        return ERR_OK;
    if (!type_is(type, n, "application/x-www-form-urlencoded"))
        return err_set(err, ERR_MEDIA_TYPE, "", "'%.60s' is not read here: send JSON as application/json", type);
    while (at < rq->body_bytes && strchr(" \t\r\n\xEF\xBB\xBF", rq->body[at]) && rq->body[at])
        at++;
    if (at < rq->body_bytes && rq->body[at] != '{')
        return err_set(err, ERR_MEDIA_TYPE, "",
                       "a form is not read here: send a JSON object, like -d '{\"model\":\"gpt2\",\"cluster\":{\"gpu\":\"T4\"}}'");
    return ERR_OK; /* curl -d says so of everything */
}

static enum err_code read_body(const struct api_request *rq, struct json **ret, struct err *err)
{
    enum err_code rc = check_type(rq, err);

    if (rc)
        return rc;
    if (rq->body_bytes > API_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "", "at most %d bytes", (int)API_BODY_MAX);
    return json_parse(rq->body, rq->body_bytes, &json_limits_request, ret, err);
}

/* --- answers ------------------------------------------------------------------------------------------------------------------ */

enum err_code read_post(struct call *c, struct json **ret_doc)
{
    enum err_code rc = query_read(c->rq->query, c->arena, &c->query, c->err);

    if (!rc)
        rc = read_body(c->rq, ret_doc, c->err);
    c->doc = *ret_doc;
    return rc;
}

/* Query and body, as far as the route reads them. */
static enum err_code read_call(const struct route *route, struct call *c, struct json **ret_doc)
{
    return strcmp(route->method, "POST") ? query_read(c->rq->query, c->arena, &c->query, c->err) : read_post(c, ret_doc);
}

static enum err_code answer(const struct route *route, struct call *c)
{
    struct json *doc = NULL;
    enum err_code rc = read_call(route, c, &doc);

    c->ret->max_age_s = route->max_age_s;
    if (!rc)
        rc = route->answer(c);
    json_free(doc);
    return rc;
}

/* What has been computed so far makes room for the problem document. */
static void refuse(struct call *c, unsigned char *mark)
{
    char name[sizeof c->err->at];

    if (c->parameter) {
        (void)snprintf(name, sizeof name, "%s", c->parameter);
        c->parameter = name;
    }
    arena_rewind(c->arena, mark);
    problem(c);
}

void api_answer(const struct api_request *rq, const struct api_config *configs, size_t n, struct api_response *ret)
{
    struct api_response response = {.route = "-"};
    struct err err = {0};
    struct call c = {.rq = rq, .configs = configs, .n_configs = n, .rest = "", .arena = rq->arena, .ret = &response, .err = &err};
    struct budget own = {.limit_events = API_WORK_EVENTS};
    unsigned char *mark = rq->arena->cur;
    uint64_t began;
    bool path_known;
    const struct route *route = find(rq, &c.rest, &path_known);
    enum err_code rc;

    rq->arena->budget = rq->budget ? rq->budget : &own;
    began = rq->arena->budget->events;
    if (route) {
        response.route = route->path;
        rc = answer(route, &c);
    } else if (path_known) {
        response.allow = allowed(rq);
        rc = err_set(&err, ERR_METHOD, "", "this path answers %s", response.allow ? response.allow : "other methods");
    } else {
        rc = err_set(&err, ERR_NOT_FOUND, "", "the endpoints are listed in /openapi.yaml");
    }
    if (rq->arena->full && rc != ERR_NOMEM) /* somebody went on without it: this is not what the answer would be */
        rc = err_set(&err, ERR_NOMEM, "", "no room for the answer");
    if (rc)
        refuse(&c, rc == ERR_METHOD ? rq->arena->cur : mark);
    response.work_events = rq->arena->budget->events - began;
    rq->arena->budget = NULL;
    *ret = response;
}

/* --- needs -------------------------------------------------------------------------------------------------------------------- */

void api_needs(const struct api_request *rq, struct api_needs *ret)
{
    struct json *doc = NULL;
    struct call c = {.rq = rq, .rest = "", .arena = rq->arena};
    struct needs needs = {.arena = rq->arena};
    enum err_code rc = ERR_NOMEM;
    bool path_known;
    const struct route *route = find(rq, &c.rest, &path_known);

    *ret = (struct api_needs){0};
    if (!route || !route->needs)
        return;
    if (needs_init(&needs, route->needs == batch_needs ? API_NEEDS_MAX : 1))
        rc = read_call(route, &c, &doc);
    if (!rc)
        route->needs(&c, &needs);
    json_free(doc);
    *ret = (struct api_needs){.failed = rc == ERR_NOMEM || needs.full, .n = needs.n, .v = needs.v};
}
