#include "server/notify.h"

#include "server/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* "/path", or "@name" in the abstract namespace. */
static socklen_t address(struct sockaddr_un *ret)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;

    if (n < 2 || n >= sizeof ret->sun_path || (path[0] != '/' && path[0] != '@'))
        return 0;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, n);
    if (path[0] == '@')
        ret->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

void notify_say(const char *state)
{
    struct sockaddr_un at;
    socklen_t n = address(&at);
    int fd = n ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&at, n);
    close(fd);
}

void notify_reloading(void)
{
    char text[64];

    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_us());
    notify_say(text);
}

static uint64_t watchdog_ms(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    return us && (!pid || strtol(pid, NULL, 10) == getpid()) ? strtoull(us, NULL, 10) / 1000 : 0;
}

uint64_t notify_watchdog(bool is_alive)
{
    static uint64_t said_ms;
    uint64_t half_ms = watchdog_ms() / 2, now_ms = clock_ms();

    if (!half_ms)
        return UINT64_MAX;
    if (now_ms - said_ms < half_ms)
        return said_ms + half_ms - now_ms;
    if (is_alive)
        notify_say("WATCHDOG=1");
    said_ms = now_ms;
    return half_ms;
}
