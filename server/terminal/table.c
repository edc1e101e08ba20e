#include "server/terminal/table.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 12, NAME_COLUMNS = 14, NOTES_MAX_LINES = 6, RESTS_MAX_LINES = 3 };

static const double gib = 1073741824.0;

static const char *str(const struct json *object, const char *name)
{
    const char *s = json_str(json_get(object, name));

    return s ? s : "";
}

/* 0 where there is none. */
static double number(const struct json *object, const char *name)
{
    double v = 0;

    (void)json_number(json_get(object, name), &v);
    return v;
}

static bool is_true(const struct json *object, const char *name)
{
    bool b = false;

    return json_bool(json_get(object, name), &b) && b;
}

static double takes(const struct json *memory)
{
    double device;

    if (json_number(json_get(memory, "device_bytes"), &device))
        return device;
    return number(memory, "high_bytes") + number(memory, "context_bytes") + number(memory, "nccl_bytes");
}

/* --- rows -------------------------------------------------------------------------------------------------------------------------- */

static enum ink ink_of(const struct json *candidate)
{
    if (!is_true(candidate, "fits"))
        return INK_BAD;
    return is_true(json_get(candidate, "memory"), "tight") || is_true(candidate, "tight") ? INK_TIGHT : INK_GOOD;
}

static const char *checkpointing_of(const struct json *candidate)
{
    const struct json *v = json_get(candidate, "gradient_checkpointing");
    bool on;

    return json_str(v) ? json_str(v) : json_bool(v, &on) && on ? "yes" : "no";
}

static const char *offload_of(const struct json *candidate)
{
    const char *word = str(candidate, "offload");

    return !strcmp(word, "none") ? "-" : !strcmp(word, "optimizer+params") ? "opt+params" : word;
}

/* A row beside its bar, and a column that stays free. */
enum { ROW_COLUMNS = 74, BAR_LEAST = 6, BAR_MOST = 32, HEAD_COLUMNS = 12 };

static unsigned bar_cells(const struct paint *p)
{
    unsigned rest = p->columns > ROW_COLUMNS ? p->columns - ROW_COLUMNS : 0;

    return rest < BAR_LEAST ? BAR_LEAST : rest > BAR_MOST ? BAR_MOST : rest;
}

static void put_head(const struct paint *p, double capacity)
{
    char head[64] = ""; /* of a shorter bar: the sentence above has it */

    if (bar_cells(p) >= HEAD_COLUMNS)
        (void)snprintf(head, sizeof head, "of %.1f GiB", capacity / gib);
    fputs("  ", p->out);
    paint_text(p, INK_DIM, NAME_COLUMNS, "method");
    paint_text(p, INK_DIM, 7, " tuning");
    paint_text(p, INK_DIM, 11, " offload");
    paint_text(p, INK_DIM, 10, " recompute");
    paint_text(p, INK_DIM, 7, "  batch");
    fputs("  ", p->out);
    paint_text(p, INK_DIM, (int)bar_cells(p), head);
    paint_text(p, INK_DIM, 20, "     GiB    tokens/s");
    fputc('\n', p->out);
}

/* No two rows look alike: "tp4+fsdp2" has its degree, "fsdp2 sync" reduces gradients after each micro-batch (sync_each_batch). */
static void name_row(const struct json *c, char *ret, size_t room)
{
    const char *method = str(c, "method");
    double degree = number(c, "tensor_parallel");
    bool shown = !strncmp(method, "tp", 2) && degree > 1 && number(c, "data_parallel") > 1;

    if (shown)
        (void)snprintf(ret, room, "tp%.0f%.16s%s", degree, method + 2, is_true(c, "sync_each_batch") ? " sync" : "");
    else
        (void)snprintf(ret, room, "%.16s%s", method, is_true(c, "sync_each_batch") ? " sync" : "");
}

static void put_row(const struct paint *p, const struct json *c)
{
    const struct json *memory = json_get(c, "memory"), *speed = json_get(c, "throughput");
    double capacity = number(memory, "capacity_bytes"), taken = takes(memory);
    char text[COUNT_BYTES], name[32];

    name_row(c, name, sizeof name);
    fputs("  ", p->out);
    paint_text(p, is_true(c, "fits") ? INK_BOLD : INK_PLAIN, NAME_COLUMNS, name);
    if (str(c, "weights")[0])
        fprintf(p->out, " %-6.6s %-10.10s %-9.9s %6.0f  ", str(c, "weights"), "-", "-", number(c, "batch_size"));
    else
        fprintf(p->out, " %-6.6s %-10.10s %-9.9s %6.0f  ", str(c, "tuning"), offload_of(c), checkpointing_of(c), number(c, "micro_batch_size"));
    paint_bar(p, ink_of(c), capacity > 0 ? taken / capacity : 0, bar_cells(p));
    fprintf(p->out, "%8.1f%12s\n", taken / gib, speed ? paint_count(number(speed, "tokens_per_s"), text) : "-");
}

static unsigned put_rows(const struct paint *p, const struct json *candidates)
{
    unsigned n = 0, more = 0;

    json_each (c, candidates) {
        const struct json *memory = json_get(c, "memory");

        if (json_type(memory) != JSON_OBJECT)
            continue;
        if (n == ROWS_MAX) {
            more++;
            continue;
        }
        if (!n++)
            put_head(p, number(memory, "capacity_bytes"));
        put_row(p, c);
    }
    if (more)
        fprintf(p->out, "  and %u more: --json has them all\n", more);
    return n;
}

/* --- why, and what else --------------------------------------------------------------------------------------------------------------- */

static void name_loser(const struct json *c, char *ret, size_t room)
{
    const char *tuning = str(c, "tuning"), *offload = strcmp(offload_of(c), "-") ? str(c, "offload") : "";

    (void)snprintf(ret, room, "%.40s%s%.20s%s%s%.20s: ", str(c, "method"), tuning[0] ? ", " : "", tuning,
                   is_true(c, "gradient_checkpointing") ? ", recompute" : "", offload[0] ? ", offload " : "", offload);
}

/* Of the first loser of each kind; equal sentences once. */
static void put_reasons(const struct paint *p, const struct json *candidates)
{
    const char *said[NOTES_MAX_LINES];
    char text[640]; /* a detail has 512 at the most */
    unsigned n = 0;

    json_each (c, candidates) {
        const char *detail = str(json_get(c, "reason"), "detail");
        bool again = !detail[0];

        for (unsigned i = 0; i < n && !again; i++)
            again = !strcmp(said[i], detail);
        if (again || n == NOTES_MAX_LINES)
            continue;
        if (!n)
            paint_text(p, INK_BOLD, 0, "Why others lose\n");
        said[n++] = detail;
        name_loser(c, text, sizeof text);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s", detail);
        fputs("  ", p->out);
        paint_wrapped(p, 4, text);
    }
}

static void put_advice(const struct paint *p, const struct json *advice)
{
    unsigned n = 0;

    json_each (a, advice) {
        if (n == NOTES_MAX_LINES)
            break;
        if (!n++)
            paint_text(p, INK_BOLD, 0, "What was tried\n");
        fputs("  ", p->out);
        paint_text(p, is_true(a, "fits") ? INK_GOOD : INK_BAD, 0, is_true(a, "fits") ? "fits  " : "no    ");
        paint_wrapped(p, 8, str(a, "why"));
    }
}

static void put_notes(const struct paint *p, const char *title, enum ink ink, const struct json *notes, unsigned most)
{
    unsigned n = 0;
    size_t all = json_count(notes);

    json_each (v, notes) {
        if (n == most)
            break;
        if (!n++)
            paint_text(p, ink, 0, title);
        fputs("  - ", p->out);
        paint_wrapped(p, 4, json_str(v) ? json_str(v) : "");
    }
    if (all > n)
        fprintf(p->out, "  and %zu more: --json has them all\n", all - n);
}

/* --- whole ---------------------------------------------------------------------------------------------------------------------------- */

static void put_question(const struct paint *p, const struct json *doc)
{
    const struct json *model = json_get(doc, "model"), *cluster = json_get(json_get(doc, "resolved"), "cluster");
    const struct json *training = json_get(json_get(doc, "resolved"), "training");
    const char *gpu = str(cluster, "gpu"), *id = str(model, "id");
    double gpus = number(cluster, "gpus_per_node"), nodes = number(cluster, "nodes");
    char text[COUNT_BYTES];

    paint_text(p, INK_BOLD, 0, id[0] ? id : "the config given");
    if (number(model, "parameters") > 0)
        fprintf(p->out, ", %.2f billion parameters", number(model, "parameters") / 1e9);
    fprintf(p->out, ", on %.0f x %s", (gpus > 0 ? gpus : 1) * (nodes > 0 ? nodes : 1), gpu[0] ? gpu : "the GPU given");
    if (number(training, "seq_len") > 0)
        fprintf(p->out, ", %s tokens", paint_count(number(training, "seq_len"), text));
    fputc('\n', p->out);
}

static void put_verdict(const struct paint *p, const struct json *doc)
{
    const char *summary = str(doc, "summary");
    bool fits, known = json_bool(json_get(doc, "fits"), &fits);
    size_t n = strcspn(summary, ":");
    char verdict[40] = "";

    if (n < sizeof verdict - 1 && summary[n] == ':')
        memcpy(verdict, summary, n + 1);
    paint_text(p, !known ? INK_TIGHT : fits ? INK_GOOD : INK_BAD, 0, verdict);
    fputs(verdict[0] ? " " : "", p->out);
    paint_after(p, (unsigned)strlen(verdict) + 1, summary + strlen(verdict));
}

bool table_answer(const struct paint *p, const char *text, size_t bytes)
{
    struct json *doc = NULL;
    const struct json *candidates;

    if (json_parse(text, bytes, &json_limits_config, &doc, NULL) || !json_get(doc, "candidates")) {
        json_free(doc);
        return false;
    }
    candidates = json_get(doc, "candidates");
    put_question(p, doc);
    put_verdict(p, doc);
    fputc('\n', p->out);
    if (put_rows(p, candidates))
        fputc('\n', p->out);
    put_reasons(p, candidates);
    put_advice(p, json_get(doc, "advice"));
    put_notes(p, "Not in these figures\n", INK_BAD, json_get(doc, "not_in_figures"), NOTES_MAX_LINES);
    put_notes(p, "Ignored\n", INK_BAD, json_get(doc, "ignored"), NOTES_MAX_LINES);
    put_notes(p, "Warnings\n", INK_TIGHT, json_get(doc, "warnings"), NOTES_MAX_LINES);
    put_notes(p, "This rests on\n", INK_BOLD, json_get(doc, "assumptions"), RESTS_MAX_LINES);
    json_free(doc);
    return !ferror(p->out);
}

/* What a flag of the terminal is called. */
static void put_flag(const struct paint *p, const char *parameter)
{
    fputs("--", p->out);
    for (; *parameter; parameter++)
        fputc(*parameter == '_' ? '-' : *parameter, p->out);
    fputs(": ", p->out);
}

/* "GET /gpus" is `llmemd gpus` here. */
static void in_commands(const char *detail, char *ret, size_t room)
{
    static const char get[] = "GET /", ours[] = "llmemd ";
    size_t used = 0;

    for (const char *at = detail; *at && used + sizeof ours < room;) {
        bool found = !strncmp(at, get, sizeof get - 1) && at[sizeof get - 1] != ' ';

        used += (size_t)snprintf(ret + used, room - used, "%.*s", found ? (int)sizeof ours : 1, found ? ours : at);
        at += found ? sizeof get - 1 : 1;
    }
    ret[used] = 0;
}

bool table_problem(const struct paint *p, const char *text, size_t bytes)
{
    struct json *doc = NULL;
    char detail[1024];

    if (json_parse(text, bytes, &json_limits_config, &doc, NULL))
        return false;
    in_commands(str(doc, "detail"), detail, sizeof detail);
    paint_text(p, INK_BAD, 0, "llmemd: ");
    if (str(doc, "parameter")[0])
        put_flag(p, str(doc, "parameter"));
    else if (str(doc, "pointer")[0])
        fprintf(p->out, "%s: ", str(doc, "pointer"));
    paint_wrapped(p, 2, detail[0] ? detail : str(doc, "title"));
    json_free(doc);
    return !ferror(p->out);
}
