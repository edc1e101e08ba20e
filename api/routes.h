/*
 * routes.h - what each endpoint is given and gives back. One file per endpoint; routes.c is the table.
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/api.h"
#include "api/decode.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"

struct call {
    const struct api_request *rq;
    const struct api_config *configs;
    size_t n_configs;
    const char *rest;       /* of the path, after a route that ends in "/..." */
    const struct json *doc; /* the body; NULL for GET */
    struct arena *arena;
    struct api_response *ret;
    struct err *err;
};

typedef enum err_code endpoint(struct call *c);

endpoint post_estimate, post_models, get_models, get_model, get_gpus, get_clusters, get_methods, get_optimizers, get_dtypes, get_health, get_openapi;

/* The config that a body asks for; ret->model stays NULL where there is none. */
void estimate_needs(const struct json *doc, struct arena *arena, struct api_need *ret);

enum { ANSWER_MAX_BYTES = 32 << 20 };

/* Begins an answer of JSON; finish_json() ends it with a newline and puts it into the response. */
void begin_json(struct call *c, struct buf *out, struct jsonw *w);
MUST_CHECK enum err_code finish_json(struct call *c, const struct jsonw *w);

#endif
