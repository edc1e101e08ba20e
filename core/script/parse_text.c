/* Literals: numbers, strings, f-strings. */
#include "script/parse.h"

#include "base/ascii.h"
#include "base/utf8.h"
#include "script/number.h"
#include "script/object.h"

#include <string.h>

static struct node *constant(struct parser *p, sv value, uint32_t line)
{
    struct node *n = parse_node(p, N_CONST, NULL, NULL, NULL);

    if (!p->failed) {
        n->value = value;
        n->line = line;
    }
    return n;
}

struct node *parse_number(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    char text[64];
    size_t n = 0;
    bool real = false;
    sv value;
    struct node *big;

    for (size_t i = 0; i < p->lex.bytes; i++) {
        char c = p->lex.text[i];

        if (c == '_')
            continue;
        if (n + 1 >= sizeof text)
            break;
        text[n++] = c;
    }
    text[n] = '\0';
    if (p->lex.bytes - n > 32 || n + 1 >= sizeof text)
        return parse_fail(p, "a number of too many digits");
    if (!(text[0] == '0' && strchr("xXoObB", text[1]) && text[1]))
        real = strpbrk_any(text, ".eEjJ");
    if (real && ascii_lower(text[n - 1]) == 'j') {
        lex_next(&p->lex);
        return parse_node(p, N_IMAGINARY, NULL, NULL, NULL);
    }
    if (real) {
        value = sv_float(0);
        if (!number_double(text, n, &value.f))
            return parse_fail(p, "invalid number");
    } else {
        enum number_what what = number_int(text, n, 0, &value.i);

        value.tag = SV_INT;
        if (what == NUMBER_BAD)
            return parse_fail(p, "invalid number");
        if (what == NUMBER_BIG) {
            lex_next(&p->lex);
            big = parse_node(p, N_BIG, NULL, NULL, NULL);
            return big;
        }
    }
    lex_next(&p->lex);
    return constant(p, value, line);
}

/* ---- strings */

struct text {
    char *data;
    size_t n;
};

static int digit_of(char c)
{
    c = ascii_lower(c);
    return ascii_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static void put_code_point(struct text *t, uint32_t c)
{
    t->n += utf8_put(t->data + t->n, c);
}

/* One escape after its backslash; returns what follows. */
static const char *escape(struct parser *p, struct text *t, const char *s, const char *end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = *s ? strchr(from, *s) : NULL;
    int digits = *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    uint32_t c = 0;

    if (found) {
        t->data[t->n++] = to[found - from];
        return s + 1;
    }
    if (*s == '\r' && s + 1 < end && s[1] == '\n')
        return s + 2;
    if (*s == '\n')
        return s + 1;
    if (digits) {
        s++;
        for (int i = 0; i < digits; i++, s++) {
            if (s >= end || digit_of(*s) > 15) {
                (void)parse_fail(p, "invalid escape in a string");
                return end;
            }
            c = c * 16 + (uint32_t)digit_of(*s);
        }
    } else if (*s >= '0' && *s <= '7') {
        for (int i = 0; i < 3 && s < end && *s >= '0' && *s <= '7'; i++)
            c = c * 8 + (uint32_t)(*s++ - '0');
    } else {
        t->data[t->n++] = '\\'; /* no escape: stays as it is; \N{..} as well */
        return s;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        (void)parse_fail(p, "a string that is not valid Unicode");
    else
        put_code_point(t, c);
    return s;
}

struct literal {
    const char *from, *end;
    uint32_t line;
    bool raw, f, bytes;
};

static struct literal literal_of(const struct parser *p)
{
    struct literal l = {p->lex.text, p->lex.text + p->lex.bytes, p->lex.token_line, false, false, false};
    size_t quotes;

    for (; *l.from != '"' && *l.from != '\''; l.from++) {
        char c = ascii_lower(*l.from);

        l.raw |= c == 'r';
        l.f |= c == 'f';
        l.bytes |= c == 'b';
    }
    quotes = l.end - l.from >= 6 && l.from[1] == *l.from && l.from[2] == *l.from ? 3 : 1;
    l.from += quotes;
    l.end -= quotes;
    return l;
}

static void plain(struct parser *p, const struct literal *l, struct text *t)
{
    for (const char *s = l->from; s < l->end;) {
        if (*s == '\\' && !l->raw)
            s = escape(p, t, s + 1, l->end);
        else if (*s == '\r' && s + 1 < l->end && s[1] == '\n')
            s++;
        else
            t->data[t->n++] = *s++;
    }
}

static bool push(struct parser *p, size_t bytes, struct text *t)
{
    t->data = arena_array_raw(p->scratch, char, bytes + 1);
    t->n = 0;
    if (!t->data)
        (void)parse_fail(p, "no memory for a string");
    return t->data;
}

static sv string_value(struct parser *p, const struct text *t)
{
    struct str *s = image_intern(p->im, t->data, t->n);

    if (!s) {
        (void)parse_fail(p, "no memory for a string");
        return sv_none();
    }
    return sv_forever(s);
}

/* ---- f-strings: CPython 3.11 reads the text between braces as an expression of its own */

struct fstring {
    struct node_list parts;
    struct text text;
    uint32_t line;
};

static void flush(struct parser *p, struct fstring *f)
{
    if (f->text.n)
        node_add(&f->parts, constant(p, string_value(p, &f->text), f->line));
    f->text.n = 0;
}

static const char *f_text(struct parser *p, struct fstring *f, const struct literal *l, const char *s, bool spec);

/* `{` was read. */
static const char *field(struct parser *p, struct fstring *f, const struct literal *l, const char *s)
{
    struct lex outer = p->lex;
    struct node *value, *n, *spec = NULL;
    const char *begin = s;
    uint8_t conversion = 0;

    if (!parse_deeper(p))
        return l->end;
    memset(&p->lex, 0, sizeof p->lex);
    p->lex.at = s;
    p->lex.end = l->end;
    p->lex.line = f->line;
    p->lex.within = true;
    lex_next(&p->lex);
    value = at(p, T_YIELD) ? parse_yield(p) : parse_star_expressions(p);
    if (!p->failed && at(p, T_ASSIGN)) { /* f"{x = }": with its blanks */
        const char *end = p->lex.at;

        while (end < l->end && (*end == ' ' || *end == '\t'))
            end++;
        memcpy(f->text.data + f->text.n, begin, (size_t)(end - begin));
        f->text.n += (size_t)(end - begin);
        lex_next(&p->lex);
        if (!at(p, T_COLON))
            conversion = 'r';
    }
    if (!p->failed && at(p, T_BANG)) {
        lex_next(&p->lex);
        if (at(p, T_NAME) && p->lex.bytes == 1 && strchr("sra", *p->lex.text))
            conversion = (uint8_t)*p->lex.text;
        else
            (void)parse_fail(p, "f-string: invalid conversion");
        lex_next(&p->lex);
    }
    s = p->lex.at;
    if (!p->failed && !at(p, T_COLON) && !at(p, T_RBRACE) && !(at(p, T_WALRUS)))
        (void)parse_fail(p, "f-string: '}' was expected");
    if (!p->failed && (at(p, T_COLON) || at(p, T_WALRUS))) {
        struct fstring inner = {.line = f->line};

        if (at(p, T_WALRUS))
            s--; /* {x:=5} */
        if (push(p, (size_t)(l->end - s), &inner.text)) {
            s = f_text(p, &inner, l, s, true);
            flush(p, &inner);
            spec = parse_node(p, N_JOINED, inner.parts.first, NULL, NULL);
            if (s >= l->end || *s != '}')
                (void)parse_fail(p, "f-string: '}' was expected");
            s++;
        }
    }
    p->depth--;
    if (p->failed)
        return l->end;
    p->lex = outer;
    flush(p, f);
    n = parse_node(p, N_FORMATTED, value, spec, NULL);
    n->op = conversion;
    n->line = f->line;
    node_add(&f->parts, n);
    return s;
}

static const char *f_text(struct parser *p, struct fstring *f, const struct literal *l, const char *s, bool spec)
{
    while (s < l->end && !p->failed) {
        if (*s == '{' && s + 1 < l->end && s[1] == '{' && !spec) {
            f->text.data[f->text.n++] = '{';
            s += 2;
        } else if (*s == '{') {
            s = field(p, f, l, s + 1);
        } else if (*s == '}' && spec) {
            return s;
        } else if (*s == '}') {
            if (s + 1 >= l->end || s[1] != '}')
                (void)parse_fail(p, "f-string: single '}' is not allowed");
            f->text.data[f->text.n++] = '}';
            s += 2;
        } else if (*s == '\\' && !l->raw) {
            s = escape(p, &f->text, s + 1, l->end);
        } else {
            f->line += *s == '\n';
            f->text.data[f->text.n++] = *s++;
        }
    }
    return s;
}

struct node *parse_strings(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    struct fstring all = {.line = line};
    struct lex before = p->lex;
    bool f = false, bytes = false;
    size_t room = 0;
    struct node *n;

    for (; at(p, T_STRING); lex_next(&p->lex))
        room += 2 * p->lex.bytes + 8;
    p->lex = before;
    if (!push(p, room, &all.text))
        return &p->none;
    for (; at(p, T_STRING) && !p->failed; lex_next(&p->lex)) {
        struct literal l = literal_of(p);

        bytes |= l.bytes;
        f |= l.f;
        all.line = l.line;
        if (l.f)
            (void)f_text(p, &all, &l, l.from, false);
        else
            plain(p, &l, &all.text);
    }
    if (p->failed)
        return &p->none;
    if (bytes)
        n = parse_node(p, N_BYTES, NULL, NULL, NULL);
    else if (!f)
        return constant(p, string_value(p, &all.text), line);
    else {
        flush(p, &all);
        n = parse_node(p, N_JOINED, all.parts.first, NULL, NULL);
    }
    n->line = line;
    return n;
}
