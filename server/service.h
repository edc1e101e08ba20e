/*
 * service.h - what all event threads share: the hub, the workers, the cache, counts, the log.
 *
 * Owner     service_open() makes it, service_close() gives it back, after the event threads have ended.
 * Threads   any; every part has its own lock or is atomic.
 */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "server/answers.h"
#include "server/crowd.h"
#include "server/hub/hub.h"
#include "server/limit.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/workers.h"

enum {
    SPARE = 128,            /* connections above what is admitted: they read their 503 */
    ADMIN_CONNECTIONS = 32, /* of the admin listener, which makes room like the other; as many more read nothing */
};

enum { BATCH_SLOTS = 256 };

struct service {
    const struct options *o;
    struct hub *hub;
    struct workers *workers;
    struct answers *answers; /* NULL: none are kept */
    struct limit *limit;     /* NULL: no limit */
    struct metrics *metrics;
    struct log *log;
    struct hash_key key;             /* of token and caller digests */
    uint64_t fresh_ms;               /* how long an answer from the hub's configs is kept */
    struct crowd crowd, admin_crowd; /* connections, and those of the admin listener */
    atomic_uint in_flight, waiting, batches;
    atomic_uint batches_of[BATCH_SLOTS]; /* by a keyed hash of the address */
    atomic_bool is_draining;             /* /readyz is red */
};

/* The hub as the environment and the options say. NULL: a line on standard error says why. */
struct hub *service_hub(const struct options *o, uint64_t *ret_fresh_ms);

/* false: a line on standard error says why; close it all the same. */
bool service_open(struct service *s, const struct options *o);
void service_close(struct service *s);

/* SIGHUP: configs and answers are asked for anew, the hub's token is read again; nobody is sent away. */
void service_reload(struct service *s);

/* "http", for people and Prometheus: what stands in /metrics now. */
void service_metrics(struct service *s, struct buf *out);

/* As many connections as there are open files for; --per-address, or three quarters of them, by one address. */
void service_admit(struct service *s, unsigned connections);

unsigned service_cores(void);

#endif
