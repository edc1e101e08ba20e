#include "script/lex.h"

#include "base/ascii.h"

#include <string.h>

static const struct {
    const char *text;
    enum token kind;
} keywords[] = {
#define KEYWORD(id, text) {text, T_##id},
#include "script/keywords.def"
#undef KEYWORD
};

/* The longest first. */
static const struct {
    char text[4];
    enum token kind;
} operators[] = {
    {"**=", T_DSTAR_IS}, {"//=", T_DSLASH_IS}, {"<<=", T_LSHIFT_IS}, {">>=", T_RSHIFT_IS}, {"...", T_ELLIPSIS}, {"**", T_DSTAR},
    {"//", T_DSLASH},    {"<<", T_LSHIFT},     {">>", T_RSHIFT},     {"<=", T_LE},         {">=", T_GE},        {"==", T_EQ},
    {"!=", T_NE},        {"->", T_ARROW},      {":=", T_WALRUS},     {"+=", T_PLUS_IS},    {"-=", T_MINUS_IS},  {"*=", T_STAR_IS},
    {"/=", T_SLASH_IS},  {"%=", T_PERCENT_IS}, {"@=", T_AT_IS},      {"&=", T_AMPER_IS},   {"|=", T_BAR_IS},    {"^=", T_CARET_IS},
    {"+", T_PLUS},       {"-", T_MINUS},       {"*", T_STAR},        {"/", T_SLASH},       {"%", T_PERCENT},    {"@", T_AT},
    {"&", T_AMPER},      {"|", T_BAR},         {"^", T_CARET},       {"~", T_TILDE},       {"<", T_LT},         {">", T_GT},
    {"(", T_LPAR},       {")", T_RPAR},        {"[", T_LSQB},        {"]", T_RSQB},        {"{", T_LBRACE},     {"}", T_RBRACE},
    {",", T_COMMA},      {":", T_COLON},       {";", T_SEMI},        {".", T_DOT},         {"=", T_ASSIGN},     {"!", T_BANG},
};

static bool name_starts(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
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

    while (n < 3 && strchr("rRbBuUfF", peek(l, n)) && peek(l, n))
        n++;
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

static void name(struct lex *l)
{
    size_t n = 1, lo = 0, hi = sizeof keywords / sizeof *keywords;

    while (name_goes_on(peek(l, n)))
        n++;
    take(l, T_NAME, n);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int order = strncmp(l->text, keywords[mid].text, n);

        if (!order && keywords[mid].text[n])
            order = -1;
        if (!order) {
            l->kind = keywords[mid].kind;
            return;
        }
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
}

static void operator(struct lex *l)
{
    size_t room = (size_t)(l->end - l->at);

    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i].text);

        if (n > room || memcmp(l->at, operators[i].text, n) != 0)
            continue;
        take(l, operators[i].kind, n);
        if (l->kind == T_LPAR || l->kind == T_LSQB || l->kind == T_LBRACE) {
            if (++l->parens > LEX_PARENS)
                bad(l, "too many nested parentheses");
        } else if (l->kind == T_RPAR || l->kind == T_RSQB || l->kind == T_RBRACE) {
            l->parens -= l->parens > 0;
        }
        return;
    }
    bad(l, "invalid character");
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
