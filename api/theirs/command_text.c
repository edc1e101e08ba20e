/* A command line as JSON: words as a POSIX shell cuts them, then flags and their values. */
#include "api/theirs/command_text.h"

#include "api/theirs/yaml_text.h"
#include "base/jsonw.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 2048, TEXT_MOST = 1 << 20 };

struct word_of_shell {
    const char *s;
    bool ends; /* the command ends before it */
};

struct command {
    struct arena *arena;
    struct word_of_shell *words;
    unsigned n;
    bool full;
    struct jsonw w;
};

/* --- words ----------------------------------------------------------------------------------------------------------------------- */

static const char *skip_quotes(const char *p, struct buf *word)
{
    char quote = *p++;

    for (; *p && *p != quote; p++) {
        if (quote == '"' && *p == '\\' && p[1])
            p++;
        buf_char(word, *p);
    }
    return p + (*p != 0);
}

static const char *skip_substitution(const char *p, struct buf *word)
{
    unsigned depth = 0;

    do {
        depth += *p == '(';
        depth -= *p == ')' && depth;
        buf_char(word, *p++);
    } while (*p && depth);
    return p;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_word(char c)
{
    return !c || is_blank(c) || strchr("\n;|&<>", c);
}

static const char *take_word(struct command *c, const char *p, bool ends)
{
    struct buf word;

    buf_init(&word, c->arena, TEXT_MOST);
    while (!ends_word(*p)) {
        if (*p == '"' || *p == '\'')
            p = skip_quotes(p, &word);
        else if (*p == '$' && p[1] == '(')
            p = skip_substitution(p + 1, &word);
        else if (*p == '\\' && p[1] == '\n')
            break;
        else
            buf_char(&word, *p++);
    }
    c->full |= !buf_ok(&word) || c->n == WORDS_MOST;
    if (!c->full)
        c->words[c->n++] = (struct word_of_shell){buf_text(&word), ends};
    return p;
}

static void cut(struct command *c, const char *p)
{
    bool ends = false;

    while (*p && !c->full) {
        if (*p == '\\' && (p[1] == '\n' || (p[1] == '\r' && p[2] == '\n'))) {
            p += p[1] == '\r' ? 3 : 2;
        } else if (is_blank(*p)) {
            p++;
        } else if (*p == '#') {
            p += strcspn(p, "\n");
        } else if (strchr("\n;|&<>", *p)) {
            ends = true;
            p++;
        } else {
            p = take_word(c, p, ends);
            ends = false;
        }
    }
}

/* --- values ---------------------------------------------------------------------------------------------------------------------- */

static bool is_flag(const char *s)
{
    return s[0] == '-' && s[1] == '-' && isalpha((unsigned char)s[2]);
}

static size_t name_bytes(const char *s)
{
    size_t n = 0;

    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    return n;
}

/* "NAME=value" */
static const char *assigned(const char *word, const char *name, size_t n)
{
    return !strncmp(word, name, n) && word[n] == '=' ? word + n + 1 : NULL;
}

/* What a variable holds, where the text says so. */
static const char *value_of(const struct command *c, const char *s)
{
    const char *ret = s, *name = s + 1 + (s[1] == '{');
    size_t n = s[0] == '$' ? name_bytes(name) : 0;

    if (n && (!name[n] || !strcmp(name + n, "}")))
        for (unsigned i = 0; i < c->n && !is_flag(c->words[i].s); i++)
            ret = assigned(c->words[i].s, name, n) ? assigned(c->words[i].s, name, n) : ret;
    return ret;
}

static const char *take_term(const struct command *c, const char *p, double *ret, bool *known)
{
    char term[64];
    size_t n = strcspn(p, " /)");
    const char *value;
    char *end;

    if (n >= sizeof term) {
        *known = false;
        return p;
    }
    memcpy(term, p, n);
    term[n] = 0;
    value = value_of(c, term);
    *ret = strtod(value, &end);
    *known &= *value && !*end;
    return p + n + strspn(p + n, " ");
}

/* (expr 16 / $n), (($TOTAL/$GPUS/$ROWS)): how the scripts of ms-swift and open-instruct divide a batch over GPUs. 0: none of these. */
static uint64_t quotient(const struct command *c, const char *s)
{
    const char *p = !strncmp(s, "(expr ", 6) ? s + 6 : !strncmp(s, "((", 2) ? s + 2 : NULL;
    double left, right;
    bool known = p;

    if (!p)
        return 0;
    p = take_term(c, p + strspn(p, " "), &left, &known);
    if (*p != '/')
        return 0;
    while (known && *p == '/') {
        p = take_term(c, p + 1 + strspn(p + 1, " "), &right, &known);
        known &= right >= 1 && left >= right && left < 1e9;
        left = known ? (double)(uint64_t)(left / right) : 0;
    }
    return known && *p == ')' ? (uint64_t)left : 0;
}

static void write_value(struct command *c, const char *name, const char *s)
{
    struct json *object = NULL;
    struct err ignored;
    uint64_t n;

    s = value_of(c, s);
    n = quotient(c, s);
    if (n)
        jsonw_u64(&c->w, name, n);
    else if (*s == '{' && !json_parse(s, strlen(s), &json_limits_config, &object, &ignored))
        jsonw_raw(&c->w, name, s, strlen(s));
    else
        yaml_write_plain(&c->w, name, s);
    json_free(object);
}

static unsigned write_flag(struct command *c, unsigned i, unsigned end)
{
    const char *flag = c->words[i].s + 2, *equals = strchr(flag, '=');
    size_t n = equals ? (size_t)(equals - flag) : strlen(flag);
    char *name = arena_str(c->arena, flag, n);
    unsigned last = ++i;

    c->full |= !name;
    for (char *p = name; p && *p; p++)
        *p = *p == '-' ? '_' : *p;
    while (last < end && !is_flag(c->words[last].s))
        last++;
    if (c->full)
        return last;
    if (equals)
        write_value(c, name, equals + 1);
    else if (last == i)
        jsonw_bool(&c->w, name, true);
    else if (last == i + 1)
        write_value(c, name, c->words[i].s);
    else {
        jsonw_array(&c->w, name);
        for (; i < last; i++)
            write_value(c, NULL, c->words[i].s);
        jsonw_end(&c->w);
    }
    return last;
}

static void write_flags(struct command *c, unsigned from, unsigned end)
{
    while (from < end && !c->full)
        from = is_flag(c->words[from].s) ? write_flag(c, from, end) : from + 1;
}

/* --- the command ----------------------------------------------------------------------------------------------------------------- */

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

/* The first word after a launcher's flags: that of its script. `from`: no launcher starts the command. */
static unsigned after_script(const struct command *c, unsigned from, unsigned end)
{
    bool launched = false;

    for (unsigned i = from; i < end && (launched || !is_flag(c->words[i].s)); i++) {
        const char *s = c->words[i].s;

        if (launched && ends_in(s, ".py") && !is_flag(s))
            return i + 1;
        launched |= !strncmp(s, "python", 6) || !strcmp(s, "uv") || ends_in(s, "torchrun") || ends_in(s, "accelerate") || ends_in(s, "deepspeed");
    }
    return from;
}

/* A command that starts another: what follows "--". */
static unsigned after_dashes(const struct command *c, unsigned from, unsigned end)
{
    unsigned ret = from;

    for (unsigned i = from; i + 1 < end; i++)
        ret = strcmp(c->words[i].s, "--") != 0 ? ret : i + 1;
    return ret;
}

static void write_environment(struct command *c, unsigned end)
{
    static const char *const names[] = {"NPROC_PER_NODE", "NNODES"};

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char *value = NULL;

        for (unsigned i = 0; i < end; i++)
            value = assigned(c->words[i].s, names[k], strlen(names[k])) ? assigned(c->words[i].s, names[k], strlen(names[k])) : value;
        if (value)
            write_value(c, names[k], value);
    }
}

/* The script, or the word that a program of several commands is given: "dpo.py", "rlhf" of `swift rlhf`. */
static void write_run(struct command *c, unsigned begin, unsigned first, unsigned script)
{
    unsigned at = script > begin ? script - 1 : first - 1;

    if (first > begin && (script > begin || first > begin + 1) && !strchr(c->words[at].s, '='))
        jsonw_str(&c->w, "run", c->words[at].s);
}

static enum err_code write_command(struct command *c, struct err *err)
{
    unsigned first = 0, begin, end, script;

    while (first < c->n && !is_flag(c->words[first].s))
        first++;
    if (first == c->n)
        return err_set(err, ERR_FIELD_VALUE, "", "no flag stands in this command");
    for (begin = first; begin && !c->words[begin].ends; begin--)
        ;
    for (end = first + 1; end < c->n && !c->words[end].ends; end++)
        ;
    begin = after_dashes(c, begin, end);
    script = after_script(c, begin, end);
    jsonw_object(&c->w, NULL);
    jsonw_object(&c->w, "launcher");
    write_environment(c, first);
    write_run(c, begin, first, script);
    write_flags(c, begin, script > begin ? script - 1 : begin);
    jsonw_end(&c->w);
    write_flags(c, script, end);
    jsonw_end(&c->w);
    return ERR_OK;
}

enum err_code command_parse(const char *text, struct arena *arena, struct json **ret, struct err *err)
{
    struct command c = {.arena = arena, .words = arena_array(arena, struct word_of_shell, WORDS_MOST)};
    struct buf out;
    enum err_code rc = ERR_OK;

    c.full = !c.words;
    if (!c.full)
        cut(&c, text);
    buf_init(&out, arena, TEXT_MOST);
    jsonw_init(&c.w, &out, false);
    if (!c.full)
        rc = write_command(&c, err);
    if (rc)
        return rc;
    if (c.full && c.n == WORDS_MOST)
        return err_set(err, ERR_FIELD_RANGE, "", "a command of more than %d words", (int)WORDS_MOST);
    if (c.full || !jsonw_done(&c.w))
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for this command");
    return json_parse(buf_text(&out), out.bytes, &json_limits_request, ret, err);
}

bool command_is(const char *text)
{
    const char *p = text;
    size_t name;

    while (*p && (isspace((unsigned char)*p) || *p == '#'))
        p += *p == '#' ? strcspn(p, "\n") : 1;
    name = strcspn(p, ":\n");
    if (*p == '{' || *p == '[' || !strncmp(p, "---", 3) ||
        (p[name] == ':' && !memchr(p, ' ', name) && (isspace((unsigned char)p[name + 1]) || !p[name + 1])))
        return false;
    for (p = strstr(p, "--"); p && !is_flag(p); p = strstr(p + 1, "--"))
        ;
    return p;
}
