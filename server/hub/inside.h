/*
 * inside.h - what hub.c, flight.c and fallback.c share: the hub, its loops, and one flight for each key that is being fetched.
 *
 * Threads   struct hub's cache, limits and counts, and each loop's inbox and ready list: under hub.lock. A flight belongs to the
 *           thread of the loop that leads it, or to the helper while it has a job there.
 */
#ifndef SERVER_HUB_INSIDE_H
#define SERVER_HUB_INSIDE_H

#include "server/clock.h"
#include "server/hub/cache.h"
#include "server/hub/disk.h"
#include "server/hub/facts.h"
#include "server/hub/helper.h"
#include "server/hub/hub.h"
#include "server/hub/limit.h"
#include "server/hub/sha256.h"
#include "server/hub/transfer.h"

#include <pthread.h>

enum { ENTRIES_MAX = 4096, MEMORY_MAX = 64 << 20, KEY_BYTES = 512, AGAIN_MS = 300, GRACE_MS = 2000, FAILED_KEEP_MS = 5000 };

struct hub {
    struct hub_options o;
    char user_agent[256];
    pthread_mutex_t lock;
    struct cache *cache;
    struct limits limits;
    struct hub_counts counts;
    uint64_t token_told_ms; /* when the log last heard that the hub refuses the server's token */
    int64_t reloaded_s;     /* what was checked until then is asked for anew; 0: never */
    struct disk *disk;
    struct helper *helper;
};

struct ask {
    struct waiter waiter; /* first */
    struct ask *next;     /* of a loop's ready list */
    struct hub_loop *loop;
    hub_done *done;
    void *arg;
    const struct hub_config *config;
};

enum stage { STAGE_READ, STAGE_TRANSFER, STAGE_AGAIN, STAGE_CHECKED, STAGE_ADOPTED };

struct flight {
    struct job job; /* first */
    struct flight *next_in_inbox, *prev, *next;
    struct hub_loop *loop;
    struct pending *pending;
    enum stage stage;
    char key[KEY_BYTES], model[97], revision[256], token[1040], file[HUB_FILE_MAX + 1]; /* file: "": config.json */
    bool has_token, is_callers;  /* a token is sent; it is the caller's */
    bool is_owners;              /* of the owner's directory alone */
    struct snapshot *local;      /* of the owner's directory: shown as it is */
    struct snapshot *mine, *theirs; /* what may be shown or confirmed: ours; huggingface_hub's */
    const char *mine_tier;
    bool absent;                 /* known to huggingface_hub's cache */
    struct transfer *config_transfer, *facts_transfer;
    struct reply config;
    bool has_config, has_facts, asked_facts, asked_pinned, asked_about;
    struct facts facts;
    char about[160], why[200];
    enum verdict verdict;
    unsigned retry_after_s;
    bool is_second;              /* the first fetch failed */
    uint64_t due_ms;             /* 0: nothing */
    struct snapshot *fetched;    /* not checked yet; NULL after the check: it is no config.json, or */
    enum err_code checked;       /* ERR_NOMEM: nobody could tell */
};

struct hub_loop {
    struct hub *hub;
    struct transfers *transfers;
    struct flight *inbox, **inbox_last;
    struct ask *ready, **ready_last;
    struct flight *flights;
    unsigned open;
};

int64_t hub_wall_s(void);

/* --- flight.c: the ladder for one key, on the leader's thread -------------------------------------------------------------------- */

struct flight *flight_new(struct hub_loop *l, const struct hub_request *rq, const char *key);
void flight_begin(struct flight *f);   /* from the first step, also once more for another loop */
void flight_advance(struct flight *f); /* taken out of the inbox */
void flight_tick(struct flight *f, uint64_t now_ms);
void flight_abandon(struct flight *f); /* transfers end without an answer; what they brought is dropped */
void flight_free(struct flight *f);

void flight_check(struct flight *f);   /* what was fetched, by the helper */
void flight_fall_back(struct flight *f, enum verdict v, const char *why);

/* --- fetch.c: the hub's own step of it --------------------------------------------------------------------------------------------- */

void fetch_begin(struct flight *f);
void fetch_conclude(struct flight *f); /* with what has come in */
void fetch_end(struct flight *f);      /* forgets it */

/* --- fallback.c: what is answered when the hub gives nothing ------------------------------------------------------------------------ */

struct fallback {
    struct view view;
    struct err err;
    char note[640];
    uint64_t keep_ms;
};

/* true: there is something to show in place of an answer. Either way ret is what to answer. ret->view.snapshot is to be released. */
bool fallback_find(struct flight *f, struct fallback *ret);

/* --- loop.c ------------------------------------------------------------------------------------------------------------------------- */

void loop_post(struct hub_loop *l, struct flight *f); /* from any thread: flight_advance() on the loop's */
void loop_link(struct hub_loop *l, struct flight *f); /* it leads */
void loop_unlink(struct flight *f);

/* With the lock: who asked is called back by his own loop. */
void loop_ready(struct ask *a, const struct hub_config *c);

/* --- hub.c -------------------------------------------------------------------------------------------------------------------------- */

/* What is asked for, by its name. */
const char *flight_file(const struct flight *f);

/* Answers all who wait, remembers the answer, and ends the flight. */
void flight_settle(struct flight *f, const struct view *v, uint64_t keep_ms);

#endif
