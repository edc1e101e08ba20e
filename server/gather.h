/*
 * gather.h - the configs that an answer needs, asked of the hub all at once, and the code that they name.
 *
 * Use       gather_begin() asks; false: `done` is called once, from hub_loop_turn(), when the last has come. gather_configs() is
 *           then what api_answer() takes. gather_end() gives everything back; not while asks are open (gather_is_open).
 * Threads   of the hub_loop; what gather_configs() returned may be read by a worker until gather_end().
 */
#ifndef SERVER_GATHER_H
#define SERVER_GATHER_H

#include "api/api.h"
#include "server/hub/hub.h"

struct gather {
    uint32_t n, open;
    struct hub_loop *loop;
    char *token; /* NULL: none */
    struct gather_slot *slots;
    struct api_config *configs;
    void (*done)(void *arg);
    void *arg;
    bool no_memory;
};

/* true: everything is at hand (or no_memory). The names of `needs` stay where they are until gather_end(). */
bool gather_begin(struct gather *f, struct hub_loop *loop, const struct api_needs *needs, const char *token, void (*done)(void *arg), void *arg);

bool gather_is_open(const struct gather *f);

/* `n` of them, in the order of the needs. */
const struct api_config *gather_configs(struct gather *f);

struct gather_sum {
    const char *tier;       /* the dearest that was used; NULL: nothing was needed */
    bool is_private;        /* one was opened by a token */
    bool is_pinned;         /* all are of a commit: they never change */
    bool is_passing;        /* one failed, or came with a note: soon to be asked again */
    unsigned retry_after_s; /* the longest that one of them asks to wait; 0: none */
};
void gather_sum(const struct gather *f, struct gather_sum *ret);

void gather_end(struct gather *f);

#endif
