#include "server/log.h"

#include "base/jsonw.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOG_BYTES = 1 << 20, LINE_BYTES = 1024, GATHER_NS = 20000000, PATIENCE_MS = 500, STAMP_BYTES = sizeof "0000-00-00T00:00:00.000Z" };

struct log {
    enum log_format format;
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    bool started, asleep, ending;
    size_t bytes; /* waiting in `fill` */
    uint64_t dropped;
    char *fill, *drain; /* LOG_BYTES each: one is filled while the other is written */
};

/* --- the writer ------------------------------------------------------------------------------------------------------------------- */

static bool is_ending(struct log *l)
{
    bool ending;

    pthread_mutex_lock(&l->lock);
    ending = l->ending;
    pthread_mutex_unlock(&l->lock);
    return ending;
}

/* In pieces that a pipe with room takes whole: whoever stops reading does not hold up the end of the process. */
static void write_all(struct log *l, const char *data, size_t bytes)
{
    struct pollfd ready = {.fd = l->fd, .events = POLLOUT};

    while (bytes) {
        ssize_t n;

        if (poll(&ready, 1, PATIENCE_MS) == 0) {
            if (is_ending(l))
                return;
            continue;
        }
        n = write(l->fd, data, bytes < PIPE_BUF ? bytes : PIPE_BUF);
        if (n < 0)
            return; /* nobody reads any more: there is nobody to tell */
        data += n;
        bytes -= (size_t)n;
    }
}

/* Sleeps until there is something, then a moment longer: many lines go out in one write. */
static size_t next_lot(struct log *l, bool *ret_ending)
{
    static const struct timespec gather = {.tv_nsec = GATHER_NS};
    size_t n;
    char *full;

    pthread_mutex_lock(&l->lock);
    l->asleep = true;
    while (!l->bytes && !l->ending)
        pthread_cond_wait(&l->filled, &l->lock);
    l->asleep = false;
    if (!l->ending) {
        pthread_mutex_unlock(&l->lock);
        nanosleep(&gather, NULL);
        pthread_mutex_lock(&l->lock);
    }
    n = l->bytes;
    full = l->fill;
    l->fill = l->drain;
    l->drain = full;
    l->bytes = 0;
    *ret_ending = l->ending;
    pthread_mutex_unlock(&l->lock);
    return n;
}

static void *run(void *arg)
{
    struct log *l = arg;
    bool ending = false;

    while (!ending) {
        size_t n = next_lot(l, &ending);

        write_all(l, l->drain, n);
    }
    return NULL;
}

static void put(struct log *l, const struct buf *line)
{
    bool wake = false;

    if (!buf_ok(line))
        return;
    pthread_mutex_lock(&l->lock);
    if (line->bytes > LOG_BYTES - l->bytes) {
        l->dropped++;
    } else {
        memcpy(l->fill + l->bytes, line->data, line->bytes);
        l->bytes += line->bytes;
        wake = l->asleep;
        l->asleep = false;
    }
    pthread_mutex_unlock(&l->lock);
    if (wake)
        pthread_cond_signal(&l->filled);
}

/* --- lines ------------------------------------------------------------------------------------------------------------------------ */

static void digits(char *at, unsigned value, int n)
{
    for (int i = n - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
}

/* RFC 3339 in UTC. By hand: strftime takes as long as the rest of a line. The calendar is Hinnant's civil_from_days. */
static void stamp(char ret[STAMP_BYTES])
{
    struct timespec now;
    unsigned seconds, day, era, of_era, year_of_era, day_of_year, m;

    clock_gettime(CLOCK_REALTIME, &now);
    seconds = (unsigned)(now.tv_sec % 86400);
    day = (unsigned)(now.tv_sec / 86400) + 719468;
    era = day / 146097;
    of_era = day % 146097;
    year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    m = (5 * day_of_year + 2) / 153;
    memcpy(ret, "0000-00-00T00:00:00.000Z", STAMP_BYTES);
    digits(ret, year_of_era + era * 400 + (m >= 10), 4);
    digits(ret + 5, m < 10 ? m + 3 : m - 9, 2);
    digits(ret + 8, day_of_year - (153 * m + 2) / 5 + 1, 2);
    digits(ret + 11, seconds / 3600, 2);
    digits(ret + 14, seconds / 60 % 60, 2);
    digits(ret + 17, seconds % 60, 2);
    digits(ret + 20, (unsigned)(now.tv_nsec / 1000000), 3);
}

/* A word as it stands; anything else in quotes. */
static void pair(struct buf *b, const char *name, const char *value)
{
    if (!value)
        return;
    if (b->bytes)
        buf_char(b, ' ');
    buf_str(b, name);
    buf_char(b, '=');
    if (value[0] && !strpbrk(value, " \"=\\\n")) {
        buf_str(b, value);
        return;
    }
    buf_char(b, '"');
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            buf_char(b, '\\');
        buf_char(b, *value == '\n' ? ' ' : *value);
    }
    buf_char(b, '"');
}

static void pair_u64(struct buf *b, const char *name, uint64_t value)
{
    buf_char(b, ' ');
    buf_str(b, name);
    buf_char(b, '=');
    buf_u64(b, value);
}

static void request_logfmt(struct buf *b, const char *at, const struct log_request *r)
{
    pair(b, "ts", at);
    pair(b, "id", r->id);
    pair(b, "method", r->method);
    pair(b, "route", r->route);
    pair_u64(b, "status", (uint64_t)r->status);
    pair(b, "code", r->code);
    pair(b, "cache", r->cache);
    pair(b, "tier", r->tier);
    pair_u64(b, "in_bytes", r->in_bytes);
    pair_u64(b, "out_bytes", r->out_bytes);
    pair_u64(b, "us", r->us);
    pair(b, "end", r->end);
}

static void member(struct jsonw *w, const char *name, const char *value)
{
    if (value)
        jsonw_str(w, name, value);
}

static void request_json(struct buf *b, const char *at, const struct log_request *r)
{
    struct jsonw w;

    jsonw_init(&w, b, false);
    jsonw_object(&w, NULL);
    member(&w, "ts", at);
    member(&w, "id", r->id);
    member(&w, "method", r->method);
    member(&w, "route", r->route);
    jsonw_u64(&w, "status", (uint64_t)r->status);
    member(&w, "code", r->code);
    member(&w, "cache", r->cache);
    member(&w, "tier", r->tier);
    jsonw_u64(&w, "in_bytes", r->in_bytes);
    jsonw_u64(&w, "out_bytes", r->out_bytes);
    jsonw_u64(&w, "us", r->us);
    member(&w, "end", r->end);
    jsonw_end(&w);
}

void log_request(struct log *l, const struct log_request *r)
{
    char text[LINE_BYTES], at[STAMP_BYTES];
    struct buf b;

    if (l->format == LOG_NONE)
        return;
    buf_init_fixed(&b, text, sizeof text);
    stamp(at);
    (l->format == LOG_JSON ? request_json : request_logfmt)(&b, at, r);
    buf_char(&b, '\n');
    put(l, &b);
}

void log_note(struct log *l, const char *level, const char *fmt, ...)
{
    char text[LINE_BYTES], what[LINE_BYTES / 2], at[STAMP_BYTES];
    struct buf b;
    struct jsonw w;
    va_list args;

    if (l->format == LOG_NONE)
        return;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    buf_init_fixed(&b, text, sizeof text);
    stamp(at);
    if (l->format == LOG_JSON) {
        jsonw_init(&w, &b, false);
        jsonw_object(&w, NULL);
        member(&w, "ts", at);
        member(&w, "level", level);
        member(&w, "message", what);
        jsonw_end(&w);
    } else {
        pair(&b, "ts", at);
        pair(&b, "level", level);
        pair(&b, "message", what);
    }
    buf_char(&b, '\n');
    put(l, &b);
}

uint64_t log_dropped(struct log *l)
{
    uint64_t n;

    pthread_mutex_lock(&l->lock);
    n = l->dropped;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* --- life ------------------------------------------------------------------------------------------------------------------------- */

struct log *log_new(enum log_format format, int fd)
{
    struct log *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->format = format;
    l->fd = fd;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    if (format == LOG_NONE)
        return l;
    l->fill = malloc(LOG_BYTES);
    l->drain = malloc(LOG_BYTES);
    l->started = l->fill && l->drain && !pthread_create(&l->thread, NULL, run, l);
    if (l->started)
        return l;
    log_free(l);
    return NULL;
}

void log_free(struct log *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->ending = true;
        pthread_mutex_unlock(&l->lock);
        pthread_cond_signal(&l->filled);
        pthread_join(l->thread, NULL);
    }
    free(l->fill);
    free(l->drain);
    free(l);
}
