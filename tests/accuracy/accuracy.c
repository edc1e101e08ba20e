/*
 * accuracy.c - asks the service every case of tests/data/accuracy and prints how far each figure is from the run it is of.
 *
 *   accuracy             all cases; prints the table and writes docs/accuracy.md
 *   accuracy --smoke     cases of one GPU and of ddp, every third of the rest, and the goals of the table: exits 1 where one is missed
 *   accuracy --case ID   one case, every figure beside the truth
 *   accuracy tape ..     one run's tape, see tape.c
 *   accuracy speed ..    published speeds, see speed.c
 */
#include "tests/accuracy/accuracy.h"
#include "tests/accuracy/series.h"
#include "tests/accuracy/speed.h"
#include "tests/support/programs.h"

#include "api/api.h"
#include "base/json.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 1 << 18, MAX_CONFIGS = 128, MAX_ROWS = 1 << 12, MAX_THREADS = 16 };

/* What judging one case needs beside the case. */
struct judging {
    bool loud;
    const char *group; /* of a file whose rows name none */
    struct config {
        const char *name, *text;
    } config[MAX_CONFIGS];
    size_t n_configs;
};

double number(const struct json *o, const char *key)
{
    double v = NAN;

    (void)json_number(json_get(o, key), &v);
    return v;
}

/* A copy that lives as long as the program. */
static const char *kept(const char *s)
{
    static struct copy {
        struct copy *next;
        char text[];
    } * copies;
    size_t n = strlen(s) + 1;
    struct copy *c = malloc(sizeof *c + n);

    if (!c)
        abort();
    memcpy(c->text, s, n);
    c->next = copies;
    copies = c;
    return c->text;
}

/* ------------------------------------------------------------------------------------------------------------ asking */
static struct json *ask(const char *body, void *block)
{
    struct arena a;
    struct api_request rq = {.method = "POST",
                             .path = "/estimate",
                             .content_type = "application/json",
                             .body = body,
                             .body_bytes = strlen(body),
                             .arena = &a,
                             .library = programs_library};
    struct api_response rs = {0};
    struct json_limits limits = {.bytes = 1 << 22, .depth = JSON_MAX_DEPTH, .values = 1 << 20};
    struct json *doc = NULL;
    struct err err = {0};

    arena_init(&a, block, API_ARENA_BYTES);
    api_answer(&rq, NULL, 0, &rs);
    if (rs.status != 200) {
        fprintf(stderr, "HTTP %d: %.*s\n", rs.status, (int)rs.bytes, rs.body);
        return NULL;
    }
    if (json_parse(rs.body, rs.bytes, &limits, &doc, &err))
        return NULL;
    return doc;
}

struct row {
    struct json *of;
    char *body;
    struct json *answer; /* NULL: none */
};

struct rows {
    struct row row[MAX_ROWS];
    size_t n;
    atomic_size_t next; /* that nobody asks yet */
};

static void *ask_rows(void *arg)
{
    struct rows *all = arg;
    void *block = malloc(API_ARENA_BYTES);

    if (!block)
        abort();
    for (size_t i; (i = atomic_fetch_add(&all->next, 1)) < all->n;)
        all->row[i].answer = ask(all->row[i].body, block);
    free(block);
    return NULL;
}

/* As many at once as there are cores. */
static void ask_all(struct rows *all)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MAX_THREADS];
    int n = 0;

    (void)programs_library();
    while (n < MAX_THREADS && n + 1 < cores && !pthread_create(&threads[n], NULL, ask_rows, all))
        n++;
    (void)ask_rows(all);
    while (n)
        (void)pthread_join(threads[--n], NULL);
}

/* --------------------------------------------------------------------------------------------------------------- judging */
static const struct {
    enum figure figure;
    const char *name;
} figures[] = {
    {PEAK, "peak_allocated_bytes"},    {ACTIVE, "peak_active_bytes"},
    {RESERVED, "peak_reserved_bytes"}, {EXPANDABLE, "peak_reserved_expandable_bytes"},
    {STATIC, "static_bytes"},          {RESTING, "resting_bytes"},
    {HOST, "host_bytes_per_node"},
};

/* Phases of the tracers of several GPUs: forward with the loss, backward with the loss's, each from its first moment on. */
static const struct {
    const char *theirs, *ours[3];
} joined[] = {{"forward", {"batch", "forward", "loss"}}, {"backward", {"backward", "loss_backward"}}};

static double phase_of(const struct group *g, const struct json *ours, const char *name)
{
    double peak = number(ours, name);

    for (size_t i = 0; !strstr(g->name, "one GPU") && i < sizeof joined / sizeof *joined; i++)
        for (size_t k = 0; !strcmp(name, joined[i].theirs) && k < 3 && joined[i].ours[k]; k++)
            peak = fmax(peak, number(ours, joined[i].ours[k]));
    return peak > 0 ? peak : NAN;
}

static void say(const struct judging *j, const char *name, double ours, double truth)
{
    if (j->loud)
        printf("  %-32s %15.0f %15.0f\n", name, ours, truth);
}

static void judge_phases(const struct judging *j, struct group *g, const char *id, const struct json *ours, const struct json *truth)
{
    json_each (p, truth) {
        const char *name = kept(json_name(p));

        put(g, PHASES, id, name, phase_of(g, ours, name), number(truth, name), 0);
        say(j, name, phase_of(g, ours, name), number(truth, name));
    }
}

/* What others measured is one series, whatever they read; what was traced is one a figure. */
static void judge_figures(const struct judging *j, struct group *g, const char *id, const struct json *memory, const struct json *c)
{
    bool measured = !strncmp(g->name, "published", 9);

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const char *name = figures[i].name;

        put(g, measured ? MEASURED : figures[i].figure, id, name, number(memory, name), number(c, name),
            number(json_get(c, "slack"), name));
        say(j, name, number(memory, name), number(c, name));
    }
    if (measured || !json_get(c, "peak_allocated_bytes"))
        return;
    g->peaks++;
    g->exact += number(memory, "peak_allocated_bytes") == number(c, "peak_allocated_bytes");
}

/* ZeRO-3: how long blocks wait for other streams differs from run to run. */
static void judge_range(const struct judging *j, struct group *g, const struct json *memory, const struct json *c)
{
    double active = number(c, "active_between"), low = number(memory, "low_bytes"), high = number(memory, "high_bytes");

    if (isnan(active))
        return;
    g->ranged++;
    g->within += low <= active && active <= high;
    if (j->loud || active < low || active > high)
        printf("%s: active %.0f of %.0f..%.0f\n", json_str(json_get(c, "id")), active, low, high);
}

static void judge_verdict(const struct judging *j, struct group *g, const char *id, const struct json *candidate, const struct json *oom)
{
    bool ran_out, fits;

    if (!json_bool(oom, &ran_out) || !json_bool(json_get(candidate, "fits"), &fits))
        return;
    g->verdicts++;
    g->right += ran_out != fits;
    if (j->loud || ran_out == fits)
        printf("%-60s %s, said to %s\n", id, ran_out ? "ran out of memory" : "ran", fits ? "fit" : "run out");
}

static void judge_peers(struct group *g, const char *id, const struct json *rules, const struct json *c)
{
    put(g, PEER_INFERENCE, id, "", number(rules, "inference_x1.2_bytes"), number(c, "peak_allocated_bytes"), 0);
    put(g, PEER_FIVE, id, "", number(rules, "finetune_x5_bytes"), number(c, "peak_allocated_bytes"), 0);
}

/* LLMem's own peak of the step that was traced as it ran it: its truth is what is reserved after a step. */
static void judge_llmem(struct group *g, const char *id, const struct json *candidate, const struct json *c)
{
    put(g, PEER_LLMEM, id, "", number(json_get(candidate, "llmem"), "peak_bytes"), number(c, "peak_reserved_bytes"), 0);
}

/* A figure, or one of an object of them: "phase_peaks_bytes/decode". */
static double figure_at(const struct json *memory, const char *metric)
{
    const char *slash = strchr(metric, '/');
    char of[64];

    if (!slash)
        return number(memory, metric);
    (void)snprintf(of, sizeof of, "%.*s", (int)(slash - metric), metric);
    return number(json_get(memory, of), slash + 1);
}

static void judge(const struct judging *j, const struct row *row)
{
    const struct json *c = row->of, *answer = row->answer;
    const char *id = kept(json_str(json_get(c, "id"))), *named = json_str(json_get(c, "group")), *metric = json_str(json_get(c, "metric"));
    struct group *g = group_get(named ? kept(named) : j->group);
    const struct json *first = json_first(json_get(answer, "candidates")), *memory = json_get(first, "memory");

    g->cases++;
    if (!memory) {
        printf("%-60s not answered\n", id);
        return;
    }
    g->answered++;
    if (metric) {
        put(g, MEASURED, id, kept(metric), figure_at(memory, metric), number(c, "expected"), 0);
        say(j, metric, figure_at(memory, metric), number(c, "expected"));
    }
    judge_figures(j, g, id, memory, c);
    judge_phases(j, g, id, json_get(memory, "phase_peaks_bytes"), json_get(c, "phase_peaks_bytes"));
    largest_judge(id, memory, json_get(c, "groups"), j->loud);
    judge_range(j, g, memory, c);
    judge_verdict(j, g, id, first, json_get(c, "oom"));
    judge_llmem(g, id, first, c);
    if (json_get(c, "groups"))
        judge_peers(g, id, json_get(answer, "rules_of_thumb"), c);
}

/* ---------------------------------------------------------------------------------------------------------------- cases */
/* The request of a row: as it stands, or with the config that it names. */
static char *body_of(const struct judging *j, const struct json *c)
{
    static char body[MAX_LINE];
    const char *name = json_str(json_get(c, "config")), *rest = json_str(json_get(c, "body"));

    if (!name)
        return strdup(rest);
    for (size_t i = 0; i < j->n_configs; i++)
        if (!strcmp(j->config[i].name, name)) {
            (void)snprintf(body, sizeof body, "{\"config\":%s,%s", j->config[i].text, rest + 1);
            return strdup(body);
        }
    fprintf(stderr, "%s: no such config before it\n", name);
    exit(2);
}

static void judge_all(const struct judging *j, struct rows *all)
{
    ask_all(all);
    for (size_t i = 0; i < all->n; i++) {
        judge(j, &all->row[i]);
        json_free(all->row[i].answer);
        json_free(all->row[i].of);
        free(all->row[i].body);
    }
}

static bool add_config(struct judging *j, const struct json *c)
{
    const char *name = json_str(json_get(c, "config_name"));

    if (!name || j->n_configs == MAX_CONFIGS)
        return false;
    j->config[j->n_configs++] = (struct config){kept(name), kept(json_str(json_get(c, "config")))};
    return true;
}

/* Every `nth` row of a file, or the one that is named. */
static bool read_cases(struct judging *j, const char *path, const char *group, const char *only, size_t nth)
{
    static char line[MAX_LINE];
    static struct rows all;
    FILE *f = fopen(path, "r");
    size_t at = 0;

    if (!f) {
        perror(path);
        return false;
    }
    j->group = group;
    all.n = all.next = 0;
    while (fgets(line, sizeof line, f)) {
        struct json_limits limits = {.bytes = sizeof line, .depth = JSON_MAX_DEPTH, .values = 1 << 16};
        struct json *c;
        struct err err = {0};

        if (all.n == MAX_ROWS || json_parse(line, strlen(line), &limits, &c, &err)) {
            fprintf(stderr, "%s: %s\n", path, all.n == MAX_ROWS ? "more rows than there is room for" : err.detail);
            (void)fclose(f);
            return false;
        }
        if (!add_config(j, c) && (only ? !strcmp(only, json_str(json_get(c, "id"))) : at++ % nth == 0))
            all.row[all.n++] = (struct row){c, body_of(j, c), NULL};
        else
            json_free(c);
    }
    (void)fclose(f);
    judge_all(j, &all);
    return true;
}

/* tests/data/accuracy/NAME.jsonl; the table's row where its cases do not say theirs; of how many cases one is asked by --smoke, 0: none. */
static const struct {
    const char *name, *source;
    unsigned one_of;
} files[] = {
    {"cases", "one GPU", 1}, {"stacks", NULL, 3}, {"found", NULL, 1}, {"kbit", NULL, 1}, {"quantisers", NULL, 1}, {"quantised_experts", NULL, 1}, {"casts", NULL, 1}, {"packing", NULL, 1},
    {"measured", NULL, 1}, {"flex", NULL, 1}, {"stages", NULL, 1}, {"llama_factory", NULL, 1}, {"axolotl", NULL, 1}, {"heads", NULL, 1},
    {"stages_dist", NULL, 1}, {"freeze", NULL, 1}, {"zero", NULL, 1}, {"options", NULL, 1}, {"adapters", NULL, 1}, {"kernels", NULL, 1},
    {"lora_kernels", NULL, 1}, {"moe", NULL, 1}, {"hybrids", NULL, 1}, {"scans", NULL, 1}, {"families", NULL, 1}, {"losses", NULL, 1}, {"torchao_optim", NULL, 1}, {"optim_dist", NULL, 1},
    {"offload", NULL, 1}, {"scaled", NULL, 1}, {"recommended", NULL, 1},
    {"many", NULL, 1}, {"tensor", NULL, 1}, {"pipelines", NULL, 1}, {"colossal", NULL, 1}, {"older", NULL, 1}, {"hybrids_older", NULL, 1},
    {"releases", NULL, 1}, {"hub", NULL, 1}, {"ddp", "ddp", 1}, {"dist", NULL, 3}, {"gptq", "published, GPTQ", 1},
    {"published", "published, one GPU", 0}, {"generated", NULL, 0},
};

static bool read_all(struct judging *j, const char *only, bool smoke)
{
    char path[96];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "tests/data/accuracy/%s.jsonl", files[i].name);
        if ((!smoke || files[i].one_of) && !read_cases(j, path, files[i].source, only, smoke ? files[i].one_of : 1))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct judging j;
    const char *only = argc > 2 && !strcmp(argv[1], "--case") ? argv[2] : NULL;
    bool smoke = argc > 1 && !strcmp(argv[1], "--smoke"), good;

    if (argc > 1 && !strcmp(argv[1], "tape"))
        return tape_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "speed"))
        return speed_main(argc - 1, argv + 1);
    if (argc > 1 && !only && !smoke) {
        fprintf(stderr, "accuracy: '%s' is none of --smoke, --case ID, tape .. and speed ..\n", argv[1]);
        return 2;
    }
    j.loud = only != NULL;
    if (!read_all(&j, only, smoke))
        return 2;
    good = report(stdout, false);
    good = largest_report(stdout, false) && good;
    if (!only && !smoke) {
        printf("\nworst peaks\n");
        worst(stdout, PEAK, 0.02, "  ");
        printf("worst phases\n");
        worst(stdout, PHASES, 0.1, "  ");
        write_page();
    }
    if (smoke)
        printf("%d passed, %d failed\n", good, !good);
    return smoke && !good;
}
