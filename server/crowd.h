/*
 * crowd.h - how many connections are open, in all and of one address, and who makes room for whom.
 *
 * Rules     beyond `max`, or `per_address` of one address, whoever has been idle longest on the newcomer's thread is cut. Where nobody is idle the newcomer
 *           stays, to be told (503); beyond `spare` of those he is cut as well, so that files never run out. Those in `exempt` (proxies, a unix socket)
 *           are not counted by address: many stand behind one.
 * Threads   any; a list of clients belongs to one.
 */
#ifndef SERVER_CROWD_H
#define SERVER_CROWD_H

#include "server/client.h"
#include "server/hash.h"

#include <stdatomic.h>

enum { CROWD_SLOTS = 4096 };

struct crowd {
    unsigned max, per_address, spare;
    const char *exempt; /* addresses joined by commas; NULL: none */
    struct hash_key key;
    atomic_uint open;
    atomic_uint by_address[CROWD_SLOTS]; /* by a keyed hash of the peer's address */
};

enum crowding { CROWD_ROOM, CROWD_FULL, CROWD_ADDRESS };

void crowd_join(struct crowd *w, struct client *list, struct client *c, uint64_t now_ms);
void crowd_leave(struct crowd *w, struct client *c);

/* How it is for this one now. c: may be NULL. */
enum crowding crowd_of(struct crowd *w, const struct client *c);

#endif
