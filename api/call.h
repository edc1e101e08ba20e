/*
 * call.h - what every endpoint is given, and how it gives back an answer of JSON.
 */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/api.h"
#include "api/request/query.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"

/* One request on its way. Within a batch each item is a call of its own, with the same configs. */
struct call {
    const struct api_request *rq;
    const struct api_config *configs;
    size_t n_configs;
    const char *rest; /* of the path, after a route that ends in a parameter */
    struct query query;
    const struct json *doc; /* the body; NULL for GET */
    struct arena *arena;
    struct api_response *ret;
    struct err *err;
    const char *parameter;  /* of the query, that an error is about; NULL: none */
    unsigned retry_after_s; /* of an error whose cause says so; 0: not known */
};

enum { ANSWER_MAX_BYTES = 32 << 20 };

/* Begins an answer of JSON; finish_json() puts it into the response. */
void begin_json(struct call *c, struct buf *out, struct jsonw *w);
MUST_CHECK enum err_code finish_json(struct call *c, const struct jsonw *w);

/* The response to c->err: a problem document (RFC 9457), in c->ret. */
void problem(struct call *c);

#endif
