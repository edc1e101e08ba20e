#include "server/hub/hop.h"

#include "server/hub/name.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

bool origin_same(const struct origin *a, const struct origin *b)
{
    return !strcasecmp(a->scheme, b->scheme) && !strcasecmp(a->host, b->host) && !strcmp(a->port, b->port);
}

static bool is_number(const char *host)
{
    struct in_addr four;

    return host[0] == '[' || inet_aton(host, &four);
}

const char *hop_fault(const struct origin *home, const struct origin *from, const struct origin *to)
{
    bool secure = !strcasecmp(to->scheme, "https");

    if (!secure && strcasecmp(to->scheme, "http") != 0)
        return "to something that is not http";
    if (!secure && !strcasecmp(from->scheme, "https"))
        return "from https to http";
    if (origin_same(home, to) || (is_loopback(home->host) && is_loopback(to->host)))
        return NULL;
    if (!secure || strcmp(to->port, "443") != 0)
        return "to another port";
    return is_number(to->host) || is_loopback(to->host) ? "to a bare address" : NULL;
}
