/* What the server answers about itself, and browsers' questions about what they may ask. */
#include "server/exchange.h"

#include "base/jsonw.h"
#include "server/policy.h"

#include <string.h>

enum { METRICS_BYTES = 192 << 10 };

static enum exchange_next get_metrics(struct exchange *x)
{
    struct api_response r = {.status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8", .route = "/metrics"};
    struct arena arena;
    struct buf out;

    arena_init(&arena, x->desk->scratch, API_CHEAP_BYTES);
    buf_init(&out, &arena, METRICS_BYTES);
    service_metrics(x->desk->service, &out);
    if (!buf_ok(&out))
        return exchange_refuse(x, ERR_NOMEM, 1, "the page is larger than it may be");
    r.body = buf_text(&out);
    r.bytes = out.bytes;
    return exchange_send(x, &r);
}

static enum exchange_next get_ready(struct exchange *x)
{
    static const char text[] = "{\n  \"status\": \"ready\"\n}\n";
    struct api_response r = {.status = 200, .content_type = "application/json", .route = "/readyz", .body = text, .bytes = sizeof text - 1};

    if (x->desk->service->is_draining)
        return exchange_refuse(x, ERR_DRAINING, 1, "nobody new should be sent here");
    return exchange_send(x, &r);
}

static const struct {
    const char *path;
    enum exchange_next (*answer)(struct exchange *x);
} pages[] = {{"/metrics", get_metrics}, {"/readyz", get_ready}};

static enum exchange_next refuse_method(struct exchange *x, const char *path)
{
    struct api_response r = {.route = path, .allow = "GET, HEAD"};
    struct err err = {0};
    struct arena arena;

    arena_init(&arena, x->desk->scratch, API_CHEAP_BYTES);
    (void)err_set(&err, ERR_METHOD, "", "this path answers %s", r.allow);
    api_problem(&err, &arena, &r);
    return exchange_send(x, &r);
}

/* What may be asked is in the headers (headers.c). */
static enum exchange_next answer_preflight(struct exchange *x)
{
    return exchange_send(x, &(struct api_response){.status = 204, .route = "-", .body = ""});
}

enum exchange_next own_answer(struct exchange *x)
{
    bool reads = x->verb == VERB_GET || x->verb == VERB_HEAD;

    if (x->head.preflight && x->verb == VERB_OPTIONS && policy_origin(x->head.origin, x->desk->service->o->origins))
        return answer_preflight(x);
    for (size_t i = 0; x->is_probe && i < sizeof pages / sizeof *pages; i++)
        if (!strcmp(x->head.path, pages[i].path))
            return reads ? pages[i].answer(x) : refuse_method(x, pages[i].path);
    return NEXT_READ;
}
