#include "server/metrics.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ROUTES_MAX = 40, CLASSES = 6, BUCKETS = 14, TIERS = 9 };

static const char *const methods[VERBS] = {"GET", "HEAD", "POST", "OPTIONS", "other"};
static const char *const classes[CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
static const char *const tiers[TIERS] = {"none", "answer", "memory", "directory", "disk", "hf_cache", "hub", "builtin", "other"};
enum { TIER_ANSWER = 1 };
static const char *const outcome_names[OUTCOMES] = {"hit", "tables", "computed", "streamed", "refused", "failed", "none"};
static const char *const refusals[REFUSALS] = {"connections", "waiting", "queue", "batches", "rate", "deadline", "draining"};

/* Upper ends: from a cached answer to a batch of a thousand. */
static const struct {
    uint64_t us;
    const char *le;
} buckets[BUCKETS] = {
    {50, "0.00005"}, {100, "0.0001"}, {250, "0.00025"}, {1000, "0.001"},   {2500, "0.0025"},   {5000, "0.005"},    {10000, "0.01"},
    {25000, "0.025"}, {50000, "0.05"}, {100000, "0.1"},  {250000, "0.25"}, {1000000, "1"},     {5000000, "5"},     {30000000, "30"},
};

/* Events of work: a small model on one GPU; the ends of the workers' lanes; the default budget. */
enum { WORK_BUCKETS = 8 };
static const uint64_t work_buckets[WORK_BUCKETS] = {20000, 100000, 500000, 2000000, 6000000, 10000000, 20000000, 100000000};

struct durations {
    atomic_ullong bucket[BUCKETS + 1], us; /* the last: slower than all */
};

struct route_row {
    const char *_Atomic name;
    atomic_ullong requests[VERBS][CLASSES];
    struct durations took;
    atomic_ullong work[WORK_BUCKETS + 1], events; /* the last: more than the buckets hold */
};

struct metrics {
    struct route_row rows[ROUTES_MAX];
    struct durations by_outcome[OUTCOMES];
    atomic_ullong tiers[TIERS], refused[REFUSALS], batch_items[BATCH_OUTCOMES];
    pthread_mutex_t lock; /* of new rows */
    double started_s;
};

static void count(atomic_ullong *n, uint64_t by)
{
    atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

static unsigned long long read_count(atomic_ullong *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

/* The row of that name, or the first empty one; the last takes what there is no room for. */
static struct route_row *row_at(struct metrics *m, const char *route, bool *ret_empty)
{
    struct route_row *r = m->rows;

    for (*ret_empty = false; r < m->rows + ROUTES_MAX - 1; r++) {
        const char *name = atomic_load_explicit(&r->name, memory_order_acquire);

        if (!name)
            *ret_empty = true;
        if (!name || name == route || !strcmp(name, route))
            return r;
    }
    return r;
}

/* Names are constants: nearly always it is the same one. */
static struct route_row *row_of(struct metrics *m, const char *route)
{
    struct route_row *r;
    bool empty;

    for (r = m->rows; r < m->rows + ROUTES_MAX - 1; r++)
        if (atomic_load_explicit(&r->name, memory_order_acquire) == route)
            return r;
    r = row_at(m, route, &empty);
    if (!empty)
        return r;
    pthread_mutex_lock(&m->lock);
    r = row_at(m, route, &empty);
    if (empty)
        atomic_store_explicit(&r->name, route, memory_order_release);
    pthread_mutex_unlock(&m->lock);
    return r;
}

static int index_of(const char *const *names, int n, const char *name)
{
    int i = 0;

    while (i < n - 1 && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static int bucket_of(uint64_t us)
{
    int b = 0;

    while (b < BUCKETS && us > buckets[b].us)
        b++;
    return b;
}

static void took(struct durations *d, int bucket, uint64_t us)
{
    count(&d->bucket[bucket], 1);
    count(&d->us, us);
}

void metrics_request(struct metrics *m, const struct metrics_of *r)
{
    int class = r->status / 100 < CLASSES ? r->status / 100 : 0, bucket = bucket_of(r->us);
    struct route_row *row = row_of(m, r->route);

    count(&row->requests[r->verb][class], 1);
    took(&row->took, bucket, r->us);
    took(&m->by_outcome[r->outcome], bucket, r->us);
    if (r->outcome != OUTCOME_HIT) /* those are counted already */
        count(&m->tiers[r->tier ? index_of(tiers, TIERS, r->tier) : 0], 1);
}

void metrics_work(struct metrics *m, const char *route, uint64_t events)
{
    struct route_row *r = row_of(m, route);
    int b = 0;

    while (b < WORK_BUCKETS && events > work_buckets[b])
        b++;
    count(&r->work[b], 1);
    count(&r->events, events);
}

void metrics_refused(struct metrics *m, enum refusal why)
{
    count(&m->refused[why], 1);
}

void metrics_batch_item(struct metrics *m, enum batch_outcome what)
{
    count(&m->batch_items[what], 1);
}

/* --- the page --------------------------------------------------------------------------------------------------------------------- */

static void line(struct buf *out, const char *fmt, ...) PRINTF(2, 3);
static void line(struct buf *out, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_str(out, text);
    buf_char(out, '\n');
}

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
    line(out, "# HELP %s %s", name, help);
    line(out, "# TYPE %s %s", name, type);
}

static void single(struct buf *out, const char *name, const char *type, uint64_t value, const char *help)
{
    family(out, name, type, help);
    line(out, "%s %llu", name, (unsigned long long)value);
}

static void write_requests(struct metrics *m, struct buf *out)
{
    family(out, "llmemd_requests_total", "counter", "Requests that have ended, by route template, method and class of status.");
    for (struct route_row *r = m->rows; r < m->rows + ROUTES_MAX; r++) {
        const char *name = atomic_load_explicit(&r->name, memory_order_acquire);

        for (int i = 0; name && i < VERBS * CLASSES; i++) {
            unsigned long long n = read_count(&r->requests[i / CLASSES][i % CLASSES]);

            if (n)
                line(out, "llmemd_requests_total{route=\"%s\",method=\"%s\",status=\"%s\"} %llu", name, methods[i / CLASSES], classes[i % CLASSES], n);
        }
    }
}

static void write_durations(struct durations *d, const char *family_name, const char *label, const char *name, struct buf *out)
{
    unsigned long long sum = 0, us;

    for (int b = 0; b < BUCKETS; b++) {
        sum += read_count(&d->bucket[b]);
        line(out, "%s_bucket{%s=\"%s\",le=\"%s\"} %llu", family_name, label, name, buckets[b].le, sum);
    }
    sum += read_count(&d->bucket[BUCKETS]);
    us = read_count(&d->us);
    line(out, "%s_bucket{%s=\"%s\",le=\"+Inf\"} %llu", family_name, label, name, sum);
    line(out, "%s_sum{%s=\"%s\"} %llu.%06llu", family_name, label, name, us / 1000000, us % 1000000);
    line(out, "%s_count{%s=\"%s\"} %llu", family_name, label, name, sum);
}

static void write_histograms(struct metrics *m, struct buf *out)
{
    static const char by_route[] = "llmemd_request_duration_seconds", by_outcome[] = "llmemd_outcome_duration_seconds";

    family(out, by_route, "histogram", "From the first byte of a request to the last of its answer.");
    for (struct route_row *r = m->rows; r < m->rows + ROUTES_MAX; r++) {
        const char *name = atomic_load_explicit(&r->name, memory_order_acquire);

        if (name)
            write_durations(&r->took, by_route, "route", name, out);
    }
    family(out, by_outcome, "histogram",
           "The same by what became of it: answered from the cache (hit), from tables, computed, streamed; refused (4xx), failed (5xx), unread (none).");
    for (int i = 0; i < OUTCOMES; i++)
        write_durations(&m->by_outcome[i], by_outcome, "outcome", outcome_names[i], out);
}

static unsigned long long durations_count(struct durations *d)
{
    unsigned long long n = 0;

    for (int b = 0; b <= BUCKETS; b++)
        n += read_count(&d->bucket[b]);
    return n;
}

static bool has_work(struct route_row *r)
{
    unsigned long long n = 0;

    for (int b = 0; b <= WORK_BUCKETS; b++)
        n += read_count(&r->work[b]);
    return n;
}

static void write_events(struct route_row *r, const char *name, struct buf *out)
{
    unsigned long long sum = 0;

    for (int b = 0; b < WORK_BUCKETS; b++) {
        sum += read_count(&r->work[b]);
        line(out, "llmemd_work_events_bucket{route=\"%s\",le=\"%llu\"} %llu", name, (unsigned long long)work_buckets[b], sum);
    }
    sum += read_count(&r->work[WORK_BUCKETS]);
    line(out, "llmemd_work_events_bucket{route=\"%s\",le=\"+Inf\"} %llu", name, sum);
    line(out, "llmemd_work_events_sum{route=\"%s\"} %llu", name, read_count(&r->events));
    line(out, "llmemd_work_events_count{route=\"%s\"} %llu", name, sum);
}

static void write_work(struct metrics *m, struct buf *out)
{
    family(out, "llmemd_work_events", "histogram", "What an answer took to be computed, in events of its budget; items of batches by themselves.");
    for (struct route_row *r = m->rows; r < m->rows + ROUTES_MAX; r++) {
        const char *name = atomic_load_explicit(&r->name, memory_order_acquire);

        if (name && has_work(r))
            write_events(r, name, out);
    }
}

static void write_lanes(const struct workers_counts *w, struct buf *out)
{
    static const char *const lanes[LANES] = {"first", "second", "last"};

    family(out, "llmemd_lane_busy", "gauge", "Threads that compute an answer now, by the lane that its work so far has brought it to.");
    for (int i = 0; i < LANES; i++)
        line(out, "llmemd_lane_busy{lane=\"%s\"} %u", lanes[i], w->lane_busy[i]);
    single(out, "llmemd_jobs_begun_anew_total", "counter", w->begun_anew, "Answers that were put off for the sake of cheaper ones and begun anew.");
}

static void write_tiers(struct metrics *m, struct buf *out)
{
    family(out, "llmemd_answers_total", "counter", "Answers by where they came from: the answer cache, or else the dearest source of a config.");
    for (int i = 0; i < TIERS; i++) {
        unsigned long long n = i == TIER_ANSWER ? durations_count(&m->by_outcome[OUTCOME_HIT]) : read_count(&m->tiers[i]);

        line(out, "llmemd_answers_total{tier=\"%s\"} %llu", tiers[i], n);
    }
    family(out, "llmemd_refused_total", "counter", "Requests that were refused for the sake of others, by what was exhausted.");
    for (int i = 0; i < REFUSALS; i++)
        line(out, "llmemd_refused_total{reason=\"%s\"} %llu", refusals[i], read_count(&m->refused[i]));
}

static void write_batches(struct metrics *m, unsigned now, struct buf *out)
{
    static const char *const outcomes[BATCH_OUTCOMES] = {"computed", "cached", "repeated", "problem", "refused"};

    single(out, "llmemd_batches", "gauge", now, "Batches that are being answered.");
    family(out, "llmemd_batch_items_total", "counter", "Items of batches whose turn has come, by what became of them.");
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        line(out, "llmemd_batch_items_total{outcome=\"%s\"} %llu", outcomes[i], read_count(&m->batch_items[i]));
}

static void write_hub(const struct hub_counts *h, struct buf *out)
{
    const struct {
        const char *tier;
        uint64_t n;
    } by[] = {{"memory", h->memory}, {"directory", h->directory}, {"disk", h->disk},    {"hf_cache", h->hf_cache},
              {"hub", h->hub},       {"builtin", h->builtin},     {"failed", h->failed}};

    family(out, "llmemd_configs_total", "counter", "Model configs that were asked for, by where they were found.");
    for (size_t i = 0; i < sizeof by / sizeof *by; i++)
        line(out, "llmemd_configs_total{tier=\"%s\"} %llu", by[i].tier, (unsigned long long)by[i].n);
    single(out, "llmemd_hub_transfers_total", "counter", h->transfers, "Requests sent to the hub.");
    single(out, "llmemd_hub_transfer_errors_total", "counter", h->transfer_errors, "Requests to the hub without a usable answer.");
    single(out, "llmemd_hub_limited_total", "counter", h->limited, "Times the hub limited this service.");
}

/* statm counts pages; the second figure is what is resident. */
static uint64_t resident_bytes(void)
{
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &all, &resident) != 2)
        resident = 0;
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_process(const struct metrics *m, struct buf *out)
{
    struct rusage u;

    family(out, "llmemd_build_info", "gauge", "The version that is running.");
    line(out, "llmemd_build_info{version=\"" LLMEMD_VERSION "\"} 1");
    family(out, "process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.");
    line(out, "process_start_time_seconds %.3f", m->started_s);
    single(out, "process_resident_memory_bytes", "gauge", resident_bytes(), "Memory that is resident.");
    if (getrusage(RUSAGE_SELF, &u))
        return;
    family(out, "process_cpu_seconds_total", "counter", "Time of processors, user and system.");
    line(out, "process_cpu_seconds_total %.6f", (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
}

void metrics_write(struct metrics *m, const struct metrics_now *now, struct buf *out)
{
    write_process(m, out);
    write_requests(m, out);
    write_histograms(m, out);
    write_work(m, out);
    write_tiers(m, out);
    write_batches(m, now->batches, out);
    write_hub(&now->hub, out);
    single(out, "llmemd_connections", "gauge", now->connections, "Open connections.");
    single(out, "llmemd_requests_in_flight", "gauge", now->in_flight, "Requests that are being read or answered.");
    single(out, "llmemd_requests_waiting", "gauge", now->waiting, "Requests that wait for a config or a worker.");
    single(out, "llmemd_workers", "gauge", now->workers.threads, "Threads that compute answers.");
    single(out, "llmemd_workers_busy", "gauge", now->workers.busy, "Threads that compute an answer now.");
    write_lanes(&now->workers, out);
    single(out, "llmemd_queue_length", "gauge", now->workers.queued, "Answers that wait for a worker.");
    single(out, "llmemd_answer_cache_entries", "gauge", now->answers.entries, "Answers in the cache.");
    single(out, "llmemd_answer_cache_bytes", "gauge", now->answers.bytes, "Memory of the answers in the cache, with their keys.");
    single(out, "llmemd_answer_cache_dropped_total", "counter", now->answers.dropped, "Answers that left the cache for want of room.");
    single(out, "llmemd_log_lines_dropped_total", "counter", now->log_dropped, "Lines of the log that nobody read in time.");
    single(out, "llmemd_draining", "gauge", now->draining, "1 while the service is going away.");
}

struct metrics *metrics_new(void)
{
    struct metrics *m = calloc(1, sizeof *m);
    struct timespec now;

    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    m->started_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    return m;
}

void metrics_free(struct metrics *m)
{
    free(m);
}
