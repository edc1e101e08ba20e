#include "server/log.h"

#include "server/clock.h"
#include "server/log_line.h"
#include "server/thread.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOG_BYTES = 1 << 20, LINE_BYTES = 1024, OUT_BYTES = 16 << 10, GATHER_MS = 50, HURRY_BYTES = 64 << 10, PATIENCE_MS = 500 };

/* What one line tells, as it waits. Behind it stand texts, each with its zero: id, method and trace of a request, level and message of a note. */
struct record {
    size_t bytes;         /* with its texts, a multiple of its alignment */
    size_t second, third; /* where these texts begin */
    bool is_note;
    struct log_request r;
    char texts[];
};

struct log {
    enum log_format format;
    int fd;
    bool is_socket, is_file; /* or a device that is no terminal: nobody reads it in time or too late */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    bool started, asleep, ending;
    bool is_given_up; /* the writer's: at the end nobody read, and what is left is lost */
    size_t bytes; /* of records, waiting in `fill` */
    uint64_t dropped;
    char *fill, *drain; /* LOG_BYTES each: one is filled while the other is written */
    char *out;          /* the writer's: OUT_BYTES of lines */
    struct log_stamp stamp;
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

/*
 * What is there now, or nothing: a pipe or a terminal with room takes PIPE_BUF at once, a socket says how much it takes, and a file never waits for a
 * reader. Whoever stops reading does not hold up the end of the process.
 */
static ssize_t write_some(struct log *l, const char *data, size_t bytes)
{
    if (l->is_socket)
        return send(l->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(l->fd, data, l->is_file || bytes < PIPE_BUF ? bytes : PIPE_BUF);
}

static bool has_room(struct log *l)
{
    struct pollfd ready = {.fd = l->fd, .events = POLLOUT};

    return l->is_file || poll(&ready, 1, PATIENCE_MS) != 0;
}

static void write_all(struct log *l, const char *data, size_t bytes)
{
    while (bytes && !l->is_given_up) {
        ssize_t n;

        if (!has_room(l)) {
            l->is_given_up = is_ending(l);
            continue;
        }
        n = write_some(l, data, bytes);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0)
            return; /* nobody reads any more: there is nobody to tell */
        data += n;
        bytes -= (size_t)n;
    }
}

/* With the lock: a moment in which more comes, so that many lines go out at once and who answers wakes nobody for each. */
static void gather(struct log *l)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GATHER_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!l->ending && l->bytes < HURRY_BYTES)
        if (pthread_cond_timedwait(&l->filled, &l->lock, &until))
            return;
}

/* Sleeps until there is something. */
static size_t next_lot(struct log *l, bool *ret_ending)
{
    size_t n;
    char *full;

    pthread_mutex_lock(&l->lock);
    l->asleep = true;
    while (!l->bytes && !l->ending)
        pthread_cond_wait(&l->filled, &l->lock);
    l->asleep = false;
    gather(l);
    n = l->bytes;
    full = l->fill;
    l->fill = l->drain;
    l->drain = full;
    l->bytes = 0;
    *ret_ending = l->ending;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* From the monotonic clock to the calendar's: asked once a lot. */
static uint64_t calendar_offset_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 - clock_us();
}

static void write_record(struct log *l, struct record *r, uint64_t offset_us, struct buf *b)
{
    const char *first = r->texts, *second = r->texts + r->second;

    log_stamp_write(&l->stamp, r->r.at_us + offset_us);
    if (r->is_note) {
        log_line_note(b, l->format, l->stamp.text, first, second);
        return;
    }
    r->r.id = first;
    r->r.method = second;
    r->r.trace = r->texts + r->third;
    log_line_request(b, l->format, l->stamp.text, &r->r);
}

/* A line that is too long is left out. */
static void write_lot(struct log *l, char *lot, size_t bytes)
{
    uint64_t offset_us = calendar_offset_us();
    size_t used = 0;

    for (char *at = lot; at < lot + bytes;) {
        struct record *r = (struct record *)(void *)at;
        struct buf b;

        if (OUT_BYTES - used < LINE_BYTES) {
            write_all(l, l->out, used);
            used = 0;
        }
        buf_init_fixed(&b, l->out + used, LINE_BYTES);
        write_record(l, r, offset_us, &b);
        used += buf_ok(&b) ? b.bytes : 0;
        at += r->bytes;
    }
    write_all(l, l->out, used);
}

static void *run(void *arg)
{
    struct log *l = arg;
    bool ending = false;

    while (!ending) {
        size_t n = next_lot(l, &ending);

        write_lot(l, l->drain, n);
    }
    return NULL;
}

/* --- what is put in --------------------------------------------------------------------------------------------------------------- */

static void put(struct log *l, const struct log_request *r, bool is_note, const char *first, const char *second)
{
    size_t n = strlen(first) + 1, m = strlen(second) + 1, k = strlen(r->trace) + 1, align = _Alignof(struct record);
    size_t bytes = (offsetof(struct record, texts) + n + m + k + align - 1) / align * align;
    struct record *at;
    bool wake = false;

    pthread_mutex_lock(&l->lock);
    if (bytes > LOG_BYTES - l->bytes) {
        l->dropped++;
    } else {
        at = (struct record *)(void *)(l->fill + l->bytes);
        *at = (struct record){.bytes = bytes, .second = n, .third = n + m, .is_note = is_note, .r = *r};
        memcpy(at->texts, first, n);
        memcpy(at->texts + n, second, m);
        memcpy(at->texts + n + m, r->trace, k);
        l->bytes += bytes;
        wake = l->asleep || (l->bytes >= HURRY_BYTES && l->bytes - bytes < HURRY_BYTES);
        l->asleep = false;
    }
    pthread_mutex_unlock(&l->lock);
    if (wake)
        pthread_cond_signal(&l->filled);
}

void log_request(struct log *l, const struct log_request *r)
{
    if (l->format != LOG_NONE)
        put(l, r, false, r->id, r->method);
}

void log_note(struct log *l, const char *level, const char *fmt, ...)
{
    struct log_request when = {.at_us = clock_us(), .trace = ""};
    char message[LINE_BYTES / 2];
    va_list args;

    if (l->format == LOG_NONE)
        return;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    put(l, &when, true, level, message);
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
    pthread_condattr_t monotonic;
    struct stat s;

    if (!l)
        return NULL;
    l->format = format;
    l->fd = fd;
    if (!fstat(fd, &s)) {
        l->is_socket = S_ISSOCK(s.st_mode);
        l->is_file = S_ISREG(s.st_mode) || (S_ISCHR(s.st_mode) && !isatty(fd));
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (format == LOG_NONE)
        return l;
    l->fill = malloc(LOG_BYTES);
    l->drain = malloc(LOG_BYTES);
    l->out = malloc(OUT_BYTES);
    l->started = l->fill && l->drain && l->out && thread_start(&l->thread, run, l);
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
    free(l->out);
    free(l);
}
