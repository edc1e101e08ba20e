/*
 * routes.h - the endpoints: one function each, in a file of its own or beside its kin; routes.c is the table.
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/call.h"

typedef enum err_code endpoint(struct call *c);

endpoint post_estimate, get_estimate, post_snapshot, get_snapshot;
endpoint post_batch, post_models, get_models, get_model, get_gpus, get_gpu, get_clusters, get_cluster, get_methods, get_optimizers, get_dtypes, get_health,
    get_openapi, get_page, get_script, get_style, get_charts, get_glossary, get_icon, get_answer;

/* The page as it is served where nothing was asked yet. */
const char *page_text(size_t *ret_bytes);

/* The configs that a call needs: each is put with need_add(). Bodies that are broken need nothing. */
struct needs {
    struct arena *arena;
    struct api_need *v;
    uint16_t *slots; /* a hash table of positions in v, 1 for the first */
    uint32_t n, most, n_slots;
    bool full; /* the arena */
};

bool needs_init(struct needs *needs, uint32_t most);                             /* needs->arena is set; false: it is full */
uint32_t need_add(struct needs *needs, const char *model, const char *revision, enum api_code_wanted code); /* its number; API_NO_NEED: it is none */

/* Which code a question's `program` and `modeling` want. */
enum api_code_wanted need_of_code(const char *program, bool has_modeling);

/* Query and body of a POST, into c; the document is the caller's to free even when it fails. */
MUST_CHECK enum err_code read_post(struct call *c, struct json **ret_doc);

typedef void endpoint_needs(const struct call *c, struct needs *needs);
endpoint_needs estimate_needs, get_estimate_needs, batch_needs, get_model_needs;

#endif
