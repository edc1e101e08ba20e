/*
 * bench_batch.c - a batch of a thousand distinct questions about one GPU: seconds of one core, first bytes, and what stays resident. Goals: 8 s; idle 16 MB.
 *
 *   LLMEMD=build/llmemd build/bench/bench_batch
 */
#include "bench/measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEMS = 1000, BODY_BYTES = 512 << 10 };

/* Eight models, six GPUs, lengths within all of them; micro_batch_size stated, or searched. */
static size_t write_batch(char *body, int n, bool states_batch)
{
    static const char *const models[] = {"meta-llama/Meta-Llama-3-8B", "facebook/opt-1.3b",         "openai-community/gpt2", "Qwen/Qwen2.5-7B",
                                         "mistralai/Mistral-7B-v0.1",  "EleutherAI/pythia-1.4b", "google/gemma-2-9b",     "facebook/opt-125m"};
    static const char *const gpus[] = {"A100-80GB", "H100 SXM", "L4", "RTX 4090", "A100-40GB", "T4"}, *const tunings[] = {"full", "lora", "qlora"};
    char *at = body + sprintf(body, "{\"requests\":[");
    uint64_t x = 88172645463325252u;

    for (int i = 0; i < n; i++) {
        at += sprintf(at, "%s{\"model\":\"%s\",\"cluster\":{\"gpu\":\"%s\"},\"training\":{\"seq_len\":%d,\"tuning\":\"%s\"", i ? "," : "", models[x % 8],
                      gpus[(x >> 8) % 6], 24 + i, tunings[(x >> 16) % 3]);
        if (states_batch)
            at += sprintf(at, ",\"micro_batch_size\":%d", 1 << (x >> 24) % 4);
        at += sprintf(at, "}}");
        x = xorshift(x);
    }
    at += sprintf(at, "]}");
    return (size_t)(at - body);
}

struct daemon {
    pid_t pid;
    FILE *said;
    uint16_t port;
};

static bool start(const char *path, struct daemon *ret)
{
    int pipes[2];
    char line[128];
    const char *colon;

    if (pipe(pipes))
        return false;
    ret->pid = fork();
    if (!ret->pid) {
        (void)dup2(pipes[1], STDERR_FILENO);
        execl(path, path, "serve", "--offline", "--log", "none", "--listen", "127.0.0.1:0", "--event-threads", "1", "--threads", "1", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    ret->said = fdopen(pipes[0], "r");
    if (!ret->said || !fgets(line, sizeof line, ret->said) || !(colon = strrchr(line, ':')))
        return false;
    ret->port = (uint16_t)atoi(colon + 1);
    return true;
}

static double core_of(pid_t pid)
{
    clockid_t clock;

    return clock_getcpuclockid(pid, &clock) ? 0 : clock_s(clock);
}

static double resident_mb(pid_t pid)
{
    char name[64];
    unsigned long long pages = 0;
    FILE *f;

    (void)snprintf(name, sizeof name, "/proc/%d/statm", (int)pid);
    f = fopen(name, "r");
    if (!f || fscanf(f, "%*s %llu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

struct told {
    double first_s, whole_s, core_s;
    size_t bytes;
};

/* false: the connection broke, or the answer is none. */
static bool ask(const struct daemon *d, const char *body, size_t bytes, struct told *ret)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(d->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    double begin = wall_s(), core = core_of(d->pid);
    static char got[64 << 10];
    char head[256];
    ssize_t n = snprintf(head, sizeof head, "POST /estimate/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", bytes);
    bool good = !connect(fd, (struct sockaddr *)&at, sizeof at) && send(fd, head, (size_t)n, 0) == n;

    *ret = (struct told){0};
    for (size_t sent = 0; good && sent < bytes; sent += (size_t)n) {
        n = send(fd, body + sent, bytes - sent, MSG_NOSIGNAL);
        good = n > 0;
    }
    while (good && (n = recv(fd, got, sizeof got, 0)) > 0) {
        if (!ret->bytes) {
            ret->first_s = wall_s() - begin;
            good = !strncmp(got, "HTTP/1.1 200", 12);
        }
        ret->bytes += (size_t)n;
    }
    close(fd);
    ret->whole_s = wall_s() - begin;
    ret->core_s = core_of(d->pid) - core;
    return good && !n;
}

int main(void)
{
    const char *path = getenv("LLMEMD") ? getenv("LLMEMD") : "build/llmemd";
    char *body = malloc(BODY_BYTES);
    struct daemon d;

    if (!body || !start(path, &d)) {
        fprintf(stderr, "%s does not start\n", path);
        return 1;
    }
    printf("idle: %.1f MB resident; fixed loop %.2f ns a step\n", resident_mb(d.pid), reference_ns());
    for (int states = 1; states >= 0; states--) {
        int items = states ? ITEMS : ITEMS / 5;
        struct told told;

        if (!ask(&d, body, write_batch(body, items, states), &told)) {
            fprintf(stderr, "no answer\n");
            return 1;
        }
        printf("a batch of %4d distinct one-GPU items, micro_batch_size %-8s  %6.2f s of one core (%.1f ms an item); ", items, states ? "stated" : "searched",
               told.core_s, told.core_s * 1e3 / items);
        printf("first bytes after %.0f ms, all after %.2f s, %.1f MB\n", told.first_s * 1e3, told.whole_s, (double)told.bytes / 1e6);
    }
    (void)usleep(500000);
    printf("afterwards: %.1f MB resident\n", resident_mb(d.pid));
    (void)kill(d.pid, SIGTERM);
    (void)waitpid(d.pid, NULL, 0);
    fclose(d.said);
    free(body);
    return 0;
}
