#include "base/json_scan.h"

#include "base/utf8.h"

#include <string.h>

enum { NUMBER_MAX_CHARS = 63 };

struct scan {
    const char *text;
    size_t bytes, at;
    const struct json_limits *limits;
    size_t values, python_floats;
    unsigned python; /* members around this place that Python may have written */
    struct err *err;
};

static enum err_code scan_value(struct scan *s, unsigned depth);

static enum err_code fail_at(const struct scan *s, size_t at, const char *what)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < at; i++) {
        column++;
        if (s->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(s->err, ERR_JSON, "", "line %zu, column %zu (byte %zu): %s", line, column, at, what);
}

static enum err_code fail(const struct scan *s, const char *what)
{
    return fail_at(s, s->at, s->at < s->bytes ? what : "the text ends in the middle of a value");
}

/* The byte here; 0, which is no part of JSON, at the end. */
static char here(const struct scan *s)
{
    return s->at < s->bytes ? s->text[s->at] : '\0';
}

static bool take(struct scan *s, const char *word)
{
    size_t n = strlen(word);

    if (s->bytes - s->at < n || memcmp(s->text + s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static bool take_char(struct scan *s, char c)
{
    if (here(s) != c || s->at == s->bytes)
        return false;
    s->at++;
    return true;
}

static void blanks(struct scan *s)
{
    while (s->at < s->bytes) {
        char c = s->text[s->at];

        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
        s->at++;
    }
}

/* Takes four hexadecimal digits; -1 when they are not there. */
static int hex4(struct scan *s)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = here(s);
        int digit;

        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else
            return -1;
        value = value * 16 + digit;
        s->at++;
    }
    return value;
}

/* After a backslash and 'u'. */
static enum err_code scan_unicode(struct scan *s)
{
    size_t start = s->at - 2;
    int unit = hex4(s);

    if (unit < 0)
        return fail(s, "\\u needs four hexadecimal digits");
    if (unit == 0)
        return fail_at(s, start, "\\u0000 is not accepted");
    if (unit < 0xD800 || unit > 0xDFFF)
        return ERR_OK;
    if (unit < 0xDC00 && take(s, "\\u")) {
        unit = hex4(s);
        if (unit >= 0xDC00 && unit <= 0xDFFF)
            return ERR_OK;
    }
    return fail_at(s, start, "half of a surrogate pair");
}

static enum err_code scan_escape(struct scan *s)
{
    char c = here(s);

    if (c == '\0' || !strchr("\"\\/bfnrtu", c))
        return fail(s, "an unknown escape sequence");
    s->at++;
    return c == 'u' ? scan_unicode(s) : ERR_OK;
}

/* After the opening quote. */
static enum err_code scan_string(struct scan *s)
{
    while (s->at < s->bytes) {
        char c = s->text[s->at];
        enum err_code rc;
        size_t n;

        if (c == '"') {
            s->at++;
            return ERR_OK;
        }
        if (c == '\\') {
            s->at++;
            rc = scan_escape(s);
            if (rc)
                return rc;
            continue;
        }
        if ((unsigned char)c < 0x20)
            return fail(s, "a control character within a string");
        n = utf8_char(s->text + s->at, s->bytes - s->at);
        if (!n)
            return fail(s, "not UTF-8");
        s->at += n;
    }
    return fail(s, "");
}

static size_t digits(struct scan *s)
{
    size_t start = s->at;

    while (here(s) >= '0' && here(s) <= '9')
        s->at++;
    return s->at - start;
}

static enum err_code scan_number(struct scan *s)
{
    size_t start = s->at;

    (void)take_char(s, '-');
    if (!take_char(s, '0') && !digits(s))
        return fail(s, "expected a digit");
    if (take_char(s, '.') && !digits(s))
        return fail(s, "expected a digit after the point");
    if (here(s) == 'e' || here(s) == 'E') {
        s->at++;
        if (here(s) == '+' || here(s) == '-')
            s->at++;
        if (!digits(s))
            return fail(s, "expected a digit in the exponent");
    }
    if (s->at - start > NUMBER_MAX_CHARS)
        return fail_at(s, start, "a number of more than 63 characters");
    return ERR_OK;
}

/* A name as it stands: one with escapes is none of these. */
static bool is_python(const struct scan *s, const char *name, size_t bytes)
{
    const char *list = s->limits->python_within;

    while (list && *list) {
        size_t n = strcspn(list, "|");

        if (n == bytes && !memcmp(list, name, n))
            return true;
        list += n + (list[n] == '|');
    }
    return false;
}

static enum err_code scan_member(struct scan *s, unsigned depth)
{
    size_t start = s->at + 1;
    enum err_code rc;
    bool python;

    if (!take_char(s, '"'))
        return fail(s, "expected a member's name in double quotes");
    rc = scan_string(s);
    if (rc)
        return rc;
    python = is_python(s, s->text + start, s->at - 1 - start);
    blanks(s);
    if (!take_char(s, ':'))
        return fail(s, "expected ':'");
    s->python += python;
    rc = scan_value(s, depth);
    s->python -= python;
    return rc;
}

/* After the opening bracket. */
static enum err_code scan_container(struct scan *s, char close, unsigned depth)
{
    if (depth > s->limits->depth || depth > JSON_MAX_DEPTH)
        return fail_at(s, s->at - 1, "nested too deeply");
    blanks(s);
    if (take_char(s, close))
        return ERR_OK;
    for (;;) {
        enum err_code rc = close == '}' ? (blanks(s), scan_member(s, depth)) : scan_value(s, depth);

        if (rc)
            return rc;
        blanks(s);
        if (take_char(s, close))
            return ERR_OK;
        if (!take_char(s, ','))
            return fail(s, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    }
}

static enum err_code scan_word(struct scan *s)
{
    static const char *const python[] = {"NaN", "Infinity", "-Infinity"};

    if (take(s, "true") || take(s, "false") || take(s, "null"))
        return ERR_OK;
    for (size_t i = 0; i < sizeof python / sizeof *python; i++) {
        size_t start = s->at;

        if (!take(s, python[i]))
            continue;
        s->python_floats++;
        return s->limits->python_floats || s->python ? ERR_OK : fail_at(s, start, "NaN and Infinity are not JSON");
    }
    return here(s) == '-' ? scan_number(s) : fail(s, "expected a value");
}

/* Recursion is as deep as limits->depth. */
static enum err_code scan_value(struct scan *s, unsigned depth)
{
    char c;

    blanks(s);
    if (++s->values > s->limits->values)
        return fail(s, "too many values");
    c = here(s);
    if (c >= '0' && c <= '9')
        return scan_number(s);
    if (take_char(s, '"'))
        return scan_string(s);
    if (take_char(s, '{'))
        return scan_container(s, '}', depth + 1);
    if (take_char(s, '['))
        return scan_container(s, ']', depth + 1);
    return scan_word(s);
}

enum err_code json_scan(const char *text, size_t bytes, const struct json_limits *limits, size_t *ret_skip,
                        size_t *ret_python_floats, struct err *err)
{
    struct scan s = {.text = text, .bytes = bytes, .limits = limits, .err = err};
    size_t skip;
    enum err_code rc;

    if (bytes > limits->bytes)
        return err_set(err, ERR_TOO_LARGE, "", "%zu bytes of JSON; at most %zu are read", bytes, limits->bytes);
    (void)take(&s, "\xEF\xBB\xBF");
    skip = s.at;
    blanks(&s);
    if (s.at == s.bytes)
        return fail_at(&s, s.at, "the text is empty");
    rc = scan_value(&s, 0);
    if (rc)
        return rc;
    blanks(&s);
    if (s.at < s.bytes)
        return fail_at(&s, s.at, "something follows the end of the value");
    *ret_skip = skip;
    *ret_python_floats = s.python_floats;
    return ERR_OK;
}
