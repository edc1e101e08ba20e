/*
 * Cached answers over HTTP beside a bare libmicrohttpd handler that sends as many bytes, in one run on one core, with a client of
 * our own on the others; then the same while 32 callers wait for a hub that takes 200 ms; last /healthz beside thousands of
 * connections that say nothing. Prints medians of five runs and their ratios, asserts nothing.
 *
 *   LLMEMD=build/llmemd build/bench/bench_http
 *
 * Read the ratio of processor time where the machine has other work: both servers get the same share of it.
 */
#include "bench/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FAST = 64, SLOW = 32, RUNS = 5, RUN_MS = 1000, HUB_MS = 200, BUFFER = 256 << 10, IDLE = 5000, PROBES = 101 };

static const char question[] = "{\"config\":{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"vocab_size\":50257,\"n_positions\":1024},"
                               "\"cluster\":{\"gpu\":\"A100-40GB\"},\"training\":{\"seq_len\":512,\"micro_batch_size\":1,\"methods\":\"single\","
                               "\"tuning\":\"full\",\"gradient_checkpointing\":true}}";

static void die(const char *what)
{
    perror(what);
    kill(0, SIGTERM);
    exit(1);
}

/* Servers on the first core, everything else on the others. `all`: what the process may use before anything is pinned. */
static cpu_set_t all;

static void pin(bool server)
{
    cpu_set_t mine;
    size_t first = CPU_SETSIZE;

    CPU_ZERO(&mine);
    for (size_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &all))
            continue;
        if (first == CPU_SETSIZE)
            first = c;
        if ((c == first) == server)
            CPU_SET(c, &mine);
    }
    if (CPU_COUNT(&mine))
        (void)sched_setaffinity(0, sizeof mine, &mine);
}

static int listening(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n = sizeof at;

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) || listen(fd, 1024) || getsockname(fd, (struct sockaddr *)&at, &n))
        die("listen");
    *ret_port = ntohs(at.sin_port);
    return fd;
}

/* --- the servers ------------------------------------------------------------------------------------------------------------------ */

static enum MHD_Result on_bare(void *arg, struct MHD_Connection *c, const char *url, const char *method, const char *version, const char *data,
                               size_t *n, void **context)
{
    (void)url, (void)method, (void)version, (void)data;
    if (!*context || *n) {
        *n = 0;
        *context = arg;
        return MHD_YES;
    }
    return MHD_queue_response(c, 200, arg);
}

/* The fastest way the library has: external epoll, a pool of 8 KiB, one response for all. */
static pid_t start_bare(size_t bytes, uint16_t *ret_port)
{
    int fd = listening(ret_port);
    pid_t pid = fork();
    struct MHD_Response *r;
    struct MHD_Daemon *d;
    struct pollfd p = {.events = POLLIN};
    char *body;

    if (pid) {
        close(fd);
        return pid;
    }
    pin(true);
    body = malloc(bytes);
    memset(body, 'x', bytes);
    r = MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(r, "Content-Type", "application/json");
    d = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_bare, r, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)8192,
                         MHD_OPTION_END);
    p.fd = MHD_get_daemon_info(d, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    for (;;) {
        MHD_UNSIGNED_LONG_LONG ms;

        (void)poll(&p, 1, MHD_get_timeout(d, &ms) == MHD_YES ? (int)ms : 500);
        MHD_run(d);
    }
}

static enum MHD_Result on_hub(void *arg, struct MHD_Connection *c, const char *url, const char *method, const char *version, const char *data,
                              size_t *n, void **context)
{
    static const struct timespec pause = {.tv_nsec = HUB_MS * 1000000};
    struct MHD_Response *r;
    enum MHD_Result rc;

    (void)url, (void)method, (void)version, (void)data, (void)n;
    if (!*context) {
        *context = arg;
        return MHD_YES;
    }
    nanosleep(&pause, NULL);
    r = MHD_create_response_from_buffer(2, "{}", MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(r, "X-Error-Code", "RepoNotFound");
    (void)MHD_add_response_header(r, "X-Repo-Commit", "0123456789012345678901234567890123456789");
    rc = MHD_queue_response(c, 404, r);
    MHD_destroy_response(r);
    return rc;
}

static pid_t start_hub(uint16_t *ret_port)
{
    int fd = listening(ret_port);
    pid_t pid = fork();

    if (pid) {
        close(fd);
        return pid;
    }
    pin(false);
    if (!MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_hub, &fd, MHD_OPTION_LISTEN_SOCKET, fd,
                          MHD_OPTION_END))
        _exit(1);
    for (;;)
        pause();
}

/* A port that was free a moment ago: the line with the port is on a standard error that nobody reads. */
static pid_t start_llmemd(const char *path, uint16_t hub_port, uint16_t *ret_port)
{
    char at[64], hub[64];
    int fd = listening(ret_port), null;
    pid_t pid;

    close(fd);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", *ret_port);
    (void)snprintf(hub, sizeof hub, "http://127.0.0.1:%u", hub_port);
    pid = fork();
    if (pid)
        return pid;
    pin(true);
    null = open("/dev/null", O_WRONLY);
    if (null >= 0)
        (void)dup2(null, STDERR_FILENO);
    (void)setenv("HF_ENDPOINT", hub, 1);
    (void)setenv("HF_HOME", "/nonexistent", 1);
    (void)unsetenv("HF_HUB_OFFLINE");
    execl(path, path, "serve", "--listen", at, "--event-threads", "1", "--threads", "1", (char *)NULL);
    _exit(127);
}

/* --- the client ------------------------------------------------------------------------------------------------------------------- */

struct caller {
    int fd;
    bool slow;
    unsigned asked;
    size_t got;
    char *buffer;
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;

    for (int i = 0; i < 500; i++) {
        static const struct timespec tick = {.tv_nsec = 10000000};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (!connect(fd, (struct sockaddr *)&at, sizeof at)) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            return fd;
        }
        close(fd);
        nanosleep(&tick, NULL);
    }
    die("connect");
    return -1;
}

static void ask(struct caller *c, const char *body)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     strlen(body), body);

    c->got = 0;
    if (send(c->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        die("send");
}

static void ask_next(struct caller *c)
{
    char body[256];

    if (c->slow)
        (void)snprintf(body, sizeof body, "{\"model\":\"slow/m%d-%u\",\"cluster\":{\"gpu\":\"T4\"}}", c->fd, c->asked++);
    ask(c, c->slow ? body : question);
}

/* Bytes of the whole answer, 0 as long as its head is not complete. */
static size_t answer_bytes(struct caller *c)
{
    char *end, *length;

    c->buffer[c->got] = 0;
    end = strstr(c->buffer, "\r\n\r\n");
    length = end ? strstr(c->buffer, "\r\nContent-Length: ") : NULL;
    return length ? (size_t)(end + 4 - c->buffer) + strtoul(length + 18, NULL, 10) : 0;
}

/* true: an answer is complete. */
static bool receive(struct caller *c)
{
    ssize_t n = recv(c->fd, c->buffer + c->got, BUFFER - 1 - c->got, MSG_DONTWAIT);
    size_t whole;

    if (n <= 0 && errno != EAGAIN)
        die("recv");
    c->got += n > 0 ? (size_t)n : 0;
    whole = answer_bytes(c);
    return whole && c->got >= whole;
}

static double cpu_s(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct rate {
    double per_s, cpu_us, slow_per_s, server_busy, client_busy;
};

static struct rate measure(uint16_t port, pid_t server, int n_slow)
{
    static struct caller callers[FAST + SLOW];
    struct epoll_event events[128];
    int set = epoll_create1(EPOLL_CLOEXEC);
    double began, ended, cpu, own;
    unsigned done[2] = {0};

    for (int i = 0; i < FAST + n_slow; i++) {
        struct caller *c = &callers[i];
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

        *c = (struct caller){.fd = connect_to(port), .slow = i >= FAST, .asked = (unsigned)rand() % 1000000, .buffer = c->buffer ? c->buffer : malloc(BUFFER)};
        (void)epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &e);
        ask_next(c);
    }
    began = wall_s();
    cpu = cpu_s(server);
    own = cpu_s(getpid());
    do {
        int n = epoll_wait(set, events, 128, 100);

        for (int i = 0; i < n; i++) {
            struct caller *c = events[i].data.ptr;

            if (!receive(c))
                continue;
            done[c->slow]++;
            ask_next(c);
        }
        ended = wall_s();
    } while (ended - began < RUN_MS / 1e3);
    cpu = cpu_s(server) - cpu;
    own = cpu_s(getpid()) - own;
    for (int i = 0; i < FAST + n_slow; i++)
        close(callers[i].fd);
    close(set);
    return (struct rate){done[0] / (ended - began), done[0] ? cpu * 1e6 / done[0] : 0, done[1] / (ended - began), cpu / (ended - began), own / (ended - began)};
}

static size_t body_bytes(uint16_t port)
{
    struct caller c = {.fd = connect_to(port), .buffer = malloc(BUFFER)};
    size_t n;

    ask(&c, question);
    while (!receive(&c))
        ;
    if (strncmp(c.buffer, "HTTP/1.1 200", 12) != 0)
        die(c.buffer);
    n = answer_bytes(&c) - (size_t)(strstr(c.buffer, "\r\n\r\n") + 4 - c.buffer);
    close(c.fd);
    free(c.buffer);
    return n;
}

/* --- a crowd that says nothing ------------------------------------------------------------------------------------------------------ */

static int connect_from(uint32_t address, uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) || connect(fd, (struct sockaddr *)&at, sizeof at))
        die("connect");
    return fd;
}

static double probe_ms(uint32_t from, uint16_t port)
{
    static const char text[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    double began = wall_s();
    struct caller c = {.fd = connect_from(from, port), .buffer = malloc(BUFFER)};

    if (send(c.fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0)
        die("send");
    while (!receive(&c))
        ;
    close(c.fd);
    free(c.buffer);
    return (wall_s() - began) * 1e3;
}

static void probe(const char *who, uint32_t from, uint16_t port)
{
    double ms[PROBES], middle;

    for (int i = 0; i < PROBES; i++)
        ms[i] = probe_ms(from, port);
    middle = median(ms, PROBES);
    printf("  /healthz asked from %-22s median %6.2f ms, most %6.2f ms\n", who, middle, ms[PROBES - 1]);
}

/* As many as this process may open. */
static void beside_idle(uint16_t port)
{
    struct rlimit files;
    int fds[IDLE], n;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (n = 0; n < IDLE && (rlim_t)n + 100 < files.rlim_cur; n++)
        fds[n] = connect_from(INADDR_LOOPBACK, port);
    printf("%d idle connections of one address:\n", n);
    probe("the same address", INADDR_LOOPBACK, port);
    probe("another", INADDR_LOOPBACK + 1, port);
    while (n)
        close(fds[--n]);
}

/* --- the figures ------------------------------------------------------------------------------------------------------------------ */

int main(void)
{
    const char *path = getenv("LLMEMD") ? getenv("LLMEMD") : "build/llmemd";
    uint16_t hub_port, port, bare_port;
    double per_s[3][RUNS], cpu_us[3][RUNS], server_busy[3] = {0}, client_busy[3] = {0}, slow_per_s = 0;
    pid_t hub, server, bare;
    size_t bytes;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sched_getaffinity(0, sizeof all, &all);
    hub = start_hub(&hub_port);
    server = start_llmemd(path, hub_port, &port);
    pin(false);
    bytes = body_bytes(port);
    bare = start_bare(bytes, &bare_port);
    for (int i = 0; i < RUNS; i++) {
        struct rate r[3] = {measure(bare_port, bare, 0), measure(port, server, 0), measure(port, server, SLOW)};

        for (int k = 0; k < 3; k++) {
            per_s[k][i] = r[k].per_s;
            cpu_us[k][i] = r[k].cpu_us;
            server_busy[k] += r[k].server_busy / RUNS;
            client_busy[k] += r[k].client_busy / RUNS;
        }
        slow_per_s += r[2].slow_per_s / RUNS;
    }
    for (int k = 0; k < 3; k++) {
        static const char *const names[] = {"bare handler", "cached answer", "the same beside 32 slow hub calls"};
        double rate = median(per_s[k], RUNS), us = median(cpu_us[k], RUNS);

        printf("%-34s %6zu B  %8.0f /s  %5.1f us CPU  busy: server %3.0f %%, client %3.0f %%", names[k], bytes, rate, us, server_busy[k] * 100,
               client_busy[k] * 100);
        if (k)
            printf("  x bare: %.2f by rate, %.2f by CPU", rate / per_s[0][RUNS / 2], cpu_us[0][RUNS / 2] / us);
        printf("\n");
    }
    printf("slow callers answered: %.0f /s; medians of %d runs of %d ms\n", slow_per_s, RUNS, RUN_MS);
    beside_idle(port);
    kill(hub, SIGKILL);
    kill(bare, SIGKILL);
    kill(server, SIGTERM);
    while (wait(NULL) > 0)
        ;
    return 0;
}
