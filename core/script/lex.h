/*
 * lex.h - Python's tokens, one at a time. Copying a struct lex saves the place, to be gone back to.
 *
 * Indentation becomes T_INDENT and T_DEDENT, as in Python; tabs count to the next multiple of eight. A string is one token with its
 * prefix and quotes.
 */
#ifndef SCRIPT_LEX_H
#define SCRIPT_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token {
    T_END,
    T_NEWLINE,
    T_INDENT,
    T_DEDENT,
    T_NAME,
    T_NUMBER,
    T_STRING,
    T_BAD,
#define KEYWORD(id, text) T_##id,
#include "script/keywords.def"
#undef KEYWORD
    T_LPAR,
    T_RPAR,
    T_LSQB,
    T_RSQB,
    T_LBRACE,
    T_RBRACE,
    T_COMMA,
    T_COLON,
    T_SEMI,
    T_DOT,
    T_ELLIPSIS,
    T_ARROW,
    T_WALRUS,
    T_ASSIGN,
    T_BANG,
    /* binary operators in the order of enum script_binary, then the same with `=` */
    T_PLUS,
    T_MINUS,
    T_STAR,
    T_SLASH,
    T_DSLASH,
    T_PERCENT,
    T_DSTAR,
    T_AT,
    T_AMPER,
    T_BAR,
    T_CARET,
    T_LSHIFT,
    T_RSHIFT,
    T_PLUS_IS,
    T_MINUS_IS,
    T_STAR_IS,
    T_SLASH_IS,
    T_DSLASH_IS,
    T_PERCENT_IS,
    T_DSTAR_IS,
    T_AT_IS,
    T_AMPER_IS,
    T_BAR_IS,
    T_CARET_IS,
    T_LSHIFT_IS,
    T_RSHIFT_IS,
    T_TILDE,
    T_LT,
    T_LE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE, /* in the order of enum script_compare */
};

enum { LEX_INDENTS = 100, LEX_PARENS = 200 };

struct lex {
    const char *at, *end, *line_start;
    uint32_t line;
    int32_t parens; /* open brackets: line ends are blanks within */
    uint32_t n_indents;
    int32_t dedents; /* still to be told */
    bool line_begins;
    bool within;      /* an expression of an f-string: its line ends are blanks, too */
    const char *what; /* is wrong, with T_BAD */

    /* the token */
    enum token kind;
    const char *text;
    size_t bytes;
    uint32_t token_line;
    uint16_t indents[LEX_INDENTS];
};

void lex_init(struct lex *l, const char *text, size_t bytes, uint32_t line); /* and reads the first token */
void lex_next(struct lex *l);

#endif
