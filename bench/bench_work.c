/*
 * bench_work.c - the questions that take longest, each with the whole budget, and what those who ask little notice of them. Goals: 2 s of one core; the p99 of
 * a cheap cold answer beside eight of them at most three times its p99 alone.
 *
 *   LLMEMD=build/llmemd build/bench/bench_work          reads tests/data/worst.jsonl
 */
#include "tests/support/programs.h"
#include "api/api.h"
#include "bench/measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 16 << 10, WORST_MAX = 64, DEAR = 8, CHEAP = 300 };

static struct {
    char name[64], *body;
} worst[WORST_MAX];
static int n_worst;

static bool read_worst(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[LINE_BYTES];

    while (f && n_worst < WORST_MAX && fgets(line, sizeof line, f)) {
        char *request = strstr(line, "\"request\": ");

        if (!request || sscanf(line, "{\"name\": \"%63[^\"]", worst[n_worst].name) != 1)
            return false;
        request += strlen("\"request\": ");
        worst[n_worst].body = strndup(request, strlen(request) - 2);
        n_worst++;
    }
    return f && !fclose(f) && n_worst;
}

/* --- alone ------------------------------------------------------------------------------------------------------------------------ */

static double longest_s;

static void measure_one(void *block, int i)
{
    struct budget work = {.limit_events = API_WORK_EVENTS};
    struct arena arena;
    struct api_request rq = {.method = "POST",
                             .path = "/estimate",
                             .body = worst[i].body,
                             .body_bytes = strlen(worst[i].body),
                             .arena = &arena,
                             .library = programs_library,
                             .budget = &work};
    struct api_response r;
    double begin = core_s(), s;

    arena_init(&arena, block, API_ARENA_BYTES);
    api_answer(&rq, NULL, 0, &r);
    s = core_s() - begin;
    longest_s = s > longest_s ? s : longest_s;
    printf("%6.2f s  %9llu events  %4.0f ns each  %d%s  %s\n", s, (unsigned long long)work.events, s * 1e9 / (double)(work.events ? work.events : 1), r.status,
           work.events > work.limit_events ? " partial" : "", worst[i].name);
}

/* --- beside others ---------------------------------------------------------------------------------------------------------------- */

static pid_t pid;
static uint16_t port;
static atomic_bool stop;
static atomic_int dear_answers;

static bool start(const char *path)
{
    int pipes[2];
    char line[128];
    const char *colon;
    FILE *said;

    if (pipe(pipes))
        return false;
    pid = fork();
    if (!pid) {
        (void)dup2(pipes[1], STDERR_FILENO);
        execl(path, path, "serve", "--offline", "--log", "none", "--answers", "0", "--listen", "127.0.0.1:0", (char *)NULL);
        _exit(127);
    }
    said = fdopen(pipes[0], "r");
    if (!said || !fgets(line, sizeof line, said) || !(colon = strrchr(line, ':')))
        return false;
    port = (uint16_t)atoi(colon + 1);
    return true;
}

/* A connection of its own; the seconds to the last byte, or negative. */
static double ask(const char *body)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    double begin = wall_s();
    char got[16 << 10], *all;
    bool good = !connect(fd, (struct sockaddr *)&at, sizeof at);
    ssize_t n = asprintf(&all, "POST /estimate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    bool first = true;

    good = good && n > 0 && send(fd, all, (size_t)n, MSG_NOSIGNAL) == n;
    free(all);
    while (good && (n = recv(fd, got, sizeof got, 0)) > 0) {
        good = !first || !strncmp(got, "HTTP/1.1 200", 12);
        first = false;
    }
    close(fd);
    return good && !first ? wall_s() - begin : -1;
}

static void *ask_dear(void *arg)
{
    int i = (int)(intptr_t)arg;

    while (!atomic_load(&stop)) {
        if (ask(worst[i % n_worst].body) > 0)
            atomic_fetch_add(&dear_answers, 1);
        i += DEAR;
    }
    return NULL;
}

/* Sorted; p99 is the third from the top. */
static bool ask_cheap(double *ret)
{
    char body[256];

    for (int i = 0; i < CHEAP; i++) {
        (void)snprintf(body, sizeof body, "{\"model\":\"meta-llama/Meta-Llama-3-8B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"seq_len\":%d,"
                       "\"micro_batch_size\":1,\"gradient_checkpointing\":true,\"tuning\":\"full\"}}", 512 + i);
        ret[i] = ask(body);
        if (ret[i] < 0)
            return false;
        (void)usleep(2000);
    }
    (void)median(ret, CHEAP);
    return true;
}

static void tell(const char *what, const double *s)
{
    printf("a cheap cold answer %-40s p50 %6.1f ms, p90 %6.1f ms, p99 %6.1f ms, most %6.1f ms\n", what, 1e3 * s[CHEAP / 2], 1e3 * s[CHEAP * 9 / 10],
           1e3 * s[CHEAP * 99 / 100], 1e3 * s[CHEAP - 1]);
}

static bool measure_beside(const char *path)
{
    double alone[CHEAP], beside[CHEAP];
    pthread_t threads[DEAR];
    bool good = start(path) && ask_cheap(alone) && ask_cheap(alone);

    for (intptr_t i = 0; i < DEAR; i++)
        good = !pthread_create(&threads[i], NULL, ask_dear, (void *)i) && good;
    (void)sleep(1);
    good = good && ask_cheap(beside);
    if (good) {
        tell("alone", alone);
        tell("beside eight of the dearest questions", beside);
        printf("p99 beside : alone %.2f (goal 3); %d dear ones were answered meanwhile\n", beside[CHEAP * 99 / 100] / alone[CHEAP * 99 / 100],
               atomic_load(&dear_answers));
    }
    atomic_store(&stop, true);
    (void)kill(pid, SIGKILL);
    for (int i = 0; i < DEAR; i++)
        pthread_join(threads[i], NULL);
    (void)waitpid(pid, NULL, 0);
    return good;
}

int main(void)
{
    const char *path = getenv("LLMEMD") ? getenv("LLMEMD") : "build/llmemd";
    void *block = malloc(API_ARENA_BYTES);

    if (!block || !read_worst("tests/data/worst.jsonl")) {
        fprintf(stderr, "no questions\n");
        return 1;
    }
    for (int i = 0; i < n_worst; i++)
        measure_one(block, i);
    printf("the longest %.2f s of one core (goal 2); fixed loop %.2f ns a step\n", longest_s, reference_ns());
    return measure_beside(path) ? 0 : 1;
}
