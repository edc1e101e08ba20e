#include "server/listen.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* "host:port", "[v6]:port", ":port". The host without brackets. */
static const char *split(const char *where, char *host, size_t bytes)
{
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;

    if (!colon || !colon[1])
        return NULL;
    if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
        where++;
        n -= 2;
    } else if (memchr(where, ':', n)) {
        return NULL;
    }
    if (n >= bytes)
        return NULL;
    memcpy(host, where, n);
    host[n] = 0;
    return colon + 1;
}

static int open_at(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol), on = 1;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 4096))
        return fd;
    close(fd);
    return -1;
}

static void name_of(int fd, char *ret, size_t bytes)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char host[128] = "?", port[16] = "?";

    if (!getsockname(fd, (struct sockaddr *)&at, &n))
        (void)getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(ret, bytes, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* getaddrinfo() takes 99999 for 34463. */
static bool is_port(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && !*end && n <= 65535;
}

int listen_at(const char *where, char *ret_name, size_t bytes)
{
    struct addrinfo want = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char host[256];
    const char *port = split(where, host, sizeof host);
    int fd = -1;

    if (!port || !is_port(port) || getaddrinfo(host[0] ? host : NULL, port, &want, &found)) {
        fprintf(stderr, "llmemd: --listen %s: not an address and port, like 127.0.0.1:8080\n", where);
        return -1;
    }
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = open_at(a);
    if (fd < 0)
        perror("llmemd: listen");
    else
        name_of(fd, ret_name, bytes);
    freeaddrinfo(found);
    return fd;
}

void listen_raise_files(unsigned connections, unsigned others)
{
    rlim_t wanted = connections + (rlim_t)others;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= wanted)
        return;
    r.rlim_cur = wanted < r.rlim_max ? wanted : r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < wanted)
        fprintf(stderr, "llmemd: %u connections need %llu open files, the system grants %llu (ulimit -n)\n", connections,
                (unsigned long long)wanted, (unsigned long long)r.rlim_cur);
}
