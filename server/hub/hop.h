/*
 * hop.h - where a redirect may lead, and whether a token may go along.
 *
 * Source    huggingface_hub 1.29 keeps Authorization on the same host alone (httpx, requests: rebuild_auth); we also ask for the
 *           same scheme and port. Which places are refused is ours: no repository may make the service knock at its neighbours.
 * Threads   pure.
 */
#ifndef SERVER_HUB_HOP_H
#define SERVER_HUB_HOP_H

#include <stdbool.h>

struct origin {
    char *scheme, *host, *port; /* the port as digits, the default one included */
};

bool origin_same(const struct origin *a, const struct origin *b);

/* What is wrong with a hop from `from` to `to` when the endpoint is `home`: "to another port"; NULL: nothing. */
const char *hop_fault(const struct origin *home, const struct origin *from, const struct origin *to);

#endif
