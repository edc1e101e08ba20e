#include "script/lex.h"

#include "base/ascii.h"

#include <string.h>

static const struct {
    const char *text;
    size_t bytes;
    enum token kind;
} keywords[] = {
#define KEYWORD(id, text) {text, sizeof(text) - 1, T_##id},
#include "script/keywords.def"
#undef KEYWORD
};

/* Of one character, by itself; of more, the longest first: only what one of = * / < > . follows can be longer. */
static const uint8_t single[128] = {
    ['+'] = T_PLUS,  ['-'] = T_MINUS, ['*'] = T_STAR,  ['/'] = T_SLASH, ['%'] = T_PERCENT, ['@'] = T_AT,
    ['&'] = T_AMPER, ['|'] = T_BAR,   ['^'] = T_CARET, ['~'] = T_TILDE, ['<'] = T_LT,      ['>'] = T_GT,
    ['('] = T_LPAR,  [')'] = T_RPAR,  ['['] = T_LSQB,  [']'] = T_RSQB,  ['{'] = T_LBRACE,  ['}'] = T_RBRACE,
    [','] = T_COMMA, [':'] = T_COLON, [';'] = T_SEMI,  ['.'] = T_DOT,   ['='] = T_ASSIGN,  ['!'] = T_BANG,
};
static const struct {
    char text[4];
    uint8_t bytes;
    enum token kind;
} longer[] = {
    {"**=", 3, T_DSTAR_IS}, {"//=", 3, T_DSLASH_IS}, {"<<=", 3, T_LSHIFT_IS}, {">>=", 3, T_RSHIFT_IS}, {"...", 3, T_ELLIPSIS},
    {"**", 2, T_DSTAR},     {"//", 2, T_DSLASH},     {"<<", 2, T_LSHIFT},     {">>", 2, T_RSHIFT},     {"<=", 2, T_LE},
    {">=", 2, T_GE},        {"==", 2, T_EQ},         {"!=", 2, T_NE},         {"->", 2, T_ARROW},      {":=", 2, T_WALRUS},
    {"+=", 2, T_PLUS_IS},   {"-=", 2, T_MINUS_IS},   {"*=", 2, T_STAR_IS},    {"/=", 2, T_SLASH_IS},   {"%=", 2, T_PERCENT_IS},
    {"@=", 2, T_AT_IS},     {"&=", 2, T_AMPER_IS},   {"|=", 2, T_BAR_IS},     {"^=", 2, T_CARET_IS},
};

static bool name_starts(char c)
{
    return ((unsigned)(c | 0x20) - 'a' < 26) || c == '_' || (unsigned char)c >= 0x80;
}

static bool name_goes_on(char c)
{
    return name_starts(c) || ascii_digit(c);
}

static char peek(const struct lex *l, size_t n)
{
    return (size_t)(l->end - l->at) > n ? l->at[n] : '\0';
}

static void take(struct lex *l, enum token kind, size_t bytes)
{
    l->kind = kind;
    l->text = l->at;
    l->bytes = bytes;
    l->token_line = l->line;
    l->at += bytes;
}

static void bad(struct lex *l, const char *what)
{
    l->what = what;
    take(l, T_BAD, 0);
}

static void new_line(struct lex *l)
{
    if (peek(l, 0) == '\r')
        l->at++;
    if (peek(l, 0) == '\n')
        l->at++;
    l->line++;
    l->line_start = l->at;
}

static bool at_line_end(const struct lex *l)
{
    return peek(l, 0) == '\n' || (peek(l, 0) == '\r' && peek(l, 1) == '\n');
}

/* Blanks, comments and joined lines; within brackets line ends as well. */
static void skip_blanks(struct lex *l)
{
    for (;;) {
        char c = peek(l, 0);

        if (l->at >= l->end)
            return;
        if (c == ' ' || c == '\t' || c == '\f') {
            l->at++;
        } else if (c == '#') {
            while (l->at < l->end && !at_line_end(l))
                l->at++;
        } else if (c == '\\' && (peek(l, 1) == '\n' || (peek(l, 1) == '\r' && peek(l, 2) == '\n'))) {
            l->at++;
            new_line(l);
        } else if ((l->parens > 0 || l->within) && at_line_end(l)) {
            new_line(l);
        } else {
            return;
        }
    }
}

/* At the beginning of a line: its indentation against those that are open. False: the line has nothing on it. */
static bool indentation(struct lex *l)
{
    uint32_t column = 0;

    for (;; l->at++) {
        char c = peek(l, 0);

        if (c == ' ')
            column++;
        else if (c == '\t')
            column = (column / 8 + 1) * 8;
        else if (c == '\f')
            column = 0;
        else
            break;
    }
    if (l->at < l->end && (peek(l, 0) == '#' || at_line_end(l))) {
        skip_blanks(l);
        if (at_line_end(l))
            new_line(l);
        return false;
    }
    if (l->at >= l->end)
        column = 0;
    l->line_begins = false;
    if (column > l->indents[l->n_indents]) {
        if (l->n_indents + 1 >= LEX_INDENTS || column > UINT16_MAX) {
            bad(l, "too many levels of indentation");
            return true;
        }
        l->indents[++l->n_indents] = (uint16_t)column;
        take(l, T_INDENT, 0);
        return true;
    }
    while (l->n_indents && column < l->indents[l->n_indents]) {
        l->n_indents--;
        l->dedents++;
    }
    if (column != l->indents[l->n_indents])
        bad(l, "unindent does not match any outer indentation level");
    else if (l->dedents) {
        l->dedents--;
        take(l, T_DEDENT, 0);
    } else
        return false;
    return true;
}

static void number(struct lex *l)
{
    size_t n = 0;

    if (peek(l, 0) == '0' && (ascii_lower(peek(l, 1)) == 'x' || ascii_lower(peek(l, 1)) == 'o' || ascii_lower(peek(l, 1)) == 'b')) {
        n = 2;
        while (name_goes_on(peek(l, n)))
            n++;
        take(l, T_NUMBER, n);
        return;
    }
    for (;; n++) {
        char c = peek(l, n);

        if (ascii_lower(c) == 'e' &&
            (ascii_digit(peek(l, n + 1)) || ((peek(l, n + 1) == '-' || peek(l, n + 1) == '+') && ascii_digit(peek(l, n + 2)))))
            n++;
        else if (!ascii_digit(c) && c != '.' && c != '_')
            break;
    }
    if (ascii_lower(peek(l, n)) == 'j')
        n++;
    take(l, T_NUMBER, n);
    if (name_starts(peek(l, 0))) /* 1if x else y is valid, but nobody writes it */
        bad(l, "invalid decimal literal");
}

/* Bytes of a string's prefix, when one begins here; else SIZE_MAX. */
static size_t string_prefix(const struct lex *l)
{
    size_t n = 0;

    for (; n < 3; n++) {
        char c = ascii_lower(peek(l, n));

        if (c != 'r' && c != 'b' && c != 'u' && c != 'f')
            break;
    }
    return peek(l, n) == '"' || peek(l, n) == '\'' ? n : SIZE_MAX;
}

static void string(struct lex *l, size_t prefix)
{
    size_t n = prefix;
    char quote = peek(l, n);
    bool triple = peek(l, n + 1) == quote && peek(l, n + 2) == quote;
    uint32_t line = l->line;
    const char *line_start = l->line_start;

    n += triple ? 3 : 1;
    for (;; n++) {
        if (l->at + n >= l->end) {
            bad(l, "unterminated string literal");
            return;
        }
        char c = l->at[n];

        if (c == '\n') {
            if (!triple) {
                bad(l, "unterminated string literal");
                return;
            }
            line++;
            line_start = l->at + n + 1;
        } else if (c == '\\') {
            n++;
            if (peek(l, n) == '\r' && peek(l, n + 1) == '\n')
                n++;
            if (peek(l, n) == '\n') {
                line++;
                line_start = l->at + n + 1;
            }
        } else if (c == quote && (!triple || (peek(l, n + 1) == quote && peek(l, n + 2) == quote))) {
            break;
        }
    }
    n += triple ? 3 : 1;
    take(l, T_STRING, n);
    l->line = line;
    l->line_start = line_start;
}

/* Where keywords of a first character begin. */
static size_t first_keyword(char c)
{
    size_t lo = 0, hi = sizeof keywords / sizeof *keywords;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (keywords[mid].text[0] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void name(struct lex *l)
{
    enum { LONGEST = 8 }; /* "continue", "nonlocal" */
    const char *at = l->at + 1;
    size_t n;

    while (at < l->end && name_goes_on(*at))
        at++;
    n = (size_t)(at - l->at);
    take(l, T_NAME, n);
    for (size_t i = n <= LONGEST ? first_keyword(*l->text) : SIZE_MAX; i < sizeof keywords / sizeof *keywords; i++) {
        if (keywords[i].text[0] != *l->text)
            break;
        if (keywords[i].bytes == n && memcmp(keywords[i].text, l->text, n) == 0)
            l->kind = keywords[i].kind;
    }
}

/* A bracket changes what line ends are. */
static void bracket(struct lex *l)
{
    if (l->kind == T_LPAR || l->kind == T_LSQB || l->kind == T_LBRACE) {
        if (++l->parens > LEX_PARENS)
            bad(l, "too many nested parentheses");
    } else if (l->kind == T_RPAR || l->kind == T_RSQB || l->kind == T_RBRACE) {
        l->parens -= l->parens > 0;
    }
}

static void operator(struct lex *l)
{
    size_t room = (size_t)(l->end - l->at);
    char c = *l->at, after = peek(l, 1);
    enum token kind = (unsigned char)c < 128 ? (enum token)single[(unsigned char)c] : T_END;

    if (after == '=' || after == '*' || after == '/' || after == '<' || after == '>' || after == '.')
        for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
            if (longer[i].text[0] == c && longer[i].bytes <= room && memcmp(l->at, longer[i].text, longer[i].bytes) == 0) {
                take(l, longer[i].kind, longer[i].bytes);
                return;
            }
    if (kind == T_END) {
        bad(l, "invalid character");
        return;
    }
    take(l, kind, 1);
    bracket(l);
}

void lex_next(struct lex *l)
{
    if (l->kind == T_BAD)
        return;
    if (l->dedents) {
        l->dedents--;
        take(l, T_DEDENT, 0);
        return;
    }
    while (l->line_begins) {
        if (indentation(l))
            return;
    }
    skip_blanks(l);
    if (l->at >= l->end) {
        if (l->within || (l->kind == T_END && !l->n_indents)) {
            take(l, T_END, 0);
        } else if (l->kind != T_NEWLINE && l->kind != T_DEDENT && l->kind != T_END) {
            take(l, T_NEWLINE, 0);
            l->line_begins = true;
        } else {
            take(l, T_END, 0);
        }
        return;
    }
    if (at_line_end(l)) {
        take(l, T_NEWLINE, 0);
        new_line(l);
        l->line_begins = true;
        return;
    }

    char c = peek(l, 0);
    size_t prefix = string_prefix(l);

    if (prefix != SIZE_MAX)
        string(l, prefix);
    else if (name_starts(c))
        name(l);
    else if (ascii_digit(c) || (c == '.' && ascii_digit(peek(l, 1))))
        number(l);
    else
        operator(l);
}

void lex_init(struct lex *l, const char *text, size_t bytes, uint32_t line)
{
    memset(l, 0, sizeof *l);
    l->at = text;
    l->end = text + bytes;
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        l->at += 3;
    l->line_start = l->at;
    l->line = line;
    l->line_begins = true;
    l->kind = T_NEWLINE;
    lex_next(l);
}
