#include "server/log_line.h"

#include "base/jsonw.h"

#include <string.h>

static void digits(char *at, unsigned value, int n)
{
    for (int i = n - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
}

/* RFC 3339 in UTC. By hand: strftime takes as long as the rest of a line. The calendar is Hinnant's civil_from_days. */
static void write_second(char *ret, uint64_t second)
{
    unsigned seconds = (unsigned)(second % 86400), day = (unsigned)(second / 86400) + 719468;
    unsigned era, of_era, year_of_era, day_of_year, m;

    era = day / 146097;
    of_era = day % 146097;
    year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    m = (5 * day_of_year + 2) / 153;
    memcpy(ret, "0000-00-00T00:00:00.000Z", LOG_STAMP_BYTES);
    digits(ret, year_of_era + era * 400 + (m >= 10), 4);
    digits(ret + 5, m < 10 ? m + 3 : m - 9, 2);
    digits(ret + 8, day_of_year - (153 * m + 2) / 5 + 1, 2);
    digits(ret + 11, seconds / 3600, 2);
    digits(ret + 14, seconds / 60 % 60, 2);
    digits(ret + 17, seconds % 60, 2);
}

void log_stamp_write(struct log_stamp *s, uint64_t us)
{
    if (!s->text[0] || s->second != us / 1000000) {
        s->second = us / 1000000;
        write_second(s->text, s->second);
    }
    digits(s->text + 20, (unsigned)(us / 1000 % 1000), 3);
}

static bool is_word(const char *value)
{
    const char *at = value;

    while (*at > ' ' && *at != '"' && *at != '=' && *at != '\\')
        at++;
    return at > value && !*at;
}

/* A word as it stands; anything else in quotes. */
static void value_of(struct buf *b, const char *value)
{
    if (is_word(value)) {
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

/* `name` with what stands before it: " id=". */
static void pair(struct buf *b, const char *name, const char *value)
{
    if (!value)
        return;
    buf_str(b, name);
    value_of(b, value);
}

/* All of these are words, by policy.c where they are a caller's, and a line has room: one a request is most of what a log's thread does. */
struct ends {
    char *at, *end;
};

static void add(struct ends *e, const char *text, size_t bytes)
{
    if ((size_t)(e->end - e->at) < bytes)
        bytes = (size_t)(e->end - e->at);
    memcpy(e->at, text, bytes);
    e->at += bytes;
}

static void add_word(struct ends *e, const char *name, size_t name_bytes, const char *word)
{
    if (!word)
        return;
    add(e, name, name_bytes);
    add(e, word, strlen(word));
}

static void add_u64(struct ends *e, const char *name, size_t name_bytes, uint64_t value)
{
    char text[20];
    int n = sizeof text;

    do
        text[--n] = (char)('0' + value % 10);
    while (value /= 10);
    add(e, name, name_bytes);
    add(e, text + n, sizeof text - (size_t)n);
}

#define WORD(name, value) add_word(&e, name, sizeof name - 1, value)
#define NUMBER(name, value) add_u64(&e, name, sizeof name - 1, value)

static void request_logfmt(struct buf *b, const char *at, const struct log_request *r)
{
    char text[512];
    struct ends e = {text, text + sizeof text};

    WORD("ts=", at);
    WORD(" id=", r->id[0] ? r->id : "\"\"");
    WORD(" method=", r->method[0] ? r->method : "\"\"");
    WORD(" route=", r->route);
    NUMBER(" status=", (uint64_t)r->status);
    WORD(" code=", r->code);
    WORD(" cache=", r->cache);
    WORD(" tier=", r->tier);
    NUMBER(" in_bytes=", r->in_bytes);
    NUMBER(" out_bytes=", r->out_bytes);
    if (r->items) {
        NUMBER(" items=", r->items);
        NUMBER(" items_sent=", r->items_sent);
    }
    NUMBER(" us=", r->us);
    WORD(" end=", r->end);
    if (r->trace[0]) {
        add(&e, " trace_id=", 10);
        add(&e, r->trace + 3, 32);
        add(&e, " parent_id=", 11);
        add(&e, r->trace + 36, 16);
    }
    buf_add(b, text, (size_t)(e.at - text));
}

#undef WORD
#undef NUMBER

static void member(struct jsonw *w, const char *name, const char *value)
{
    if (value)
        jsonw_str(w, name, value);
}

static void member_of_trace(struct jsonw *w, const char *name, const char *at, size_t bytes)
{
    char text[33];

    memcpy(text, at, bytes);
    text[bytes] = 0;
    jsonw_str(w, name, text);
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
    if (r->items) {
        jsonw_u64(&w, "items", r->items);
        jsonw_u64(&w, "items_sent", r->items_sent);
    }
    jsonw_u64(&w, "us", r->us);
    member(&w, "end", r->end);
    if (r->trace[0]) {
        member_of_trace(&w, "trace_id", r->trace + 3, 32);
        member_of_trace(&w, "parent_id", r->trace + 36, 16);
    }
    jsonw_end(&w);
}

void log_line_request(struct buf *b, enum log_format format, const char *at, const struct log_request *r)
{
    (format == LOG_JSON ? request_json : request_logfmt)(b, at, r);
    buf_char(b, '\n');
}

void log_line_note(struct buf *b, enum log_format format, const char *at, const char *level, const char *message)
{
    struct jsonw w;

    if (format == LOG_JSON) {
        jsonw_init(&w, b, false);
        jsonw_object(&w, NULL);
        member(&w, "ts", at);
        member(&w, "level", level);
        member(&w, "message", message);
        jsonw_end(&w);
    } else {
        pair(b, "ts=", at);
        pair(b, " level=", level);
        pair(b, " message=", message);
    }
    buf_char(b, '\n');
}
