#include "tuning/pattern.h"

#include "tuning/pattern_code.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- a text into code: relative jumps, so that code may move and be copied -------------------------------------------------------------- */

enum { DEPTH_MAX = 32, WIDTH_ANY = 1 << 20, REPEAT_MAX = 1000 };

struct parser {
    struct pattern *p;
    const char *text, *s;
    unsigned depth;
    bool fold;    /* (?i) */
    char why[96]; /* what is wrong; "": nothing */
};

/* How many characters a piece takes. */
struct width {
    int least, most;
};

static void fault(struct parser *r, const char *fmt, ...) PRINTF(2, 3);
static void fault(struct parser *r, const char *fmt, ...)
{
    va_list ap;

    if (r->why[0])
        return;
    va_start(ap, fmt);
    (void)vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
}

static void emit(struct parser *r, enum pattern_op op, int a, int b)
{
    if (r->p->n == PATTERN_MAX_CODE)
        fault(r, "it is too long");
    else
        r->p->code[r->p->n++] = (struct pattern_code){(uint8_t)op, (int16_t)a, (int16_t)b};
}

/* Room for one instruction before what begins at `at`. */
static void insert(struct parser *r, uint32_t at, enum pattern_op op, int a, int b)
{
    emit(r, op, a, b);
    if (r->why[0])
        return;
    memmove(&r->p->code[at + 1], &r->p->code[at], (r->p->n - 1 - at) * sizeof *r->p->code);
    r->p->code[at] = (struct pattern_code){(uint8_t)op, (int16_t)a, (int16_t)b};
}

/* --- sets of characters ------------------------------------------------------------------------------------------------------------------ */

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

bool pattern_is_word(int c)
{
    return is_letter(c) || is_digit(c) || c == '_';
}

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void set_add(struct pattern_set *set, int c)
{
    set->bits[c >> 5] |= UINT32_C(1) << (c & 31);
}

/* \d and the like; false: no kind of characters. */
static bool add_kind(struct pattern_set *set, char kind)
{
    char lower = (char)(kind | 0x20);

    if (!strchr("dws", lower) || !is_letter(kind))
        return false;
    for (int c = 0; c < 256; c++) {
        bool in = lower == 'd' ? is_digit(c) : lower == 'w' ? pattern_is_word(c) : is_space(c);

        if (in != (kind != lower))
            set_add(set, c);
    }
    return true;
}

static void emit_set(struct parser *r, struct pattern_set set)
{
    for (int c = 'a'; r->fold && c <= 'z'; c++)
        if (pattern_has(&set, c) || pattern_has(&set, c - 32)) {
            set_add(&set, c);
            set_add(&set, c - 32);
        }
    if (r->p->n_sets == PATTERN_MAX_SETS) {
        fault(r, "it has too many characters");
        return;
    }
    r->p->sets[r->p->n_sets] = set;
    emit(r, PATTERN_SET, (int)r->p->n_sets++, 0);
}

static int hex(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The character after a backslash at r->s, which is moved over it; 0: none of one character. */
static int escaped(struct parser *r)
{
    static const char from[] = "ntrfva", to[] = "\n\t\r\f\v\a";
    char c = *r->s;
    const char *known = c ? strchr(from, c) : NULL;

    if (!c) {
        fault(r, "a backslash at its end");
        return 0;
    }
    r->s++;
    if (known)
        return to[known - from];
    if (c == 'x' && hex(r->s[0]) >= 0 && hex(r->s[1]) >= 0) {
        r->s += 2;
        return hex(r->s[-2]) * 16 + hex(r->s[-1]);
    }
    if (is_digit(c))
        fault(r, "backreferences are not read");
    else if (is_letter(c))
        fault(r, "bad escape \\%c", c);
    return (unsigned char)c;
}

/* One end of a range, or a kind of characters (-1), within brackets. */
static int class_character(struct parser *r, struct pattern_set *set)
{
    char c = *r->s++;

    if (c != '\\')
        return (unsigned char)c;
    if (*r->s && add_kind(set, *r->s)) {
        r->s++;
        return -1;
    }
    if (*r->s == 'b') {
        r->s++;
        return '\b';
    }
    return escaped(r);
}

static void parse_class(struct parser *r)
{
    struct pattern_set set = {{0}};
    bool negated = *r->s == '^', first = true;

    r->s += negated;
    for (; !r->why[0] && (*r->s != ']' || first); first = false) {
        int from, to;

        if (!*r->s) {
            fault(r, "a [ without its ]");
            return;
        }
        from = to = class_character(r, &set);
        if (r->s[0] == '-' && r->s[1] && r->s[1] != ']') {
            r->s++;
            to = class_character(r, &set);
            if (from < 0 || to < from)
                fault(r, "a bad range of characters");
        }
        for (int c = from; c >= 0 && c <= to && !r->why[0]; c++)
            set_add(&set, c);
    }
    if (r->why[0])
        return;
    r->s++;
    for (int i = 0; negated && i < 8; i++)
        set.bits[i] = ~set.bits[i];
    emit_set(r, set);
}

/* --- pieces ------------------------------------------------------------------------------------------------------------------------------- */

static struct width parse_choice(struct parser *r);

static void close_group(struct parser *r)
{
    if (*r->s == ')')
        r->s++;
    else
        fault(r, "a ( without its )");
}

static struct width parse_look(struct parser *r, bool behind)
{
    bool negative = *r->s++ == '!';
    uint32_t at = r->p->n;
    struct width w;

    emit(r, PATTERN_LOOK, 0, 0);
    w = parse_choice(r);
    emit(r, PATTERN_MATCH, 0, 0);
    close_group(r);
    if (behind && w.least != w.most)
        fault(r, "a look-behind of more than one width");
    if (!r->why[0])
        r->p->code[at] = (struct pattern_code){(uint8_t)(negative ? PATTERN_LOOK_NOT : PATTERN_LOOK), (int16_t)(r->p->n - at),
                                               (int16_t)(behind ? w.least : -1)};
    return (struct width){0, 0};
}

/* Flags after "(?": a group of its own where ':' follows, else of the whole pattern, which they have to begin. */
static struct width parse_flags(struct parser *r)
{
    bool fold = r->fold, at_begin = r->s == r->text + 2;
    struct width w = {0, 0};

    for (; *r->s && strchr("imsaux", *r->s); r->s++) {
        if (*r->s == 'x')
            fault(r, "the flag x is not read");
        r->fold |= *r->s == 'i';
    }
    if (*r->s == ':') {
        r->s++;
        w = parse_choice(r);
        r->fold = fold;
    } else if (!at_begin) {
        fault(r, *r->s == ')' ? "flags that are not at its beginning" : "an extension that is not read");
    }
    close_group(r);
    return w;
}

static struct width parse_extension(struct parser *r)
{
    struct width w = {0, 0};

    if (*r->s == '=' || *r->s == '!')
        return parse_look(r, false);
    if (r->s[0] == '<' && (r->s[1] == '=' || r->s[1] == '!')) {
        r->s++;
        return parse_look(r, true);
    }
    if (r->s[0] == 'P' && r->s[1] == '<') {
        r->s += 2 + strcspn(r->s + 2, ">)");
        if (*r->s != '>') {
            fault(r, "a group's name without its >");
            return w;
        }
        r->s++;
        w = parse_choice(r);
    } else if (*r->s == ':') {
        r->s++;
        w = parse_choice(r);
    } else if (*r->s == '#') {
        r->s += strcspn(r->s, ")");
    } else {
        return parse_flags(r);
    }
    close_group(r);
    return w;
}

static struct width parse_group(struct parser *r)
{
    struct width w = {0, 0};

    if (++r->depth > DEPTH_MAX) {
        fault(r, "its groups are too deep");
    } else if (*r->s == '?') {
        r->s++;
        w = parse_extension(r);
    } else {
        w = parse_choice(r);
        close_group(r);
    }
    r->depth--;
    return w;
}

/* An escape outside of brackets. */
static struct width parse_escape(struct parser *r, bool *ret_anchor)
{
    struct pattern_set set = {{0}};
    const char *anchors = "AZbB", *anchor = *r->s ? strchr(anchors, *r->s) : NULL;
    int c;

    if (anchor) {
        static const enum pattern_op ops[] = {PATTERN_BEGIN, PATTERN_END, PATTERN_EDGE, PATTERN_NO_EDGE};

        emit(r, ops[anchor - anchors], 0, 0);
        r->s++;
        *ret_anchor = true;
        return (struct width){0, 0};
    }
    if (*r->s && add_kind(&set, *r->s)) {
        r->s++;
    } else {
        c = escaped(r);
        set_add(&set, c);
    }
    emit_set(r, set);
    return (struct width){1, 1};
}

static struct width parse_atom(struct parser *r, bool *ret_anchor)
{
    struct pattern_set set = {{0}};
    char c = *r->s++;

    switch (c) {
    case '(':
        return parse_group(r);
    case '[':
        parse_class(r);
        return (struct width){1, 1};
    case '\\':
        return parse_escape(r, ret_anchor);
    case '^':
    case '$':
        emit(r, c == '^' ? PATTERN_BEGIN : PATTERN_END, 0, 0);
        *ret_anchor = true;
        return (struct width){0, 0};
    case '.':
        memset(&set, 0xFF, sizeof set);
        break;
    case '*':
    case '+':
    case '?':
        fault(r, "nothing to repeat");
        break;
    default:
        set_add(&set, (unsigned char)c);
    }
    emit_set(r, set);
    return (struct width){1, 1};
}

/* --- repetition --------------------------------------------------------------------------------------------------------------------------- */

/* "{m}", "{m,}", "{,n}", "{m,n}" at s: its length; 0: a plain brace. most -1: without end. */
static size_t read_braces(const char *s, int *ret_least, int *ret_most)
{
    const char *begin = s++;
    int n[2] = {0, -1};

    for (int i = 0; i < 2; i++) {
        const char *from = s;

        for (; is_digit(*s); s++)
            n[i] = n[i] < 0 ? *s - '0' : n[i] > REPEAT_MAX ? n[i] : n[i] * 10 + (*s - '0');
        if (i == 0 && *s == '}') {
            n[1] = n[0];
            if (s == from)
                return 0;
            break;
        }
        if (*s != (i ? '}' : ','))
            return 0;
        s += i == 0;
    }
    *ret_least = n[0];
    *ret_most = n[1];
    return (size_t)(s + 1 - begin);
}

static size_t read_repeat(const char *s, int *ret_least, int *ret_most)
{
    if (*s == '{')
        return read_braces(s, ret_least, ret_most);
    if (!*s || !strchr("*+?", *s))
        return 0;
    *ret_least = *s == '+';
    *ret_most = *s == '?' ? 1 : -1;
    return 1;
}

static void copy(struct parser *r, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n && !r->why[0]; i++) {
        struct pattern_code c = r->p->code[from + i];

        emit(r, (enum pattern_op)c.op, c.a, c.b);
    }
}

/* The n instructions from `at` on, `least` to `most` times: the first copy stands there already. */
static void repeat(struct parser *r, uint32_t at, uint32_t n, int least, int most)
{
    int optional = most < 0 ? 1 : most - least;

    if (!most) {
        r->p->n = at;
        return;
    }
    for (int i = 1; i < least; i++)
        copy(r, at, n);
    if (least && most < 0) { /* the last copy again and again */
        emit(r, PATTERN_SPLIT, -(int)n, 1);
        return;
    }
    if (!least) {
        insert(r, at, PATTERN_SPLIT, 1, (int)n + 1 + (most < 0));
        if (most < 0)
            emit(r, PATTERN_JUMP, -(int)n - 1, 0);
        at++;
        optional--;
    }
    for (int i = 0; i < optional && most > 0; i++) { /* x? x? .. : as many of them as there are */
        emit(r, PATTERN_SPLIT, 1, (int)n + 1);
        copy(r, at, n);
    }
}

static int times(int width, int n)
{
    return n < 0 || width >= WIDTH_ANY || (int64_t)width * n >= WIDTH_ANY ? width ? WIDTH_ANY : 0 : width * n;
}

static struct width parse_piece(struct parser *r)
{
    uint32_t at = r->p->n;
    bool anchor = false;
    struct width w = parse_atom(r, &anchor);
    int least = 0, most = 0;
    size_t n = r->why[0] ? 0 : read_repeat(r->s, &least, &most);

    if (!n)
        return w;
    r->s += n;
    if (anchor)
        fault(r, "nothing to repeat");
    if (least > REPEAT_MAX || most > REPEAT_MAX)
        fault(r, "it repeats too often");
    if (most >= 0 && most < least)
        fault(r, "a repetition from more to less");
    r->s += *r->s == '?'; /* lazily: which way is tried first does not matter */
    if (*r->s == '+')
        fault(r, "possessive repetition is not read");
    if (read_repeat(r->s, &(int){0}, &(int){0}))
        fault(r, "multiple repeat");
    if (!r->why[0])
        repeat(r, at, r->p->n - at, least, most);
    return (struct width){times(w.least, least), times(w.most, most)};
}

static struct width parse_sequence(struct parser *r)
{
    struct width w = {0, 0};

    while (*r->s && *r->s != '|' && *r->s != ')' && !r->why[0]) {
        struct width piece = parse_piece(r);

        w.least = w.least + piece.least < WIDTH_ANY ? w.least + piece.least : WIDTH_ANY;
        w.most = w.most + piece.most < WIDTH_ANY ? w.most + piece.most : WIDTH_ANY;
    }
    return w;
}

/* a|b|c: split to a, jump to the end; split to b, ... */
static struct width parse_choice(struct parser *r)
{
    uint32_t at = r->p->n;
    struct width w = parse_sequence(r);

    while (*r->s == '|' && !r->why[0]) {
        uint32_t n = r->p->n - at, jump;
        struct width other;

        r->s++;
        insert(r, at, PATTERN_SPLIT, 1, (int)n + 2);
        jump = r->p->n;
        emit(r, PATTERN_JUMP, 0, 0);
        other = parse_sequence(r);
        if (r->why[0])
            break;
        r->p->code[jump].a = (int16_t)(r->p->n - jump);
        w.least = other.least < w.least ? other.least : w.least;
        w.most = other.most > w.most ? other.most : w.most;
    }
    return w;
}

enum err_code pattern_compile(const char *text, const char *at, struct arena *arena, const struct pattern **ret, struct err *err)
{
    struct parser r = {.p = arena_new(arena, struct pattern), .text = text, .s = text};

    if (!r.p)
        return err_set(err, ERR_NOMEM, at, "no room for a regular expression");
    if (strlen(text) > PATTERN_MAX_BYTES)
        fault(&r, "it is too long");
    else
        (void)parse_choice(&r);
    if (*r.s == ')')
        fault(&r, "a ) without its (");
    emit(&r, PATTERN_MATCH, 0, 0);
    if (r.why[0])
        return err_set(err, ERR_FIELD_VALUE, at, "is no regular expression that is read: %s, at position %u", r.why,
                       (unsigned)(r.s - text));
    *ret = r.p;
    return ERR_OK;
}
