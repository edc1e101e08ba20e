/*
 * log_line.h - the text of a line of the log: logfmt or JSON.
 *
 * Threads   the log's own writes all lines (log.c).
 */
#ifndef SERVER_LOG_LINE_H
#define SERVER_LOG_LINE_H

#include "base/buf.h"

enum log_format { LOG_NONE, LOG_LOGFMT, LOG_JSON };

/* Id, method and trace are copied; the other texts are constant: they are read later. */
struct log_request {
    uint64_t at_us; /* when it ended, of clock_us() */
    const char *id, *method, *route;
    const char *trace; /* a traceparent; "" */
    const char *code;  /* of a problem; NULL */
    const char *cache; /* "hit", "miss"; NULL */
    const char *tier;  /* where the config came from; NULL */
    const char *end;   /* "sent", "left", "closed": how it ended */
    int status;
    uint64_t in_bytes, out_bytes;
    unsigned items, items_sent; /* of a batch; items 0: it is none */
    uint64_t us;
};

enum { LOG_STAMP_BYTES = sizeof "0000-00-00T00:00:00.000Z" };

/* The last time that was written: lines of one second share most of it. All zeros: none yet. */
struct log_stamp {
    uint64_t second;
    char text[LOG_STAMP_BYTES];
};

/* us since 1970, as RFC 3339 in s->text. */
void log_stamp_write(struct log_stamp *s, uint64_t us);

/* Append a line with its end; what does not fit shows in buf_ok(). */
void log_line_request(struct buf *b, enum log_format format, const char *at, const struct log_request *r);
void log_line_note(struct buf *b, enum log_format format, const char *at, const char *level, const char *message);

#endif
