#include "api/decode/decode.h"

#include "base/near.h"
#include "base/size.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err_code decode_fail(struct decoding *d, enum err_code code, const char *fmt, ...)
{
    char text[sizeof d->err->detail];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(d->err, code, d->path, "%s", text);
}

/* "a, b, c": as many as fit in a sentence. */
static void list_words(const struct word *words, char *text, size_t room)
{
    size_t used = 0;

    text[0] = 0;
    for (; words->name; words++) {
        int n = snprintf(text + used, room - used, "%s%s", used ? ", " : "", words->name);

        if (n < 0 || (size_t)n + 6 >= room - used) {
            (void)snprintf(text + used, room - used, ", ...");
            return;
        }
        used += (size_t)n;
    }
}

/* Of a word that is another member's: "training.stage". A clause, or "". */
static const char *whose_word(const struct member *members, const char *under, const char *text, char ret[96])
{
    ret[0] = 0;
    for (const struct member *m = members; m && m->key && !ret[0]; m++) {
        bool known = m->kind == KIND_WORDS && m->words && word_find(m->words, text, strlen(text)) >= 0;

        if (known)
            (void)snprintf(ret, 96, "; it is a value of %s%s%s", under, *under ? "." : "", m->key);
        else if (m->members && !*under)
            (void)whose_word(m->members, m->key, text, ret);
    }
    return ret;
}

static enum err_code unknown_word(struct decoding *d, const struct word *words, const char *text)
{
    struct near near;
    char list[160], whose[96];

    near_init(&near, text);
    for (const struct word *w = words; w->name; w++) {
        near_offer(&near, w->name, w->name);
        near_offer_all(&near, w->name, w->also, '|');
    }
    near_same_kind(&near);
    list_words(words, list, sizeof list);
    (void)decode_fail(d, ERR_FIELD_VALUE, "'%.40s' is not known; one of: %s%s", text, list, whose_word(d->root, "", text, whose));
    return near_tell(&near, d->err);
}

/* --- the path ----------------------------------------------------------------------------------------------------------------- */

void decode_path_push(struct decoding *d, const char *name)
{
    size_t n = strlen(d->path);

    if (n < sizeof d->path - 1)
        d->path[n++] = '/';
    for (; *name && n < sizeof d->path - 2; name++) {
        if (*name == '~' || *name == '/') {
            d->path[n++] = '~';
            d->path[n++] = *name == '~' ? '0' : '1';
        } else {
            d->path[n++] = *name;
        }
    }
    d->path[n < sizeof d->path ? n : sizeof d->path - 1] = 0;
}

static void path_push_index(struct decoding *d, size_t index)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%zu", index);
    decode_path_push(d, text);
}

/* --- values ------------------------------------------------------------------------------------------------------------------- */

enum err_code decode_wrong_type(struct decoding *d, const char *wanted, const struct json *v)
{
    return decode_fail(d, ERR_FIELD_TYPE, "must be %s, not %s", wanted, json_type_name(json_type(v)));
}

static enum err_code read_str(struct decoding *d, const struct member *m, const struct json *v, void *at)
{
    const char *s = json_str(v);

    if (!s)
        return decode_wrong_type(d, "a string", v);
    if (strlen(s) < m->min || strlen(s) > m->max)
        return decode_fail(d, ERR_FIELD_RANGE, "must have %u to %u bytes, not %zu", (unsigned)m->min, (unsigned)m->max, strlen(s));
    memcpy(at, &s, sizeof s);
    return ERR_OK;
}

static enum err_code check_range(struct decoding *d, const struct member *m, uint64_t n)
{
    if (n < m->min || n > m->max)
        return decode_fail(d, ERR_FIELD_RANGE, "must be within %llu..%llu", (unsigned long long)m->min, (unsigned long long)m->max);
    return ERR_OK;
}

static enum err_code read_whole(struct decoding *d, const struct member *m, const struct json *v, void *at)
{
    struct quantity q = {.set = true};
    double real;

    if (m->kind == KIND_BYTES && json_str(v)) {
        if (!size_parse(json_str(v), &q.whole))
            return decode_fail(d, ERR_FIELD_VALUE, "'%.40s' is no size; bytes as a number, or like \"80GB\", \"79.6GiB\"", json_str(v));
    } else if (!json_number(v, &real)) {
        return decode_wrong_type(d, m->kind == KIND_BYTES ? "a number of bytes or a size like \"80GB\"" : "a whole number", v);
    } else if (!json_uint64(v, &q.whole)) {
        if (real != floor(real) && real >= (double)m->min && real <= (double)m->max)
            return decode_fail(d, ERR_FIELD_TYPE, "must be a whole number");
        return decode_fail(d, ERR_FIELD_RANGE, "must be within %llu..%llu", (unsigned long long)m->min, (unsigned long long)m->max);
    }
    q.real = (double)q.whole;
    memcpy(at, &q, sizeof q);
    return check_range(d, m, q.whole);
}

/* As many as are echoed. */
static const double last_decimal = 1e-9;

static enum err_code read_real(struct decoding *d, const struct member *m, const struct json *v, void *at)
{
    struct quantity q = {.set = true};
    double least;

    if (!json_number(v, &q.real))
        return decode_wrong_type(d, "a number", v);
    if (!(q.real >= (double)m->min) || q.real > (double)m->max || (m->open && q.real >= (double)m->max))
        return decode_fail(d, ERR_FIELD_RANGE, "must be %llu or more and %s %llu", (unsigned long long)m->min,
                           m->open ? "below" : "at most", (unsigned long long)m->max);
    least = m->least > 0 ? m->least : last_decimal;
    if (q.real > 0 && q.real < least)
        return decode_fail(d, ERR_FIELD_RANGE, "must be 0, or %.9g or more", least);
    memcpy(at, &q, sizeof q);
    return ERR_OK;
}

static enum err_code read_bool(struct decoding *d, const struct json *v, void *at)
{
    enum tri t;
    bool b;

    if (!json_bool(v, &b))
        return decode_wrong_type(d, "true or false", v);
    t = b ? TRI_TRUE : TRI_FALSE;
    memcpy(at, &t, sizeof t);
    return ERR_OK;
}

static enum err_code read_word(struct decoding *d, const struct member *m, const struct json *v, struct words *w)
{
    const char *text = json_str(v);
    char digits[24];
    uint64_t n;
    bool b;
    int at;

    if (!text && json_bool(v, &b))
        text = b ? "true" : "false";
    if (!text && json_uint64(v, &n)) { /* quantization_bit: 4 */
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
        text = word_find(m->words, digits, strlen(digits)) < 0 ? NULL : digits;
    }
    if (!text)
        return decode_wrong_type(d, m->list ? "a name or a list of names" : "a name", v);
    at = word_find(m->words, text, strlen(text));
    if (at < 0)
        return unknown_word(d, m->words, text);
    for (unsigned i = 0; i < w->n; i++)
        if (w->at[i] == at)
            return ERR_OK;
    if (w->n == WORDS_MAX)
        return decode_fail(d, ERR_FIELD_RANGE, "at most %d of them", (int)WORDS_MAX);
    w->at[w->n++] = (uint8_t)at;
    return ERR_OK;
}

static enum err_code read_words(struct decoding *d, const struct member *m, const struct json *v, struct words *w)
{
    size_t n = strlen(d->path), i = 0;
    enum err_code rc;

    if (json_type(v) != JSON_ARRAY || !m->list)
        return read_word(d, m, v, w);
    if (!json_count(v) && m->min)
        return decode_fail(d, ERR_FIELD_RANGE, "must name at least one; leave it out for the planner's choice");
    json_each (e, v) {
        path_push_index(d, i++);
        rc = read_word(d, m, e, w);
        if (rc)
            return rc;
        d->path[n] = 0;
    }
    return ERR_OK;
}

static enum err_code read_strs(struct decoding *d, const struct member *m, const struct json *v, struct strs *s)
{
    size_t n = strlen(d->path), i = 0;

    if (json_str(v) && (m->words || m->open)) {
        int at = m->words ? word_find(m->words, json_str(v), strlen(json_str(v))) : -1;

        if (at < 0 && !m->open)
            return unknown_word(d, m->words, json_str(v));
        if (at < 0 && (!json_str(v)[0] || strlen(json_str(v)) > STR_MAX_BYTES))
            return decode_fail(d, ERR_FIELD_RANGE, "must have 1 to %d bytes", (int)STR_MAX_BYTES);
        *s = (struct strs){.set = true, .is_string = true, .n = 1, .v = {at < 0 ? json_str(v) : m->words[at].name}};
        return ERR_OK;
    }
    if (json_type(v) != JSON_ARRAY)
        return decode_wrong_type(d, m->words ? "a list of names or \"all-linear\"" : "a list of names", v);
    if (json_count(v) < m->min || json_count(v) > STRS_MAX)
        return decode_fail(d, ERR_FIELD_RANGE, "must have %u to %d names", (unsigned)m->min, (int)STRS_MAX);
    json_each (e, v) {
        path_push_index(d, i++);
        if (!json_str(e))
            return decode_wrong_type(d, "a string", e);
        if (!json_str(e)[0] || strlen(json_str(e)) > m->max)
            return decode_fail(d, ERR_FIELD_RANGE, "must have 1 to %u bytes", (unsigned)m->max);
        s->v[s->n++] = json_str(e);
        d->path[n] = 0;
    }
    s->set = true;
    return ERR_OK;
}

enum err_code decode_value(struct decoding *d, const struct member *m, const struct json *v, void *at)
{
    switch (m->kind) {
    case KIND_STR:
        return read_str(d, m, v, at);
    case KIND_WHOLE:
    case KIND_BYTES:
        return read_whole(d, m, v, at);
    case KIND_REAL:
        return read_real(d, m, v, at);
    case KIND_BOOL:
        return read_bool(d, v, at);
    case KIND_WORDS:
        return read_words(d, m, v, at);
    case KIND_STRS:
        return read_strs(d, m, v, at);
    case KIND_OBJECT:
        return decode(d, v, m->members, at);
    case KIND_OWN:
        return m->own(d, v, at);
    case KIND_JSON:
        break;
    }
    if (json_type(v) != JSON_OBJECT && !(m->open && json_str(v)))
        return decode_wrong_type(d, m->open ? "an object, or a file's text" : "an object", v);
    memcpy(at, &v, sizeof v);
    return ERR_OK;
}
