#include "server/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, FIRST_INHERITED = 3 };

/* --- an address and a port -------------------------------------------------------------------------------------------------------- */

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
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG))
        return fd;
    close(fd);
    return -1;
}

/* getaddrinfo() takes 99999 for 34463. */
static bool is_port(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && !*end && n <= 65535;
}

static const char *what_to_do(int error)
{
    switch (error) {
    case EADDRINUSE:
        return ": something listens there already, perhaps another llmemd; --listen 127.0.0.1:0 takes a free port and says which";
    case EACCES:
        return ": ports below 1024 are the system's; --listen 127.0.0.1:8080 needs no privilege";
    case EADDRNOTAVAIL:
        return ": no interface of this machine has that address; 127.0.0.1 is this machine alone, 0.0.0.0 all of them";
    default:
        return "";
    }
}

static bool open_port(struct listener *l, const char *flag, const char *where)
{
    struct addrinfo want = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char host[256];
    const char *port = split(where, host, sizeof host);

    if (!port || !is_port(port) || getaddrinfo(host[0] ? host : NULL, port, &want, &found)) {
        fprintf(stderr, "llmemd: %s %s: not an address and port, like 127.0.0.1:8080, nor unix:/PATH\n", flag, where);
        return false;
    }
    for (struct addrinfo *a = found; a && l->fd < 0; a = a->ai_next)
        l->fd = open_at(a);
    if (l->fd < 0)
        fprintf(stderr, "llmemd: %s %s: %s%s\n", flag, where, strerror(errno), what_to_do(errno));
    freeaddrinfo(found);
    return l->fd >= 0;
}

/* --- a path ------------------------------------------------------------------------------------------------------------------------ */

/* What a process that is gone has left; anything else stays, and bind() says that it is in the way. */
static void remove_stale(const struct sockaddr_un *at)
{
    struct stat s;
    int fd;

    if (lstat(at->sun_path, &s) || !S_ISSOCK(s.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) && errno == ECONNREFUSED)
        (void)unlink(at->sun_path);
    if (fd >= 0)
        close(fd);
}

/* Never there with another mode: the mask is the process's, which has no other thread that makes files yet. */
static bool bind_path(struct listener *l, const struct sockaddr_un *at, unsigned mode)
{
    mode_t before = umask(0777 & ~mode);
    bool good = !bind(l->fd, (const struct sockaddr *)at, sizeof *at);
    struct stat s;

    (void)umask(before);
    if (!good)
        return false;
    memcpy(l->path, at->sun_path, sizeof l->path);
    if (!lstat(l->path, &s)) {
        l->device = s.st_dev;
        l->inode = s.st_ino;
    }
    return !listen(l->fd, BACKLOG);
}

static bool open_path(struct listener *l, const char *flag, const char *path, unsigned mode)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    _Static_assert(sizeof l->path == sizeof at.sun_path, "a path is copied whole");
    if (path[0] != '/' || strlen(path) >= sizeof at.sun_path) {
        fprintf(stderr, "llmemd: %s unix:%s: not a path from the root of at most %zu bytes\n", flag, path, sizeof at.sun_path - 1);
        return false;
    }
    memcpy(at.sun_path, path, strlen(path));
    remove_stale(&at);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd >= 0 && bind_path(l, &at, mode))
        return true;
    fprintf(stderr, "llmemd: %s unix:%s: %s\n", flag, path, strerror(errno));
    listen_end(l);
    return false;
}

/* --- both -------------------------------------------------------------------------------------------------------------------------- */

static void name_unix(struct listener *l, const struct sockaddr_un *at, socklen_t n)
{
    size_t path = n > offsetof(struct sockaddr_un, sun_path) ? strnlen(at->sun_path, n - offsetof(struct sockaddr_un, sun_path)) : 0;

    (void)snprintf(l->name, sizeof l->name, "unix:%.*s", (int)path, at->sun_path);
}

static void name(struct listener *l)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char host[128] = "?", port[16] = "?";

    if (getsockname(l->fd, (struct sockaddr *)&at, &n))
        return;
    if (at.ss_family == AF_UNIX) {
        name_unix(l, (const struct sockaddr_un *)(const void *)&at, n);
        return;
    }
    (void)getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(l->name, sizeof l->name, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host, port);
    l->is_loopback = !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}

bool listen_at(struct listener *ret, const char *flag, const char *where, unsigned mode)
{
    *ret = (struct listener){.fd = -1};
    if (!(strncmp(where, "unix:", 5) ? open_port(ret, flag, where) : open_path(ret, flag, where + 5, mode)))
        return false;
    name(ret);
    return true;
}

/* The system drops what asks for a connection, and who asked asks again a second later, when the socket is gone. Where it cannot: a moment's race. */
void listen_refuse(const struct listener *l)
{
    enum { FLAGS_AT = 13, SYN = 2 };
    static struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};

    if (l->fd >= 0 && !l->path[0] && !l->is_shared)
        (void)setsockopt(l->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

bool listen_waits(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, 0) > 0 && look.revents & POLLIN;
}

void listen_end(struct listener *l)
{
    struct stat s;

    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    /* A newcomer may have put his own there. */
    if (l->path[0] && !lstat(l->path, &s) && s.st_dev == l->device && s.st_ino == l->inode)
        (void)unlink(l->path);
    l->path[0] = 0;
}

/* --- what systemd opened ------------------------------------------------------------------------------------------------------------ */

static bool is_listening(int fd)
{
    int on = 0;
    socklen_t n = sizeof on;

    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) && on;
}

static bool inherit(struct listener *l, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (l->fd >= 0 || !is_listening(fd) || flags < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) {
        fprintf(stderr, "llmemd: LISTEN_FDS: a listening socket, and one more named \"admin\", can be handed over\n");
        return false;
    }
    l->fd = fd;
    l->is_shared = true;
    name(l);
    return true;
}

bool listen_inherit(struct listener *main, struct listener *admin)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
    int n = pid && fds && strtol(pid, NULL, 10) == getpid() ? (int)strtol(fds, NULL, 10) : 0;
    bool good = true;

    *main = *admin = (struct listener){.fd = -1};
    for (int i = 0; good && i < n; i++) {
        size_t bytes = names ? strcspn(names, ":") : 0;

        good = inherit(bytes == 5 && !strncmp(names, "admin", 5) ? admin : main, FIRST_INHERITED + i);
        names = names && names[bytes] ? names + bytes + 1 : NULL;
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return good;
}

/* --- open files -------------------------------------------------------------------------------------------------------------------- */

unsigned listen_raise_files(unsigned connections, unsigned others)
{
    rlim_t wanted = connections + (rlim_t)others;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= wanted)
        return connections;
    r.rlim_cur = wanted < r.rlim_max ? wanted : r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    (void)getrlimit(RLIMIT_NOFILE, &r);
    return r.rlim_cur >= wanted ? connections : r.rlim_cur > others ? (unsigned)(r.rlim_cur - others) : 0;
}
