#include "server/command.h"

#include "api/request/query.h"
#include "api/request/request.h"
#include "server/block.h"
#include "server/gather.h"
#include "server/installed.h"
#include "server/options.h"
#include "server/service.h"
#include "server/terminal/manual.h"
#include "server/terminal/table.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t read_all(FILE *from, char *into, size_t cap)
{
    size_t n = 0, got;

    do {
        got = fread(into + n, 1, cap - n, from);
        n += got;
    } while (got && n < cap);
    return n;
}

/* How the answer is given. */
struct form {
    const char *file, *snapshot; /* the request's file, "-" for standard input; where the snapshot goes; NULL: none */
    bool as_json, as_table;
};

/* --- what is asked in words: "model=a/b", "--gpu A100", "--seq-len=4096" ------------------------------------------------------ */

/* A member by its flag: "--seq-len" is seq_len. */
static void name_member(const char *flag, size_t n, char *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = (char)(flag[i] == '-' ? '_' : flag[i]);
    ret[n] = 0;
}

static bool is_member(const char *word)
{
    size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");

    return n && word[n] == '=';
}

/* A flag alone switches on, where there is something to switch. */
static bool is_switch(const char *name)
{
    struct place place = place_find(estimate_members, name);
    const struct member *m = place.depth ? place.row[place.depth - 1] : NULL;

    return !m || m->kind == KIND_BOOL || (m->kind == KIND_WORDS && word_find(m->words, "true", 4) >= 0);
}

/* The next word of the caller's as a parameter; *i moves on. false: none of what is accepted, or a name that is too long. */
static bool next_parameter(const struct options_rest *rest, int *i, char *ret_name, size_t bytes, const char **ret_value)
{
    const char *word = rest->v[(*i)++], *equals = strchr(word, '=');
    bool flag = !strncmp(word, "--", 2);
    size_t n;

    word += flag ? 2 : 0;
    n = equals ? (size_t)(equals - word) : strlen(word);
    if (!n || n >= bytes || (!flag && !equals))
        return false;
    name_member(word, n, ret_name);
    if (equals)
        *ret_value = equals + 1;
    else if (*i < rest->n && strncmp(rest->v[*i], "--", 2) != 0 && !is_member(rest->v[*i]))
        *ret_value = rest->v[(*i)++];
    else
        *ret_value = is_switch(ret_name) ? "true" : NULL;
    return true;
}

/*
 * A directory with a config.json, as from_pretrained() takes one: the hub's client finds it in the directory above by its last part. What is
 * no directory is an id.
 */
static const char *take_directory(const char *model, struct options *o, char path[PATH_MAX])
{
    char config[PATH_MAX], *slash;

    if ((size_t)snprintf(config, sizeof config, "%s/config.json", model) >= sizeof config || access(config, R_OK) || !realpath(model, path))
        return model;
    slash = strrchr(path, '/');
    *slash = 0;
    o->models = slash == path ? "/" : path;
    return slash + 1;
}

static char *put_escaped(char *at, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/,:";

    for (const char *p = text; *p; p++)
        at += snprintf(at, 4, strchr(plain, *p) ? "%c" : "%%%02X", (unsigned char)*p);
    return at;
}

/* What says how rather than what: --json, and a file. */
static bool take_form(const char *word, struct form *form)
{
    if (!strcmp(word, "--json") || !strcmp(word, "--table")) {
        *(word[2] == 'j' ? &form->as_json : &form->as_table) = true;
        return true;
    }
    if (form->file || (word[0] == '-' && word[1]) || is_member(word))
        return false;
    form->file = word;
    return true;
}

/* NULL: a line on standard error says why. `path` holds what o->models may come to point to. */
static char *query_of(const struct options_rest *rest, struct options *o, char path[PATH_MAX], struct form *form)
{
    size_t bytes = 1;
    char *query, *at, name[128];
    const char *value;

    for (int i = 0; i < rest->n; i++)
        bytes += 3 * strlen(rest->v[i]) + 8;
    query = at = malloc(bytes);
    for (int i = 0; query && i < rest->n;) {
        const char *word = rest->v[i];

        if (take_form(word, form)) {
            i++;
            continue;
        }
        if (!next_parameter(rest, &i, name, sizeof name, &value)) {
            fprintf(stderr, "llmemd estimate: %s: say it as --name value or name=value, or name the file of a request; see llmemd estimate --help\n", word);
            free(query);
            return NULL;
        }
        if (!value) {
            fprintf(stderr, "llmemd estimate: %s: it takes a value, which is missing; see llmemd estimate --help\n", word);
            free(query);
            return NULL;
        }
        if (!strcmp(name, "snapshot")) {
            form->snapshot = value;
            continue;
        }
        if (!strcmp(name, "model"))
            value = take_directory(value, o, path);
        at += at == query ? 0 : snprintf(at, 2, "&");
        at = put_escaped(at, name);
        at += snprintf(at, 2, "=");
        at = put_escaped(at, value);
    }
    if (query)
        *at = 0;
    return query;
}

static int exit_code(const struct api_response *r)
{
    if (r->status != 200)
        return r->status < 500 ? EXIT_BAD_REQUEST : EXIT_BROKEN;
    return r->fits ? EXIT_FITS : r->modelled ? EXIT_NOTHING_FITS : EXIT_NOT_MODELLED;
}

static void nothing(void *arg)
{
    (void)arg;
}

/* The needs lie below the answer in the same arena. */
static void answer(struct api_request *rq, struct hub_loop *loop, struct gather *f, struct api_response *ret)
{
    struct api_needs needs;

    api_needs(rq, &needs);
    f->no_memory = needs.failed;
    if (needs.failed)
        return;
    if (!gather_begin(f, loop, &needs, NULL, nothing, NULL))
        while (gather_is_open(f)) {
            hub_loop_wait(loop, -1, 1000);
            hub_loop_turn(loop);
        }
    api_answer(rq, gather_configs(f), f->n, ret);
}

/* A table on a terminal, and what is wrong on standard error there. */
static bool is_shown(const struct api_response *r, const struct form *form)
{
    struct paint p = paint_of(stdout), errors = paint_of(stderr);

    if (form->as_json || form->snapshot || !(form->as_table || p.is_terminal))
        return false;
    return r->status == 200 ? table_answer(&p, r->body, r->bytes) : table_problem(&errors, r->body, r->bytes);
}

/* The answer goes to standard output; a snapshot to its file, what is wrong with it to standard error. */
static bool put_answer(const struct api_response *r, const struct form *form)
{
    const char *snapshot = form->snapshot;
    FILE *to;
    bool written;

    if (is_shown(r, form))
        return !fflush(stdout);
    to = !snapshot ? stdout : r->status != 200 ? stderr : fopen(snapshot, "wb");
    if (!to) {
        perror(snapshot);
        return false;
    }
    written = fwrite(r->body, 1, r->bytes, to) == r->bytes && !fflush(to);
    if (to != stdout && to != stderr)
        written &= !fclose(to);
    return written;
}

static int ask(struct api_request *rq, struct hub *hub, uint64_t work_events, const struct form *form)
{
    struct budget work = {.limit_events = work_events};
    struct hub_loop *loop = hub_loop_new(hub);
    void *block = block_for_work(API_ARENA_BYTES);
    struct gather f = {0};
    struct api_response r;
    struct arena arena;
    int code = EXIT_BROKEN;

    if (loop && block) {
        arena_init(&arena, block, API_ARENA_BYTES);
        rq->arena = &arena;
        rq->budget = &work;
        rq->installed = installed_all();
        answer(rq, loop, &f, &r);
        if (!f.no_memory && put_answer(&r, form))
            code = exit_code(&r);
        gather_end(&f);
    }
    block_free(block, API_ARENA_BYTES);
    if (loop)
        hub_loop_free(loop);
    return code;
}

/* The request of a file or of standard input; false: a line on standard error says why there is none. */
static bool read_request(const struct form *form, char *text, struct api_request *rq)
{
    FILE *from = !form->file || !strcmp(form->file, "-") ? stdin : fopen(form->file, "rb");

    if (from == stdin && isatty(STDIN_FILENO) && !form->file) {
        fprintf(stderr, "llmemd estimate: what? Like: llmemd estimate --model Qwen/Qwen2.5-7B --gpu 4090 --tuning lora; see llmemd estimate --help\n");
        return false;
    }
    if (!from) {
        fprintf(stderr, "llmemd estimate: %s: %s\n", form->file, strerror(errno));
        return false;
    }
    rq->method = "POST";
    rq->body = text;
    rq->body_bytes = read_all(from, text, API_BODY_MAX + 1);
    if (from != stdin)
        (void)fclose(from);
    return true;
}

static int estimate(const struct options *o, char *text, bool in_words, const struct form *form)
{
    struct api_request rq = {.path = form->snapshot ? "/estimate/snapshot" : "/estimate", .body = ""};
    uint64_t fresh_ms;
    struct hub *hub;
    int code = EXIT_BROKEN;

    if (in_words) {
        rq.method = "GET";
        rq.query = text;
    } else if (!read_request(form, text, &rq)) {
        return EXIT_BAD_REQUEST;
    }
    hub = installed_open(o->installed) ? service_hub(o, &fresh_ms) : NULL;
    if (hub) {
        code = ask(&rq, hub, o->work_budget, form);
        hub_free(hub);
    }
    installed_close();
    return code;
}

int command_estimate(int argc, char **argv, int first)
{
    struct options_rest rest;
    struct options o;
    struct form form = {0};
    char path[PATH_MAX], *text, *query = NULL;
    int code;

    for (int i = first; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return manual_help(stdout, "estimate");
    if (!options_read(&o, argc, argv, first, &rest))
        return EXIT_BAD_REQUEST;
    if (rest.n)
        query = query_of(&rest, &o, path, &form);
    if (rest.n && !query)
        return EXIT_BAD_REQUEST;
    if (form.file && query[0]) {
        fprintf(stderr, "llmemd estimate: %s: a file is the whole request; say all of it there, or none\n", form.file);
        free(query);
        return EXIT_BAD_REQUEST;
    }
    text = query && query[0] ? query : malloc(API_BODY_MAX + 1);
    if (!text)
        return EXIT_BROKEN;
    code = estimate(&o, text, text == query, &form);
    if (text != query)
        free(text);
    free(query);
    return code;
}
