#include "base/jsonw.h"

#include "base/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void jsonw_init(struct jsonw *w, struct buf *out, bool pretty)
{
    *w = (struct jsonw){.out = out, .pretty = pretty};
}

static uint32_t level(const struct jsonw *w)
{
    return UINT32_C(1) << w->depth;
}

static void new_line(struct jsonw *w)
{
    static const char line[] = "\n                                                                ";

    _Static_assert(sizeof line > 1 + 2 * JSONW_MAX_DEPTH, "blanks for the deepest");
    if (!w->pretty)
        return;
    buf_add(w->out, line, 1 + 2 * (size_t)w->depth);
}

static void escape(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    const char *found = strchr(letters, c);

    buf_char(out, '\\');
    if (found && c) {
        buf_char(out, names[found - letters]);
        return;
    }
    buf_add(out, "u00", 3);
    buf_char(out, hex[c >> 4]);
    buf_char(out, hex[c & 15]);
}

static bool needs_escape(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* ASCII that stands for itself: nearly all there is. */
static size_t plain_bytes(const char *s, size_t bytes)
{
    size_t n = 0;

    while (n < bytes && (unsigned char)s[n] < 0x80 && !needs_escape((unsigned char)s[n]))
        n++;
    return n;
}

static void quoted(struct buf *out, const char *s, size_t bytes)
{
    size_t plain = 0; /* start of what can be copied as it is */
    size_t i = 0;

    buf_char(out, '"');
    while ((i += plain_bytes(s + i, bytes - i)) < bytes) {
        size_t n = utf8_char(s + i, bytes - i);

        if (n && !needs_escape((unsigned char)s[i])) {
            i += n;
            continue;
        }
        buf_add(out, s + plain, i - plain);
        if (n)
            escape(out, (unsigned char)s[i]);
        else
            buf_str(out, "\xEF\xBF\xBD");
        plain = ++i;
    }
    buf_add(out, s + plain, bytes - plain);
    buf_char(out, '"');
}

/* What stands before a value: comma, line, name. */
static void before(struct jsonw *w, const char *name)
{
    bool in_object = w->depth && !(w->arrays & level(w));

    assert(in_object == (name != NULL));
    assert(w->depth || !(w->members & 1)); /* one document */
    if (w->depth) {
        if (w->members & level(w))
            buf_char(w->out, ',');
        new_line(w);
    }
    w->members |= level(w);
    if (!name)
        return;
    quoted(w->out, name, strlen(name));
    buf_char(w->out, ':');
    if (w->pretty)
        buf_char(w->out, ' ');
}

static void begin(struct jsonw *w, const char *name, bool array)
{
    before(w, name);
    buf_char(w->out, array ? '[' : '{');
    w->depth++;
    assert(w->depth < JSONW_MAX_DEPTH);
    w->members &= ~level(w);
    w->arrays = array ? w->arrays | level(w) : w->arrays & ~level(w);
}

void jsonw_object(struct jsonw *w, const char *name)
{
    begin(w, name, false);
}

void jsonw_array(struct jsonw *w, const char *name)
{
    begin(w, name, true);
}

void jsonw_end(struct jsonw *w)
{
    bool empty = !(w->members & level(w));
    bool array = w->arrays & level(w);

    assert(w->depth);
    w->depth--;
    if (!empty)
        new_line(w);
    buf_char(w->out, array ? ']' : '}');
    if (w->depth == 0 && w->pretty)
        buf_char(w->out, '\n');
}

void jsonw_str(struct jsonw *w, const char *name, const char *s)
{
    if (s)
        jsonw_str_n(w, name, s, strlen(s));
    else
        jsonw_null(w, name);
}

void jsonw_str_n(struct jsonw *w, const char *name, const char *s, size_t bytes)
{
    before(w, name);
    quoted(w->out, s, bytes);
}

void jsonw_u64(struct jsonw *w, const char *name, uint64_t value)
{
    before(w, name);
    buf_u64(w->out, value);
}

void jsonw_i64(struct jsonw *w, const char *name, int64_t value)
{
    before(w, name);
    if (value < 0)
        buf_char(w->out, '-');
    buf_u64(w->out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void jsonw_bool(struct jsonw *w, const char *name, bool value)
{
    jsonw_raw(w, name, value ? "true" : "false", value ? 4 : 5);
}

void jsonw_null(struct jsonw *w, const char *name)
{
    jsonw_raw(w, name, "null", 4);
}

void jsonw_raw(struct jsonw *w, const char *name, const char *json, size_t bytes)
{
    before(w, name);
    buf_add(w->out, json, bytes);
}

enum { MAX_DECIMALS = 9 };

static void fraction(struct buf *out, uint64_t part, unsigned decimals)
{
    char digits[MAX_DECIMALS];

    for (unsigned i = decimals; i--; part /= 10)
        digits[i] = (char)('0' + part % 10);
    while (decimals && digits[decimals - 1] == '0')
        decimals--;
    if (!decimals)
        return;
    buf_char(out, '.');
    buf_add(out, digits, decimals);
}

void jsonw_fixed(struct jsonw *w, const char *name, double value, unsigned decimals)
{
    static const double whole_max = 9007199254740992.0; /* 2^53: above it a double has no fraction */
    uint64_t scale = 1, whole, part;
    double size = fabs(value);

    assert(decimals <= MAX_DECIMALS);
    if (!(size <= 1.7976931348623157e308)) {
        jsonw_null(w, name);
        return;
    }
    before(w, name);
    if (size >= whole_max) {
        char text[320];
        int n = snprintf(text, sizeof text, "%.0f", value);

        buf_add(w->out, text, (size_t)n);
        return;
    }
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    whole = (uint64_t)size;
    part = (uint64_t)floor((size - (double)whole) * (double)scale + 0.5);
    if (part == scale) {
        whole++;
        part = 0;
    }
    if (value < 0 && (whole || part))
        buf_char(w->out, '-');
    buf_u64(w->out, whole);
    fraction(w->out, part, decimals);
}

bool jsonw_done(const struct jsonw *w)
{
    return w->depth == 0 && (w->members & 1) && buf_ok(w->out);
}
