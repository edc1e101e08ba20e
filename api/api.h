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
#include "base/budget.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { API_BODY_MAX = 1 << 20 };
#define API_ARENA_BYTES ((size_t)512 << 20)
#define API_WORK_EVENTS UINT64_C(20000000) /* two seconds of one core at most */
#define API_CHEAP_BYTES ((size_t)1 << 20)

struct installed;
struct program_library;

struct api_request {
    const char *method, *path; /* path: percent-decoded, without the query */
    const char *query;         /* what follows '?', as it was sent; NULL: none */
    const char *content_type;  /* NULL: none was given */
    const char *body;
    size_t body_bytes;
    struct arena *arena;
    struct budget *budget; /* of its work; NULL: API_WORK_EVENTS, and nobody cancels */

    /* What models in the language are made of (models/modeling.h), made once for all requests. NULL, or it answers NULL: the request that needs it
     * makes it in its own arena. */
    const struct program_library *(*library)(void);
    const struct installed *const *installed; /* releases of transformers whose files can be read (models/installed.h), NULL ends; NULL: none */
};

/* A model whose config.json is needed, once however often the request names it. */
struct api_need {
    const char *model, *revision; /* "main" where none was named */

    /* Files of code that the config names (auto_map) are needed too: never; of a model type without a program here; of any. */
    enum api_code_wanted { API_CODE_NEVER, API_CODE_UNKNOWN, API_CODE_ASKED } code;
};

enum { API_NEEDS_MAX = 1000 };

struct api_needs {
    uint32_t n;
    const struct api_need *v; /* in the request's arena */
    bool failed;              /* no memory to tell: an answer without the configs would be a wrong one */
};

/*
 * Files of code that a config names, and those that they import from beside them: all of one repository. api_code_begin() with the config, then, for each
 * file that has come, api_code_follow(), which may add names; at most API_CODE_FILES.
 */
enum { API_CODE_FILES = 32, API_CODE_NAME = 64, API_CODE_BYTES = 2 << 20 /* of all of them */ };
#define API_CODE_FILES_TEXT "32"
struct api_code {
    char repository[97]; /* "": that of the config, at its commit; another one's main is taken */
    uint32_t n, n_named; /* n_named: by the config itself */
    char names[API_CODE_FILES][API_CODE_NAME];
    const char *fault; /* why not all of them are there, as a clause; NULL */
};
bool api_code_begin(struct api_code *code, const struct api_need *need, const char *config, size_t bytes); /* false: none is needed */
void api_code_follow(struct api_code *code, const char *text); /* texts end in a zero */

struct api_file {
    const char *name, *text; /* NULL: `err` says why there is none */
    size_t bytes;
    const struct err *err;
    unsigned retry_after_s;
};

struct api_code_found {
    const char *repository, *commit; /* NULL: the config's own; not known */
    const struct api_file *files;
    uint32_t n, n_named;
    const char *fault;
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
    const struct api_code_found *code; /* NULL: no code was needed */
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
    const struct err *err;   /* of a problem, in the request's arena; NULL: no room for it */
    uint64_t work_events;    /* that it took */
    unsigned max_age_s;      /* of a 200 that others may keep; 0: not to be kept */
    bool fits, modelled;     /* of an estimate */
};

/* Nothing is needed of a request that is broken: api_answer says so. Uses the request's arena. */
void api_needs(const struct api_request *rq, struct api_needs *ret);

void api_answer(const struct api_request *rq, const struct api_config *configs, size_t n, struct api_response *ret);

/*
 * POST /estimate/batch taken apart, so that whoever serves answers its items side by side and sends each when its turn has come: every item is a request of
 * its own, POST /estimate with the batch's query. api_answer() of a batch does the same one after another; the bytes are equal.
 */
struct api_item {
    const char *body; /* without blanks, in the request's arena */
    size_t bytes;
    uint32_t same_as; /* the first item with this body; its own number where none stands before it */
    uint32_t need;    /* of the batch's needs; API_NO_NEED: none */
};
enum { API_ITEMS_MAX = 1000, API_NO_NEED = UINT16_MAX };

struct api_batch {
    uint32_t n;
    const struct api_item *items;
    struct api_needs needs;
};

/* false: the batch as a whole is refused, *ret_refusal says why. */
bool api_batch_read(const struct api_request *rq, struct api_batch *ret, struct api_response *ret_refusal);

/* Item i as POST /estimate. Its arena is the caller's to set. */
struct api_request api_item_request(const struct api_request *batch, const struct api_item *item);

/* What is wrong with item i, told in its place: the pointer begins with /requests/i. */
void api_item_problem(const struct err *err, unsigned retry_after_s, uint32_t i, struct arena *arena, struct api_response *ret);

/* A batch may have computed what so many of the greatest questions take. An item is answered where those before it, equal ones once, took less; else this. */
enum { API_BATCH_WORK = 40 };
extern const struct err api_item_over;

/* What stands before the first item, between two and after the last. An item's document is its answer's less the last newline. */
#define API_BATCH_HEAD "{\n  \"results\": [\n    "
#define API_BATCH_BETWEEN ",\n    "
#define API_BATCH_TAIL "\n  ]\n}\n"

/* True for what only reads tables: it needs API_CHEAP_BYTES and no wait for one of few large arenas. */
bool api_is_cheap(const struct api_request *rq);

/* A problem without a request: 413, 503 and the like, which the server decides. */
void api_problem(const struct err *err, struct arena *arena, struct api_response *ret);

#endif
