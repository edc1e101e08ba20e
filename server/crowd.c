#include "server/crowd.h"

#include "server/policy.h"

#include <string.h>

static unsigned slot_of(const struct crowd *w, const char *address)
{
    char network[POLICY_NETWORK_BYTES];
    struct hash h;

    policy_network(address, network, sizeof network);
    hash_begin(&h, &w->key);
    hash_add(&h, network, strlen(network));
    return (unsigned)(hash_end(&h).d[0] % CROWD_SLOTS);
}

void crowd_leave(struct crowd *w, struct client *c)
{
    if (!c->is_counted)
        return;
    c->is_counted = false;
    atomic_fetch_sub(&w->open, 1);
    atomic_fetch_sub(&w->by_address[c->slot], 1);
}

/* Counted out at once: the newcomer's request may come before the other's end. */
static void make_room(struct crowd *w, struct client *list, int slot)
{
    struct client *idle = clients_oldest_idle(list, slot);

    if (!idle)
        return;
    client_cut(idle);
    crowd_leave(w, idle);
}

static bool is_heavy(struct crowd *w, const struct client *c)
{
    return c && !c->is_exempt && atomic_load(&w->by_address[c->slot]) > w->per_address;
}

enum crowding crowd_of(struct crowd *w, const struct client *c)
{
    return atomic_load(&w->open) > w->max ? CROWD_FULL : is_heavy(w, c) ? CROWD_ADDRESS : CROWD_ROOM;
}

/* The newcomer is not among those who may be cut for it. */
void crowd_join(struct crowd *w, struct client *list, struct client *c, uint64_t now_ms)
{
    c->slot = slot_of(w, c->address);
    c->is_exempt = policy_listed(w->exempt, c->address, strlen(c->address));
    c->is_counted = true;
    atomic_fetch_add(&w->open, 1);
    atomic_fetch_add(&w->by_address[c->slot], 1);
    client_enter(c, CLIENT_READING, now_ms);
    if (is_heavy(w, c))
        make_room(w, list, (int)c->slot); /* its own address's, before anybody else's */
    else if (atomic_load(&w->open) > w->max)
        make_room(w, list, -1);
    client_enter(c, CLIENT_IDLE, now_ms);
    if (atomic_load(&w->open) > w->max + w->spare)
        client_cut(c);
}
