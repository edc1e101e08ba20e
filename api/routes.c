#include "api/routes.h"

#include "api/request.h"

#include <stdio.h>
#include <string.h>

static const struct route {
    const char *method, *path; /* "/..." at the end: whatever follows */
    endpoint *answer;
    const char *name; /* as openapi.yaml writes it */
    bool cheap;
} routes[] = {
    {"POST", "/estimate", post_estimate, "/estimate", false},
    {"POST", "/models", post_models, "/models", false},
    {"GET", "/models", get_models, "/models", true},
    {"GET", "/models/...", get_model, "/models/{id}", false},
    {"GET", "/gpus", get_gpus, "/gpus", true},
    {"GET", "/clusters", get_clusters, "/clusters", true},
    {"GET", "/methods", get_methods, "/methods", true},
    {"GET", "/optimizers", get_optimizers, "/optimizers", true},
    {"GET", "/dtypes", get_dtypes, "/dtypes", true},
    {"GET", "/healthz", get_health, "/healthz", true},
    {"GET", "/openapi.yaml", get_openapi, "/openapi.yaml", true},
};
enum { ROUTES = sizeof routes / sizeof *routes };

/* What follows the route's path, "" for a whole one; NULL: it is another path. */
static const char *match(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);

    if (n > 4 && !strcmp(r->path + n - 4, "/..."))
        return !strncmp(path, r->path, n - 3) && path[n - 3] ? path + n - 3 : NULL;
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

    return !route || route->cheap;
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
        return err_set(err, ERR_MEDIA_TYPE, "", "a form is not read here: send a JSON object, like -d '{\"model\":\"gpt2\",\"cluster\":{\"gpu\":\"T4\"}}'");
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

void begin_json(struct call *c, struct buf *out, struct jsonw *w)
{
    buf_init(out, c->arena, ANSWER_MAX_BYTES);
    jsonw_init(w, out, true);
}

enum err_code finish_json(struct call *c, const struct jsonw *w)
{
    bool done = jsonw_done(w);

    buf_char(w->out, '\n');
    if (!done || !buf_ok(w->out))
        return err_set(c->err, ERR_NOMEM, "", "the answer is larger than the service grants");
    c->ret->status = 200;
    c->ret->content_type = "application/json";
    c->ret->body = buf_text(w->out);
    c->ret->bytes = w->out->bytes;
    return ERR_OK;
}

void api_problem(const struct err *err, struct arena *arena, struct api_response *ret)
{
    static const char last_resort[] = "{\"type\":\"urn:llmemd:problem:out-of-memory\",\"status\":503,\"code\":\"out-of-memory\"}\n";
    const char *slug = err_slug(err->code);
    char type[96];
    struct buf out;
    struct jsonw w;

    ret->status = err_status(err->code);
    ret->code = slug;
    ret->content_type = "application/problem+json";
    ret->retry_after_s = ret->status == 503 ? 1 : 0;
    ret->accept_post = ret->status == 415 ? "application/json" : NULL;
    buf_init(&out, arena, 8192);
    jsonw_init(&w, &out, true);
    (void)snprintf(type, sizeof type, "urn:llmemd:problem:%s", slug);
    jsonw_object(&w, NULL);
    jsonw_str(&w, "type", type);
    jsonw_str(&w, "title", err_title(err->code));
    jsonw_u64(&w, "status", (uint64_t)ret->status);
    jsonw_str(&w, "detail", err->detail);
    jsonw_str(&w, "code", slug);
    if (err->at[0])
        jsonw_str(&w, "pointer", err->at);
    jsonw_end(&w);
    if (jsonw_done(&w))
        buf_char(&out, '\n');
    ret->body = buf_ok(&out) ? buf_text(&out) : last_resort;
    ret->bytes = strlen(ret->body);
}

static enum err_code answer(const struct route *route, struct call *c)
{
    struct json *doc = NULL;
    enum err_code rc = ERR_OK;

    if (!strcmp(route->method, "POST"))
        rc = read_body(c->rq, &doc, c->err);
    c->doc = doc;
    if (!rc)
        rc = route->answer(c);
    json_free(doc);
    return rc;
}

void api_answer(const struct api_request *rq, const struct api_config *configs, size_t n, struct api_response *ret)
{
    struct api_response response = {.route = "-"};
    struct err err = {0};
    struct call c = {rq, configs, n, "", NULL, rq->arena, &response, &err};
    unsigned char *mark = rq->arena->cur;
    bool path_known;
    const struct route *route = find(rq, &c.rest, &path_known);
    enum err_code rc;

    if (route) {
        response.route = route->name;
        rc = answer(route, &c);
    } else if (path_known) {
        response.allow = allowed(rq);
        rc = err_set(&err, ERR_METHOD, "", "this path answers %s", response.allow ? response.allow : "other methods");
    } else {
        rc = err_set(&err, ERR_NOT_FOUND, "", "the endpoints are listed in /openapi.yaml");
    }
    if (rc) {
        if (rc != ERR_METHOD)
            arena_rewind(rq->arena, mark);
        api_problem(&err, rq->arena, &response);
    }
    *ret = response;
}

/* At most one so far. */
static void keep_need(struct arena *arena, struct api_need need, struct api_needs *ret)
{
    struct api_need *v = need.model ? arena_new(arena, struct api_need) : NULL;

    if (!v)
        return;
    *v = need;
    if (!v->revision)
        v->revision = "main";
    *ret = (struct api_needs){.n = 1, .v = v};
}

void api_needs(const struct api_request *rq, struct api_needs *ret)
{
    struct json *doc = NULL;
    struct api_need need = {0};
    bool path_known;
    const char *rest;
    const struct route *route = find(rq, &rest, &path_known);

    *ret = (struct api_needs){0};
    if (!route)
        return;
    if (route->answer == get_model)
        need.model = rest;
    if ((route->answer == post_estimate || route->answer == post_models) && !read_body(rq, &doc, NULL))
        estimate_needs(doc, rq->arena, &need);
    json_free(doc);
    keep_need(rq->arena, need, ret);
}
