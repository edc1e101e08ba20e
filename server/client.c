#include "server/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void write_address(const struct sockaddr *a, char *ret, size_t bytes)
{
    if (a->sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, ret, (socklen_t)bytes);
    } else if (a->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

        /* Who comes by version 4 to [::] is the address that --proxies names. */
        if (IN6_IS_ADDR_V4MAPPED(six))
            (void)inet_ntop(AF_INET, &six->s6_addr[12], ret, (socklen_t)bytes);
        else
            (void)inet_ntop(AF_INET6, six, ret, (socklen_t)bytes);
    } else if (a->sa_family == AF_UNIX) {
        (void)memcpy(ret, "unix", sizeof "unix");
    }
}

struct client *client_new(struct client **list, int fd, const struct sockaddr *address, uint64_t now_ms)
{
    struct client *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->fd = fd;
    c->since_ms = now_ms;
    if (address)
        write_address(address, c->address, sizeof c->address);
    c->at = list;
    c->next = *list;
    if (c->next)
        c->next->at = &c->next;
    *list = c;
    return c;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    free(c);
}

void client_enter(struct client *c, enum client_phase phase, uint64_t now_ms)
{
    if (!c)
        return;
    c->phase = phase;
    c->since_ms = now_ms;
}

struct client *clients_oldest_idle(struct client *list, int slot)
{
    struct client *oldest = NULL;

    for (struct client *c = list; c; c = c->next)
        if (c->phase == CLIENT_IDLE && !c->is_cut && (slot < 0 || c->slot == (unsigned)slot) && (!oldest || c->since_ms <= oldest->since_ms))
            oldest = c;
    return oldest;
}

void client_cut(struct client *c)
{
    c->is_cut = true;
    (void)shutdown(c->fd, SHUT_RDWR);
}

bool client_has_left(int fd)
{
    char one;
    ssize_t n = recv(fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);

    return !n || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Who is idle is looked at once, after his first second: later his end is an event. */
static bool is_worth_a_look(const struct client *c, uint64_t now_ms)
{
    return c->phase == CLIENT_READING || (c->phase == CLIENT_IDLE && now_ms - c->since_ms >= 1000 && now_ms - c->since_ms < 3000);
}

void clients_cut(struct client *list, uint64_t now_ms, uint64_t idle_ms, uint64_t deadline_ms)
{
    for (struct client *c = list; c; c = c->next) {
        if (c->phase == CLIENT_WAITING)
            continue;
        if (now_ms - c->since_ms >= (c->phase == CLIENT_IDLE ? idle_ms : deadline_ms) || (is_worth_a_look(c, now_ms) && client_has_left(c->fd)))
            client_cut(c);
    }
}
