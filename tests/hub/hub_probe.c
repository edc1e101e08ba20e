/*
 * hub_probe - the hub client on a string: commands on standard input, one JSON line an answer on standard output.
 *
 *   hub_probe [--loops N] [--models DIR] [--cache-dir DIR] [--share-token] [--total-ms N] [--connect-ms N] [--fresh-s N] [--absent-s N] [--down-s N]
 *
 *   ask N MODEL REVISION TOKEN [FILE]   N times at once, spread over the loops; "-" is none; a file of code. Then N lines and "done MILLISECONDS"
 *   open N MODEL REVISION TOKEN    the same without waiting for it
 *   leave I                        ends loop I, whatever it waits for
 *   wait                           for all that is open: its lines, and "done"
 *   counts                         hub_counts as one line
 *
 * The rest is the environment's, as hub_options_read() reads it.
 */
#include "base/jsonw.h"
#include "server/hub/hub.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOPS_MAX = 16 };

struct question {
    struct question *next;
    char model[512], revision[512], token[2048], file[128];
};

struct loop {
    pthread_t thread;
    struct hub_loop *hub;
    pthread_mutex_t lock;
    struct question *first;
    bool stop, gone;
};

static struct loop loops[LOOPS_MAX];
static unsigned n_loops = 1;

/* What has been answered since the last "done". */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned open_asks;

static unsigned crc(const char *text, size_t n)
{
    unsigned h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

static void write_config(struct jsonw *w, const struct hub_config *c)
{
    jsonw_str(w, "model", c->model);
    jsonw_str(w, "source", c->source);
    jsonw_str(w, "tier", c->tier);
    jsonw_str(w, "commit", c->commit);
    jsonw_str(w, "note", c->note);
    jsonw_u64(w, "parameters", c->parameters);
    jsonw_bool(w, "is_private", c->is_private);
    jsonw_u64(w, "bytes", c->bytes);
    jsonw_u64(w, "crc", c->text ? crc(c->text, c->bytes) : 0);
    jsonw_str_n(w, "text", c->text ? c->text : "", c->bytes < 200 ? c->bytes : 200);
    jsonw_str(w, "error", c->text ? NULL : err_slug(c->err.code));
    jsonw_str(w, "detail", c->text ? NULL : c->err.detail);
    jsonw_u64(w, "retry_after_s", c->retry_after_s);
}

static void on_answer(void *arg, const struct hub_config *c)
{
    static char block[16384];
    struct buf out;
    struct jsonw w;

    pthread_mutex_lock(&lock);
    buf_init_fixed(&out, block, sizeof block);
    jsonw_init(&w, &out, false);
    jsonw_object(&w, NULL);
    jsonw_str(&w, "how", arg);
    write_config(&w, c);
    jsonw_end(&w);
    puts(buf_text(&out));
    hub_give_back(c);
    open_asks--;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void put(struct loop *l, struct question *q)
{
    const char *token = strcmp(q->token, "-") != 0 ? q->token : NULL;
    const struct hub_request rq = {.model = q->model, .revision = q->revision, .token = token, .file = q->file[0] ? q->file : NULL};
    const struct hub_config *c = NULL;

    if (hub_ask(l->hub, &rq, on_answer, "later", &c))
        on_answer("at once", c);
    free(q);
}

static void *turn(void *arg)
{
    struct loop *l = arg;
    bool stop;

    do {
        struct question *q;

        hub_loop_wait(l->hub, -1, 5000);
        pthread_mutex_lock(&l->lock);
        q = l->first;
        l->first = NULL;
        stop = l->stop;
        pthread_mutex_unlock(&l->lock);
        for (struct question *next; q; q = next) {
            next = q->next;
            put(l, q);
        }
        hub_loop_turn(l->hub);
    } while (!stop);
    hub_loop_free(l->hub);
    return NULL;
}

static void give(unsigned i, const struct question *asked)
{
    struct loop *l = &loops[i % n_loops];
    struct question *q = malloc(sizeof *q);

    while (l->gone)
        l = &loops[++i % n_loops];
    if (!q)
        abort();
    *q = *asked;
    pthread_mutex_lock(&lock);
    open_asks++;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&l->lock);
    q->next = l->first;
    l->first = q;
    hub_loop_wake(l->hub); /* within the lock: the loop may end itself as soon as it has it */
    pthread_mutex_unlock(&l->lock);
}

static void leave(unsigned i)
{
    struct loop *l = &loops[i];

    pthread_mutex_lock(&l->lock);
    l->stop = true;
    hub_loop_wake(l->hub);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->gone = true;
}

static void wait_all(const struct timespec *since)
{
    struct timespec now;

    pthread_mutex_lock(&lock);
    while (open_asks)
        pthread_cond_wait(&changed, &lock);
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("done %ld\n", (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000);
    (void)fflush(stdout);
    pthread_mutex_unlock(&lock);
}

static void tell_counts(struct hub *h)
{
    struct hub_counts n;

    hub_counts_read(h, &n);
    printf("{\"memory\":%llu,\"disk\":%llu,\"hf_cache\":%llu,\"hub\":%llu,\"builtin\":%llu,\"failed\":%llu,\"transfers\":%llu,"
           "\"transfer_errors\":%llu,\"limited\":%llu}\n",
           (unsigned long long)n.memory, (unsigned long long)n.disk, (unsigned long long)n.hf_cache, (unsigned long long)n.hub,
           (unsigned long long)n.builtin, (unsigned long long)n.failed, (unsigned long long)n.transfers,
           (unsigned long long)n.transfer_errors, (unsigned long long)n.limited);
    (void)fflush(stdout);
}

static void obey(struct hub *h, const char *line)
{
    struct question q = {0};
    struct timespec since;
    char word[16];
    unsigned n;

    clock_gettime(CLOCK_MONOTONIC, &since);
    if (sscanf(line, "%15s %u %511s %511s %2047s %127s", word, &n, q.model, q.revision, q.token, q.file) >= 5) {
        for (unsigned i = 0; i < n; i++)
            give(i, &q);
        if (!strcmp(word, "ask"))
            wait_all(&since);
    } else if (sscanf(line, "leave %u", &n) == 1 && n < n_loops) {
        leave(n);
    } else if (!strncmp(line, "wait", 4)) {
        wait_all(&since);
    } else if (!strncmp(line, "counts", 6)) {
        tell_counts(h);
    }
}

static bool read_flags(int argc, char **argv, struct hub_options *o)
{
    const struct {
        const char *name;
        unsigned *at;
    } numbers[] = {{"--loops", &n_loops},      {"--total-ms", &o->total_ms}, {"--connect-ms", &o->connect_ms},
                   {"--fresh-s", &o->fresh_s}, {"--absent-s", &o->absent_s}, {"--down-s", &o->down_s}};

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--share-token"))
            o->share_token = true;
        else if (!strcmp(argv[i], "--models") && i + 1 < argc)
            o->models = argv[++i];
        else if (!strcmp(argv[i], "--cache-dir") && i + 1 < argc)
            o->cache_dir = argv[++i];
        else
            for (size_t k = 0; k < sizeof numbers / sizeof *numbers && i + 1 < argc; k++)
                if (!strcmp(argv[i], numbers[k].name))
                    *numbers[k].at = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
    return n_loops >= 1 && n_loops <= LOOPS_MAX;
}

static bool start(struct hub *h)
{
    for (unsigned i = 0; i < n_loops; i++) {
        pthread_mutex_init(&loops[i].lock, NULL);
        loops[i].hub = hub_loop_new(h);
        if (!loops[i].hub || pthread_create(&loops[i].thread, NULL, turn, &loops[i]))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct hub_options o;
    struct hub *h;
    char line[4096];

    (void)signal(SIGPIPE, SIG_IGN);
    if (!hub_options_read(&o) || !read_flags(argc, argv, &o))
        return 2;
    h = hub_new(&o);
    hub_options_release(&o);
    if (!h || !start(h))
        return 1;
    while (fgets(line, sizeof line, stdin))
        obey(h, line);
    for (unsigned i = 0; i < n_loops; i++)
        if (!loops[i].gone)
            leave(i);
    hub_free(h);
    return 0;
}
