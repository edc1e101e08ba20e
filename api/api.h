/*
 * api.h - a request in, a response out; no socket, no clock, no waiting.
 *
 * Purpose   api_needs() names the model configs that an answer needs; whoever serves gets them, from wherever, and calls
 *           api_answer() with them. An HTTP daemon and a command line are two callers of the same two functions.
 * Errors    api_answer never fails: every error becomes a problem+json response (RFC 9457).
 * Owner     everything of the response lives in the request's arena or is constant. An arena of API_ARENA_BYTES is enough for
 *           models of 200 layers on 1,024 GPUs; it is address space, of which a question touches what it needs (20 MiB; 110 MiB for 405 billion
 *           parameters on 64 GPUs). A candidate that outgrows it keeps a reason; a question that does is a 503 out-of-memory.
 * Threads   pure; one arena a thread.
 */
#ifndef API_API_H
#define API_API_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { API_BODY_MAX = 1 << 20 };
#define API_ARENA_BYTES ((size_t)512 << 20)
#define API_CHEAP_BYTES ((size_t)256 << 10)

struct api_request {
    const char *method, *path; /* path: percent-decoded, without the query */
    const char *query;         /* what follows '?', as it was sent; NULL: none */
    const char *content_type;  /* NULL: none was given */
    const char *body;
    size_t body_bytes;
    struct arena *arena;
};

/* A model whose config.json is needed, once however often the request names it. */
struct api_need {
    const char *model, *revision; /* "main" where none was named */
};

enum { API_NEEDS_MAX = 1000 };

struct api_needs {
    uint32_t n;
    const struct api_need *v; /* in the request's arena */
};

/* What was found for a need, and where. */
struct api_config {
    const char *model, *revision; /* of the need */
    const char *text;             /* config.json; NULL: `err` says why there is none */
    size_t bytes;
    const char *source;           /* "directory", "hf_cache", "hub", "builtin" */
    const char *commit;           /* 40 hex digits; NULL: not known */
    const char *note;             /* what a person should know: "the hub did not answer: ..."; NULL */
    uint64_t parameters;          /* that the hub counts in the safetensors files; 0: not known */
    const struct err *err;
    unsigned retry_after_s;       /* of an err with status 503, where the hub says so; 0: not known */
};

struct api_response {
    int status;
    const char *content_type, *body;
    size_t bytes;
    const char *allow;       /* of a 405 */
    const char *accept_post; /* of a 415 */
    unsigned retry_after_s;  /* of a 503; 0: none */
    const char *route;       /* "/models/{id}": for logs, never what the caller typed */
    const char *code;        /* of a problem, "field-range"; NULL */
    unsigned max_age_s;      /* of a 200 that others may keep; 0: not to be kept */
    bool fits, modelled;     /* of an estimate */
};

/* Nothing is needed of a request that is broken: api_answer says so. Uses the request's arena. */
void api_needs(const struct api_request *rq, struct api_needs *ret);

void api_answer(const struct api_request *rq, const struct api_config *configs, size_t n, struct api_response *ret);

/* True for what only reads tables: it needs API_CHEAP_BYTES and no wait for one of few large arenas. */
bool api_is_cheap(const struct api_request *rq);

/* A problem without a request: 413, 503 and the like, which the server decides. */
void api_problem(const struct err *err, struct arena *arena, struct api_response *ret);

#endif
