/*
 * fetch.h - the configs that an answer needs, asked of the hub all at once.
 *
 * Use       fetch_begin() asks; false: `done` is called once, from hub_loop_turn(), when the last has come. fetch_configs() is
 *           then what api_answer() takes. fetch_end() gives everything back; not while asks are open (fetch_is_open).
 * Threads   of the hub_loop; what fetch_configs() returned may be read by a worker until fetch_end().
 */
#ifndef SERVER_FETCH_H
#define SERVER_FETCH_H

#include "api/api.h"
#include "server/hub/hub.h"

struct fetch {
    uint32_t n, open;
    struct fetch_slot *slots;
    struct api_config *configs;
    void (*done)(void *arg);
    void *arg;
    bool no_memory;
};

/* true: everything is at hand (or no_memory). The names of `needs` stay where they are until fetch_end(). */
bool fetch_begin(struct fetch *f, struct hub_loop *loop, const struct api_needs *needs, const char *token, void (*done)(void *arg), void *arg);

bool fetch_is_open(const struct fetch *f);

/* `n` of them, in the order of the needs. */
const struct api_config *fetch_configs(struct fetch *f);

struct fetch_sum {
    const char *tier;       /* the dearest that was used; NULL: nothing was needed */
    bool is_private;        /* one was opened by a token */
    bool is_pinned;         /* all are of a commit: they never change */
    bool is_passing;        /* one failed, or came with a note: soon to be asked again */
    unsigned retry_after_s; /* the longest that one of them asks to wait; 0: none */
};
void fetch_sum(const struct fetch *f, struct fetch_sum *ret);

void fetch_end(struct fetch *f);

#endif
