/*
 * hub.h - config.json of a model, or a file of code that it names, from the cheapest place that has it, without ever blocking the thread that asks.
 *
 * Purpose   the ladder memory -> the owner's directory -> disk -> $HF_HOME/hub -> hub -> builtin. One fetch a key however many ask; a failed one wakes the
 *           others into one new leader. Whoever asks learns where the text came from, and which commit it is.
 * Loop      each event thread owns one hub_loop: hub_loop_wait() is its poll (curl's sockets and its own descriptor together),
 *           hub_loop_turn() moves transfers on and calls back what has become ready, on this thread only. hub_loop_wake() may be
 *           called from any thread as long as the loop lives. Files are read and written by a thread of the hub's own.
 * Tokens    the caller's own goes to the configured endpoint only, never to another host, and is never logged; what it opened is
 *           shared with callers of the same token alone. The server's own opens gated models to anonymous callers only where
 *           the owner says so (share_token).
 * Source    huggingface_hub 1.29 file_download.py, utils/_http.py, utils/_auth.py, constants.py.
 * Errors    hub_config.err: model-not-found, revision-not-found, config-not-found, model-gated, hub-forbidden, hub-token-refused,
 *           hub-failed, hub-timeout, hub-rate-limited; each with a sentence for people.
 * Threads   struct hub is shared; a hub_loop and its asks belong to one thread. The process ignores SIGPIPE: TLS writes plainly.
 */
#ifndef SERVER_HUB_HUB_H
#define SERVER_HUB_HUB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hub;
struct hub_loop;

struct hub_options {
    const char *endpoint;   /* "https://huggingface.co"; plain http only to loopback */
    const char *token;      /* the server owner's; NULL: none */
    bool share_token;       /* anonymous callers may use it for gated models */
    bool offline;           /* no socket, not even DNS */
    const char *models;     /* the owner's directory of models, read only; NULL: none */
    const char *cache_dir;  /* our own; NULL: nothing is kept on disk */
    const char *hf_cache;   /* $HF_HUB_CACHE, read only; NULL: none */
    const char *ca;         /* file or directory of certificates to trust; NULL: the system's */
    const char *origin;     /* HF_HUB_USER_AGENT_ORIGIN: the end of User-Agent; NULL: none */
    unsigned connect_ms, total_ms; /* of one transfer */
    unsigned fresh_s;       /* how long a config of a branch is served without asking again */
    unsigned absent_s;      /* how long "not found", "gated" and the like are */
    unsigned down_s;        /* how long a hub that could not be reached is left alone */
    void *owned;            /* what hub_options_read() made, for hub_options_release() */
};

/* Immutable and counted: shared by all who asked for it. */
struct hub_config {
    const char *model, *revision;
    const char *text;       /* config.json or the file that was asked for, terminated by a zero; NULL: err says why */
    size_t bytes;
    const char *source;     /* "directory", "hub", "hf_cache", "builtin" */
    const char *tier;       /* for Cache-Status: "memory", "directory", "disk", "hf_cache", "hub", "builtin" */
    const char *commit;     /* NULL: not known */
    const char *note;       /* why it is not the hub's own answer of today; NULL */
    uint64_t parameters;    /* of the safetensors metadata; 0: not known */
    bool is_private;        /* opened by a token: not for others */
    unsigned retry_after_s; /* of hub-rate-limited; 0: not known */
    struct err err;
};

enum { HUB_FILE_MAX = 63 };

struct hub_request {
    const char *model, *revision; /* checked names; copied */
    const char *token;            /* the caller's own; NULL: none */
    const char *file;             /* "modeling_x.py", UTF-8, no larger than a config; NULL: config.json */
    bool is_owners;               /* a file beside a config of the owner's directory: nobody else is asked */
};

/* `config` is the callee's to give back. Called from hub_loop_turn(). */
typedef void hub_done(void *arg, const struct hub_config *config);

/* NULL: a line on standard error says why. Copies the options. Defaults and environment: hub_options_read(). */
struct hub *hub_new(const struct hub_options *o);
void hub_free(struct hub *h); /* after its loops */

/*
 * HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, ... as huggingface_hub reads
 * them. cache_dir is NULL and share_token false: the owner's own flags say. false: a line on standard error says what is wrong.
 */
bool hub_options_read(struct hub_options *ret);
void hub_options_release(struct hub_options *o); /* may follow hub_new() at once */

/* What is remembered is asked for anew; the server's token is read again where it came from. Nobody who waits is disturbed. */
void hub_reload(struct hub *h);

struct hub_loop *hub_loop_new(struct hub *h);
void hub_loop_free(struct hub_loop *l); /* asks that are still open are called back with hub-failed first */

/* true: *ret is at hand, the caller gives it back. false: under way, `done` is called later, never from within hub_ask(). */
bool hub_ask(struct hub_loop *l, const struct hub_request *rq, hub_done *done, void *arg, const struct hub_config **ret);

/* The config is in memory and fresh: hub_ask() has it at once. */
bool hub_has(struct hub_loop *l, const struct hub_request *rq);
void hub_give_back(const struct hub_config *c);

/* Until `fd` (-1: none) is readable, a transfer can go on, somebody wakes it, or `timeout_ms` have passed. */
void hub_loop_wait(struct hub_loop *l, int fd, unsigned timeout_ms);
void hub_loop_turn(struct hub_loop *l);
void hub_loop_wake(struct hub_loop *l);
unsigned hub_loop_open(const struct hub_loop *l); /* asks without an answer yet */

/* For metrics: counts since the start. */
struct hub_counts {
    uint64_t memory, directory, disk, hf_cache, hub, builtin, failed; /* answers by tier */
    uint64_t transfers, transfer_errors, limited;
};
void hub_counts_read(struct hub *h, struct hub_counts *ret);

#endif
