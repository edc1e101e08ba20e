#include "server/command.h"

#include "server/gather.h"
#include "server/options.h"
#include "server/service.h"
#include "server/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t read_all(char *into, size_t cap)
{
    size_t n = 0, got;

    do {
        got = fread(into + n, 1, cap - n, stdin);
        n += got;
    } while (got && n < cap);
    return n;
}

/* "model=a/b" "gpu=A100 80GB" as a query. */
static char *query_of(const struct options_rest *rest)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/,:=";
    size_t bytes = 1;
    char *query, *at;

    for (int i = 0; i < rest->n; i++)
        bytes += 3 * strlen(rest->v[i]) + 1;
    query = at = malloc(bytes);
    for (int i = 0; query && i < rest->n; i++) {
        if (i)
            *at++ = '&';
        for (const char *p = rest->v[i]; *p; p++)
            at += snprintf(at, 4, strchr(plain, *p) ? "%c" : "%%%02X", (unsigned char)*p);
    }
    if (query)
        *at = 0;
    return query;
}

static int exit_code(const struct api_response *r)
{
    if (r->status != 200)
        return r->status < 500 ? EXIT_BAD_REQUEST : EXIT_BROKEN;
    return r->fits ? EXIT_FITS : r->modelled ? EXIT_NOTHING_FITS : EXIT_NOT_MODELLED;
}

static void nothing(void *arg)
{
    (void)arg;
}

/* The needs lie below the answer in the same arena. */
static void answer(struct api_request *rq, struct hub_loop *loop, struct gather *f, struct api_response *ret)
{
    struct api_needs needs;

    api_needs(rq, &needs);
    if (!gather_begin(f, loop, &needs, NULL, nothing, NULL))
        while (gather_is_open(f)) {
            hub_loop_wait(loop, -1, 1000);
            hub_loop_turn(loop);
        }
    api_answer(rq, gather_configs(f), f->n, ret);
}

static int ask(struct api_request *rq, struct hub *hub)
{
    struct hub_loop *loop = hub_loop_new(hub);
    void *block = block_new(API_ARENA_BYTES);
    struct gather f = {0};
    struct api_response r;
    struct arena arena;
    int code = EXIT_BROKEN;

    if (loop && block) {
        arena_init(&arena, block, API_ARENA_BYTES);
        rq->arena = &arena;
        answer(rq, loop, &f, &r);
        if (!f.no_memory && fwrite(r.body, 1, r.bytes, stdout) == r.bytes && !fflush(stdout))
            code = exit_code(&r);
        gather_end(&f);
    }
    block_free(block, API_ARENA_BYTES);
    if (loop)
        hub_loop_free(loop);
    return code;
}

static int estimate(const struct options *o, const struct options_rest *rest)
{
    char *text = rest->n ? query_of(rest) : malloc(API_BODY_MAX + 1);
    struct api_request rq = {.path = "/estimate", .body = ""};
    uint64_t fresh_ms;
    struct hub *hub = text ? service_hub(o, &fresh_ms) : NULL;
    int code = EXIT_BROKEN;

    if (hub && rest->n) {
        rq.method = "GET";
        rq.query = text;
    } else if (hub) {
        rq.method = "POST";
        rq.body = text;
        rq.body_bytes = read_all(text, API_BODY_MAX + 1);
    }
    if (hub) {
        code = ask(&rq, hub);
        hub_free(hub);
    }
    free(text);
    return code;
}

int command_estimate(int argc, char **argv, int first)
{
    struct options_rest rest;
    struct options o;

    if (!options_read(&o, argc, argv, first, &rest))
        return EXIT_BAD_REQUEST;
    for (int i = 0; i < rest.n; i++)
        if (!strchr(rest.v[i], '=')) {
            fprintf(stderr, "llmemd estimate: %s: members are written name=value; without any the request is read from standard input\n", rest.v[i]);
            return EXIT_BAD_REQUEST;
        }
    return estimate(&o, &rest);
}
