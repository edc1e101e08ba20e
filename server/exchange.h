/*
 * exchange.h - one request, from its first byte to its last, without a socket.
 *
 * Purpose   the adapter (httpd.c) tells what arrived and sends what comes out; everything between is here, in desk.c and in story.c.
 * Course    exchange_new() at the request line; exchange_begin() after the headers; exchange_append() for the body;
 *           exchange_ask() at its end. NEXT_SEND: x->answer goes out. NEXT_WAIT: suspend the connection, then exchange_go_on();
 *           when desk_turn() lists the exchange, resume it and send. exchange_closed() once, at the end.
 * Owner     the connection, a job that runs and asks that are open each hold it: it is freed when the last lets go, so that a
 *           client who leaves, or a deadline, disturbs nobody.
 * Threads   all of one desk, except that a worker reads what belongs to the job (struct exchange says which) while it runs.
 */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/gather.h"
#include "server/head.h"
#include "server/policy.h"
#include "server/service.h"

#include <pthread.h>
#include <sys/types.h>

enum exchange_next { NEXT_READ, NEXT_SEND, NEXT_WAIT };

/* One a event thread. */
struct desk {
    struct service *service;
    struct hub_loop *hub;
    struct exchange *ready;    /* to be resumed */
    struct exchange *waiting;  /* suspended */
    pthread_mutex_t lock;
    struct task *finished;     /* under lock: what workers are done with */
    unsigned jobs;             /* pushed and not back */
    unsigned open;             /* exchanges of connections */
    bool is_refusing;          /* the last of a drain: nothing new is computed */
    uint64_t ids;              /* made so far, from a random start */
    uint64_t now_ms;           /* when this turn of the loop began */
    bool is_admin;             /* answers probes alone, and those always */
    bool is_loopback;          /* this machine alone can ask: names are checked */
    struct exchange *spare;    /* by next: to be used again */
    unsigned spares;
    void *scratch;             /* API_CHEAP_BYTES, for what is answered at once */
};

/* A worker's part of an exchange, which is held meanwhile. `finished` is called by desk_turn(). */
struct task {
    struct job job;
    struct task *next_finished;
    struct exchange *x;
    void (*finished)(struct task *task);
};

struct exchange {
    struct desk *desk;
    void *connection; /* the adapter's */
    struct exchange *next, **at; /* of desk->ready, or of desk->waiting */
    unsigned holders;
    uint64_t began_us;
    struct client *client; /* the adapter's; NULL */
    const char *uri_end;   /* the adapter's: where the library saw the end of it */
    enum verb verb;
    struct head head;
    bool is_probe; /* of those who watch the service */
    bool has_begun, is_closed, is_too_large, has_no_memory, has_slot, is_answered;
    bool is_hit, is_not_modified, has_callers_id;
    bool takes_gzip, is_packed; /* he said so; what he gets is */
    atomic_bool is_dropped;     /* nobody waits for what a worker computes */
    struct answer *answer; /* what is sent */

    /* the task's, while one runs */
    struct task task;
    struct api_request rq;
    bool has_needs, is_late;
    char *body, *query, *owned;
    size_t bytes, cap;
    struct digest token_digest;
    struct api_needs needs;
    struct gather gather;
    struct answer *made;
    struct batch *batch;   /* of a batch, once begun */
    atomic_uint *batch_of_address; /* it is counted among the batches, and here among its address's; NULL: not */
    bool is_streaming;     /* its body is handed out by exchange_more(); x->answer has status and headers */
    /* not zeroed */
    char method[16], id[132], trace[56]; /* trace: the caller's traceparent, "": none */
    char first[400]; /* of the body: most are shorter */
};

/* From zeros, but for is_admin and is_loopback. */
bool desk_open(struct desk *d, struct service *s);
void desk_close(struct desk *d); /* after its connections are closed and its jobs are back */

/* Moves on what can go on; the list of exchanges to resume. */
struct exchange *desk_turn(struct desk *d);

/* Who waits, and his caller is gone: what is computed for him ends, and he is resumed. */
void desk_drop(struct exchange *x);

/* Refuses those that wait: since before began_us, or all. */
void desk_refuse(struct desk *d, uint64_t began_us, enum err_code code, const char *detail);

/* `uri` as it was sent, with the query; may be NULL. NULL: no memory. */
struct exchange *exchange_new(struct desk *d, void *connection, const char *uri);
enum exchange_next exchange_begin(struct exchange *x, const char *method, const struct head *head);
void exchange_append(struct exchange *x, const char *data, size_t bytes);
enum exchange_next exchange_ask(struct exchange *x);
void exchange_go_on(struct exchange *x);

/* Of an answer that is made while it is sent: how many bytes more; 0: none yet, and desk_turn() lists the exchange when there are (suspend it); -1: that was
 * all. exchange_part() changes with every part that is begun: whoever takes too long for one is cut. */
ssize_t exchange_more(struct exchange *x, char *into, size_t room);
unsigned exchange_part(const struct exchange *x);

/* status: what the adapter has sent by itself, where there is no x->answer. end: for the log. */
void exchange_closed(struct exchange *x, int status, const char *end);

/* --- between exchange.c, story.c and desk.c ------------------------------------------------------------------------------------ */

enum exchange_next exchange_refuse(struct exchange *x, enum err_code code, unsigned retry_after_s, const char *fmt, ...) PRINTF(4, 5);
enum exchange_next exchange_send(struct exchange *x, const struct api_response *r);
void exchange_name(struct exchange *x); /* an id, if it has none */
bool exchange_take_slot(struct exchange *x);
void exchange_hold(struct exchange *x);
void exchange_let_go(struct exchange *x);

/* The body was read and is not needed again. */
void exchange_drop_body(struct exchange *x);

/* A waiting exchange has its answer: it is resumed in this turn. */
void exchange_ready(struct exchange *x);

/* A waiting exchange that there is no memory for. */
void exchange_give_up(struct exchange *x);

/* desk.c: to a worker: false: the queue is full. job.run, .is_large and .until_ms, x and finished are set. */
bool desk_push(struct task *t);

/* The task that a worker was handed. */
struct task *task_of(struct job *job);

/* desk.c: room for an exchange, not zeroed; NULL: no memory. */
struct exchange *desk_take(struct desk *d);
void desk_give(struct desk *d, struct exchange *x);
void desk_wait(struct exchange *x);   /* it is suspended */
void desk_forget(struct exchange *x); /* of whatever list it is in */

/* own.c: NEXT_READ: the path is none of the server's own. */
enum exchange_next own_answer(struct exchange *x);

#endif
