/*
 * metrics.h - what is counted, and its text for Prometheus.
 *
 * Labels    route template, method, status class, tier, reason: few and closed. Never a model id, a path or a token.
 * Source    the text format 0.0.4 of prometheus.io/docs/instrumenting/exposition_formats.
 * Threads   any; counters are relaxed atomics: a reading may be a request behind.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/buf.h"
#include "server/answers.h"
#include "server/hub/hub.h"
#include "server/policy.h"
#include "server/workers.h"

enum refusal { REFUSED_CONNECTIONS, REFUSED_WAITING, REFUSED_QUEUE, REFUSED_BATCHES, REFUSED_RATE, REFUSED_DEADLINE, REFUSED_DRAINING, REFUSALS };

/* What became of a batch's item. */
enum batch_outcome { BATCH_COMPUTED, BATCH_CACHED, BATCH_REPEATED, BATCH_PROBLEM, BATCH_REFUSED, BATCH_OUTCOMES };

struct metrics;

struct metrics *metrics_new(void); /* NULL: no memory */
void metrics_free(struct metrics *m);

/* What became of a request: answered from the cache, from tables, by computing, in parts; refused (4xx), failed (5xx), or nobody read the answer. */
enum outcome { OUTCOME_HIT, OUTCOME_TABLES, OUTCOME_COMPUTED, OUTCOME_STREAMED, OUTCOME_REFUSED, OUTCOME_FAILED, OUTCOME_NONE, OUTCOMES };

struct metrics_of {
    const char *route; /* constant */
    enum verb verb;
    int status;        /* 0: the connection broke before there was one */
    enum outcome outcome;
    const char *tier;  /* where a config came from; NULL */
    uint64_t us;
};

/* One request, when it has ended. */
void metrics_request(struct metrics *m, const struct metrics_of *r);

/* What one answer took to be computed, in events of its budget (base/budget.h). */
void metrics_work(struct metrics *m, const char *route, uint64_t events);

void metrics_refused(struct metrics *m, enum refusal why);
void metrics_batch_item(struct metrics *m, enum batch_outcome what);

/* What is read elsewhere at the moment of asking. */
struct metrics_now {
    unsigned connections, in_flight, waiting, batches;
    bool draining;
    uint64_t log_dropped;
    struct workers_counts workers;
    struct answers_counts answers;
    struct hub_counts hub;
};

/* Appends the page: about 8 KiB and 2 KiB a route. */
void metrics_write(struct metrics *m, const struct metrics_now *now, struct buf *out);

#endif
