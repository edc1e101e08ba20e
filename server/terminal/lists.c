#include "server/terminal/lists.h"

#include "api/api.h"
#include "base/ascii.h"
#include "base/json.h"
#include "server/command.h"
#include "server/terminal/manual.h"
#include "server/terminal/paint.h"
#include "server/terminal/table.h"

#include <stdlib.h>
#include <string.h>

enum { QUERY_BYTES = 512 };

static const double gib = 1073741824.0;

/* --- asking -------------------------------------------------------------------------------------------------------------------------- */

static void escape(const char *text, char *at, size_t room)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";

    for (; *text && room > 4; text++) {
        int n = snprintf(at, room, strchr(plain, *text) ? "%c" : "%%%02X", (unsigned char)*text);

        at += n;
        room -= (size_t)n;
    }
    *at = 0;
}

struct asked {
    void *block;
    struct arena arena;
    struct api_response r;
};

static bool ask(struct asked *a, const char *path, const char *query)
{
    struct api_request rq = {.method = "GET", .path = path, .query = query, .body = "", .arena = &a->arena};

    *a = (struct asked){.block = malloc(API_CHEAP_BYTES)};
    if (!a->block)
        return false;
    arena_init(&a->arena, a->block, API_CHEAP_BYTES);
    api_answer(&rq, NULL, 0, &a->r);
    return a->r.status == 200;
}

/* --- showing ------------------------------------------------------------------------------------------------------------------------- */

static const char *str(const struct json *object, const char *name)
{
    const char *s = json_str(json_get(object, name));

    return s ? s : "";
}

static double number(const struct json *object, const char *name)
{
    double v = 0;

    (void)json_number(json_get(object, name), &v);
    return v;
}

static void put_model(const struct paint *p, const struct json *m)
{
    bool modelled = false;

    (void)json_bool(json_get(m, "modelled"), &modelled);
    if (!p->is_terminal) {
        fprintf(p->out, "%s\n", str(m, "id"));
        return;
    }
    paint_text(p, modelled ? INK_PLAIN : INK_DIM, 52, str(m, "id"));
    fprintf(p->out, " %-14.14s", str(m, "model_type"));
    if (number(m, "parameters") > 0)
        fprintf(p->out, "%8.2f B", number(m, "parameters") / 1e9);
    else
        fprintf(p->out, "%10s", "");
    fprintf(p->out, "  %s\n", modelled ? "" : "not modelled yet");
}

static void put_gpu(const struct paint *p, const struct json *g)
{
    double bytes = number(g, "usable_bytes");

    paint_text(p, INK_PLAIN, 24, str(g, "name"));
    fprintf(p->out, " %-8s %8.2f GiB\n", str(g, "compute_capability")[0] ? str(g, "compute_capability") : "-", bytes / gib);
}

static void put_cluster(const struct paint *p, const struct json *c)
{
    bool retired = ascii_begins(str(c, "status"), "retired", 7);

    paint_text(p, retired ? INK_DIM : INK_PLAIN, 20, str(c, "name"));
    fprintf(p->out, " %2.0f x %-18s %-24s %s\n", number(c, "gpus_per_node"), str(c, "gpu"), str(c, "site"), retired ? str(c, "status") : "");
}

static void put_word(const struct paint *p, const struct json *w)
{
    bool modelled = false;

    (void)json_bool(json_get(w, "modelled"), &modelled);
    paint_text(p, modelled ? INK_PLAIN : INK_DIM, 20, str(w, "name"));
    fprintf(p->out, " %s%s", modelled ? "modelled" : "not modelled yet", p->is_terminal ? ": " : "\n");
    if (p->is_terminal)
        paint_wrapped(p, 24, str(w, "description"));
}

static const struct list {
    const char *name, *path, *key;
    void (*put)(const struct paint *p, const struct json *row);
    bool has_ones; /* /gpus/NAME answers one of them */
} lists[] = {
    {"models", "/models", "models", put_model, false},        {"gpus", "/gpus", "gpus", put_gpu, true},
    {"clusters", "/clusters", "clusters", put_cluster, true}, {"methods", "/methods", "methods", put_word, false},
    {"optimizers", "/optimizers", "optimizers", put_word, false},
};

/* A member a line: what nobody knows is left out. */
static void put_one(const struct paint *p, const struct json *object)
{
    json_each (m, object) {
        double v;

        if (json_type(m) == JSON_NULL || (json_type(m) == JSON_ARRAY && !json_count(m)))
            continue;
        paint_text(p, INK_DIM, 26, json_name(m));
        if (json_type(m) == JSON_ARRAY) {
            const char *joint = " ";

            json_each (e, m) {
                fprintf(p->out, "%s%s", joint, json_str(e) ? json_str(e) : "?");
                joint = ", ";
            }
            fputc('\n', p->out);
        } else if (json_number(m, &v)) {
            fprintf(p->out, " %.15g\n", v);
        } else {
            fputc(' ', p->out);
            paint_wrapped(p, 27, json_str(m) ? json_str(m) : "?");
        }
    }
}

static unsigned put_rows(const struct paint *p, const struct list *list, const struct json *doc, const char *text)
{
    unsigned n = 0;

    json_each (row, json_get(doc, list->key))
        if (list->put != put_word || !text || strstr(str(row, "name"), text)) {
            list->put(p, row);
            n++;
        }
    return n;
}

/* --- the command ----------------------------------------------------------------------------------------------------------------------- */

static int show(const struct paint *p, const struct list *list, const struct api_response *r, bool is_one, bool as_json, const char *text)
{
    struct json *doc = NULL;
    unsigned n = 1;

    if (as_json)
        return fwrite(r->body, 1, r->bytes, p->out) == r->bytes ? 0 : EXIT_BROKEN;
    if (json_parse(r->body, r->bytes, &json_limits_config, &doc, NULL))
        return EXIT_BROKEN;
    if (is_one)
        put_one(p, doc);
    else
        n = put_rows(p, list, doc, text);
    json_free(doc);
    if (!n)
        fprintf(stderr, "llmemd %s: nothing has '%s' in its name\n", list->name, text);
    return n ? 0 : EXIT_BAD_REQUEST;
}

static int run(const struct list *list, const char *text, bool as_json)
{
    struct paint p = paint_of(stdout), errors = paint_of(stderr);
    char path[QUERY_BYTES], query[QUERY_BYTES] = "";
    struct asked one = {0}, all = {0};
    int code = EXIT_BAD_REQUEST;

    if (text && strlen(text) < 100) {
        memcpy(query, "q=", 2);
        escape(text, query + 2, sizeof query - 2);
    }
    (void)snprintf(path, sizeof path, "%s/%.100s", list->path, text ? text : "");
    if (text && list->has_ones && ask(&one, path, NULL))
        code = show(&p, list, &one.r, true, as_json, text);
    else if (!ask(&all, list->path, list->put == put_word || !text ? NULL : query))
        code = all.block ? (table_problem(&errors, all.r.body, all.r.bytes), EXIT_BAD_REQUEST) : EXIT_BROKEN;
    else if (one.r.body && !strstr(all.r.body, "{\"name\""))
        (void)table_problem(&errors, one.r.body, one.r.bytes);
    else
        code = show(&p, list, &all.r, false, as_json, text);
    free(one.block);
    free(all.block);
    return fflush(stdout) ? EXIT_BROKEN : code;
}

int command_list(const char *name, int argc, char **argv, int first)
{
    const struct list *list = lists;
    const char *text = NULL;
    bool as_json = false;

    while (strcmp(list->name, name) != 0)
        list++;
    for (int i = first; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            as_json = true;
        else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return manual_help(stdout, name);
        else if (argv[i][0] == '-' || text)
            return manual_refuse(name, argv[i]);
        else
            text = argv[i];
    }
    return run(list, text, as_json);
}
