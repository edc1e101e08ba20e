#include "server/service.h"

#include "server/installed.h"
#include "server/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CORES_MAX = 256 };

unsigned service_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > CORES_MAX ? CORES_MAX : (unsigned)n;
}

static bool is_directory(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

struct hub *service_hub(const struct options *o, uint64_t *ret_fresh_ms)
{
    struct hub_options h;
    struct hub *hub;

    if (o->models && !is_directory(o->models)) {
        fprintf(stderr, "llmemd: --models: %s is no directory\n", o->models);
        return NULL;
    }
    if (!hub_options_read(&h))
        return NULL;
    h.models = o->models;
    h.cache_dir = o->cache_dir;
    h.offline |= o->offline;
    h.share_token = o->share_token;
    h.connect_ms = o->hub_connect_ms ? o->hub_connect_ms : h.connect_ms;
    h.total_ms = o->hub_total_ms ? o->hub_total_ms : h.total_ms;
    h.fresh_s = o->hub_fresh_s ? o->hub_fresh_s : h.fresh_s;
    *ret_fresh_ms = h.fresh_s * 1000ull;
    hub = hub_new(&h);
    hub_options_release(&h);
    return hub;
}

static enum log_format log_format_of(const char *word)
{
    return !strcmp(word, "json") ? LOG_JSON : !strcmp(word, "none") ? LOG_NONE : LOG_LOGFMT;
}

static bool complain(const char *what)
{
    fprintf(stderr, "llmemd: %s\n", what);
    return false;
}

bool service_open(struct service *s, const struct options *o)
{
    *s = (struct service){.o = o};
    if (!installed_open(o->installed))
        return false;
    s->hub = service_hub(o, &s->fresh_ms);
    if (!s->hub)
        return false;
    if (!hash_key_draw(&s->key))
        return complain("the system gives no random numbers");
    s->log = log_new(log_format_of(o->log), STDERR_FILENO);
    s->metrics = metrics_new();
    s->workers = workers_new(o->threads ? o->threads : service_cores(), o->queue, o->work_budget);
    s->answers = answers_new(o->answers, (size_t)o->answers_mib << 20);
    s->limit = limit_new(o->rate);
    if (!s->log || !s->metrics || !s->workers || (o->answers && !s->answers) || (o->rate && !s->limit))
        return complain("no memory or threads for what the options ask");
    return true;
}

void service_reload(struct service *s)
{
    hub_reload(s->hub);
    if (s->answers)
        answers_forget(s->answers);
    memory_trim(true);
    fprintf(stderr, "reloaded\n");
}

void service_admit(struct service *s, unsigned connections)
{
    unsigned most = connections - connections / 4;

    s->crowd = (struct crowd){.max = connections,
                              .per_address = s->o->per_address ? s->o->per_address : most,
                              .spare = SPARE,
                              .exempt = s->o->proxies,
                              .key = s->key};
    s->admin_crowd = (struct crowd){.max = ADMIN_CONNECTIONS, .per_address = ADMIN_CONNECTIONS, .spare = ADMIN_CONNECTIONS, .key = s->key};
}

void service_close(struct service *s)
{
    workers_free(s->workers);
    answers_free(s->answers);
    limit_free(s->limit);
    metrics_free(s->metrics);
    log_free(s->log);
    if (s->hub)
        hub_free(s->hub);
    installed_close();
}

void service_metrics(struct service *s, struct buf *out)
{
    struct metrics_now now = {.connections = s->crowd.open,
                              .in_flight = s->in_flight,
                              .waiting = s->waiting,
                              .batches = s->batches,
                              .draining = s->is_draining,
                              .log_dropped = log_dropped(s->log)};

    workers_counts_read(s->workers, &now.workers);
    answers_counts_read(s->answers, &now.answers);
    hub_counts_read(s->hub, &now.hub);
    metrics_write(s->metrics, &now, out);
}
