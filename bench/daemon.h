/*
 * daemon.h - another program of ours as a daemon on this machine, to compare with: started, asked, ended.
 *
 * Units     its processor time, seconds.
 * Owner     whoever starts it ends it.
 */
#ifndef BENCH_DAEMON_H
#define BENCH_DAEMON_H

#include "bench/measure.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct daemon {
    pid_t pid;
    uint16_t port;
    FILE *said; /* its standard error */
};

/* Without a cache of answers, on one thread, offline. False: it does not start. */
static inline bool daemon_start(const char *path, struct daemon *ret)
{
    char line[512];
    int ends[2];
    const char *port = NULL;

    if (pipe(ends))
        return false;
    ret->pid = fork();
    if (!ret->pid) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)execl(path, path, "serve", "--offline", "--answers", "0", "--threads", "1", "--event-threads", "1", "--listen", "127.0.0.1:0", "--log", "none",
                    (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    ret->said = fdopen(ends[0], "r");
    while (!port && ret->said && fgets(line, sizeof line, ret->said))
        port = strstr(line, "http://127.0.0.1:");
    ret->port = port ? (uint16_t)strtoul(port + strlen("http://127.0.0.1:"), NULL, 10) : 0;
    return port != NULL;
}

static inline double daemon_core_s(const struct daemon *d)
{
    clockid_t clock;

    return clock_getcpuclockid(d->pid, &clock) ? 0 : clock_s(clock);
}

/* POST /estimate: the seconds of a core that it takes, and its status; 0: no answer. */
static inline double daemon_ask(const struct daemon *d, const char *body, int *ret_status)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(d->port)};
    double begin = daemon_core_s(d);
    char buf[65536];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), n;
    size_t have = 0;
    ssize_t got;

    *ret_status = 0;
    n = snprintf(buf, sizeof buf,
                 "POST /estimate HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    if (fd >= 0 && !connect(fd, (const struct sockaddr *)&to, sizeof to) && write(fd, buf, (size_t)n) == n)
        while ((got = read(fd, buf + (have < 64 ? have : 64), sizeof buf - 65)) > 0)
            have += (size_t)got;
    if (have > 12)
        *ret_status = atoi(buf + 9);
    if (fd >= 0)
        (void)close(fd);
    return daemon_core_s(d) - begin;
}

static inline void daemon_end(struct daemon *d)
{
    (void)kill(d->pid, SIGTERM);
    (void)waitpid(d->pid, NULL, 0);
    if (d->said)
        (void)fclose(d->said);
}

#endif
