/*
 * named.h - what a request calls by a name of the catalogue's, as people write it: clusters, GPUs, models.
 *
 * Errors    a name that nothing has: with those that are near (base/near.h).
 */
#ifndef API_REQUEST_NAMED_H
#define API_REQUEST_NAMED_H

#include "api/request/request.h"
#include "catalog/gpus.h"

/* The preset fills what is left out; the GPU's name becomes the catalogue's, "2x" before it gpus_per_node. */
bool names_no_gpu(const struct cluster_request *c); /* a host without one, as inference may ask */

MUST_CHECK enum err_code cluster_names(struct cluster_request *c, struct notes *assumptions, struct notes *warnings, struct err *err);

/* NULL: *err says at `at` that there is none, and which are near. free_bytes, ret_reading: gpu_name.h. */
struct gpu_reading;
const struct gpu *gpu_named(const char *text, uint64_t free_bytes, const char *at, struct gpu_reading *ret_reading, struct err *err);

/* The same. */
struct cluster;
const struct cluster *cluster_named(const char *text, const char *at, struct err *err);

/*
 * A model's id as it was pasted: without blanks around it, "org/name" of "https://huggingface.co/org/name/tree/REVISION/..", the last part of a path from
 * the root. *ret_revision is that of the URL, else as it was. NULL: no room.
 */
const char *model_named(const char *text, struct arena *arena, const char **ret_revision);

/* Adds carried models that are near to an error about `id`. */
enum err_code model_tell_near(const char *id, struct err *err);

#endif
