/*
 * snapshot.h - a config.json, or a file of code, at one commit, and the answers that show it.
 *
 * Purpose   a snapshot is counted and never changes; struct hub_config is a view of one (or of none: an error) with the words that
 *           belong to one answer: tier, note. Both end with their last holder.
 * Threads   any may hold and let go.
 */
#ifndef SERVER_HUB_SNAPSHOT_H
#define SERVER_HUB_SNAPSHOT_H

#include "server/hub/hub.h"

enum { CONFIG_BYTES_MAX = 1 << 20 }; /* base/json.h reads no more of a config */

struct snapshot_facts {
    const char *source;  /* constant text */
    char commit[41];     /* "": not known */
    char etag[132];      /* "": not known */
    uint64_t parameters; /* 0: not known */
    bool counted;        /* the hub was asked for `parameters` at this commit */
    bool is_private;
    int64_t checked_s;   /* when the hub last said so, seconds of the wall clock; 0: never */
};

struct snapshot {
    struct snapshot_facts facts;
    size_t bytes;
    const char *text;
};

/* Copies. NULL: no memory. */
struct snapshot *snapshot_new(const char *text, size_t bytes, const struct snapshot_facts *facts);

/* The same text, other facts. */
struct snapshot *snapshot_with(const struct snapshot *s, const struct snapshot_facts *facts);

struct snapshot *snapshot_hold(struct snapshot *s); /* NULL: NULL */
void snapshot_release(struct snapshot *s);

/* Is this that file? A config.json: any size and depth that base/json.h grants, an object. Code: UTF-8 without a zero. ret_why: a clause. ERR_NOMEM: it was
 * not told. */
enum err_code snapshot_check(const char *file, const char *text, size_t bytes, char *ret_why, size_t why_bytes);

struct view {
    const char *model, *revision, *tier, *note; /* copied, but the tier */
    struct snapshot *snapshot;                  /* held by the config; NULL: err */
    const struct err *err;
    unsigned retry_after_s;
};

/* Never NULL: without memory it is a constant that says so, which is not to be remembered. */
const struct hub_config *config_new(const struct view *v);
bool config_is_made(const struct hub_config *c); /* not that constant */
const struct hub_config *config_hold(const struct hub_config *c);

/* The snapshot behind it, not held for the caller; NULL: none. */
struct snapshot *config_snapshot(const struct hub_config *c);

/* Memory that it takes, about. */
size_t config_bytes(const struct hub_config *c);

#endif
