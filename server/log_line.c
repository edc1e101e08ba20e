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
static void pair(struct buf *b, const char *name, const char *value)
{
    if (!value)
        return;
    if (b->bytes)
        buf_char(b, ' ');
    buf_str(b, name);
    buf_char(b, '=');
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
    if (r->items) {
        pair_u64(b, "items", r->items);
        pair_u64(b, "items_sent", r->items_sent);
    }
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
    if (r->items) {
        jsonw_u64(&w, "items", r->items);
        jsonw_u64(&w, "items_sent", r->items_sent);
    }
    jsonw_u64(&w, "us", r->us);
    member(&w, "end", r->end);
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
        pair(b, "ts", at);
        pair(b, "level", level);
        pair(b, "message", message);
    }
    buf_char(b, '\n');
}
