/* llmemd: the daemon and its subcommands. */
#include "api/words.h"
#include "catalog/builtin.h"
#include "catalog/gpus.h"
#include "server/httpd.h"
#include "server/options.h"
#include "server/serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Exit codes of `llmemd estimate`, for scripts. */
enum { EXIT_FITS = 0, EXIT_BROKEN = 1, EXIT_BAD_REQUEST = 2, EXIT_NOTHING_FITS = 3, EXIT_NOT_MODELLED = 4 };
enum { DRAIN_S = 30 };

/* --- serve ---------------------------------------------------------------------------------------------------------------------- */

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

/* Answers under way are delivered; a second signal, or too long a wait, ends it at once. */
static void drain(struct httpd *h, const sigset_t *set)
{
    static const struct timespec tick = {.tv_nsec = 20000000};

    httpd_drain(h);
    for (int i = 0; i < DRAIN_S * 50 && httpd_active(h); i++)
        if (sigtimedwait(set, NULL, &tick) > 0)
            _exit(EXIT_BROKEN);
}

static int run_serve(int argc, char **argv, int first)
{
    sigset_t set = stop_signals();
    struct options o;
    struct httpd *h;
    int which;

    if (!options_read(&o, argc, argv, first))
        return EXIT_BAD_REQUEST;
    (void)signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread begins: only main takes them */
    h = httpd_start(&o);
    if (!h)
        return EXIT_BROKEN;
    (void)sigwait(&set, &which);
    drain(h, &set);
    httpd_stop(h);
    return 0;
}

/* --- estimate ------------------------------------------------------------------------------------------------------------------- */

static size_t read_all(char *into, size_t cap)
{
    size_t n = 0, got;

    do {
        got = fread(into + n, 1, cap - n, stdin);
        n += got;
    } while (got && n < cap);
    return n;
}

static int exit_code(const struct api_response *r)
{
    if (r->status != 200)
        return r->status < 500 ? EXIT_BAD_REQUEST : EXIT_BROKEN;
    return r->fits ? EXIT_FITS : r->modelled ? EXIT_NOTHING_FITS : EXIT_NOT_MODELLED;
}

static int run_estimate(int argc, char **argv, int first)
{
    char *body = malloc(API_BODY_MAX + 1);
    void *block = block_new(API_ARENA_BYTES);
    struct api_response r = {0};
    struct arena arena;
    int code = EXIT_BROKEN;

    if (first < argc) {
        fprintf(stderr, "llmemd estimate: %s: the request is read from standard input\n", argv[first]);
        code = EXIT_BAD_REQUEST;
    } else if (body && block) {
        struct api_request rq = {.method = "POST", .path = "/estimate", .body = body, .body_bytes = read_all(body, API_BODY_MAX + 1), .arena = &arena};

        arena_init(&arena, block, API_ARENA_BYTES);
        serve(&rq, &r);
        code = fwrite(r.body, 1, r.bytes, stdout) == r.bytes && !fflush(stdout) ? exit_code(&r) : EXIT_BROKEN;
    }
    block_free(block, API_ARENA_BYTES);
    free(body);
    return code;
}

/* --- lists ---------------------------------------------------------------------------------------------------------------------- */

static int list_models(int argc, char **argv, int first)
{
    (void)argc, (void)argv, (void)first;
    for (size_t i = 0; i < builtin_count(); i++)
        puts(builtin_at(i)->id);
    return 0;
}

static int list_gpus(int argc, char **argv, int first)
{
    (void)argc, (void)argv, (void)first;
    for (size_t i = 0; i < gpu_count(); i++)
        printf("%-24s %-8s %8.2f GiB\n", gpu_at(i)->name, gpu_at(i)->compute_capability ? gpu_at(i)->compute_capability : "-",
               (double)gpu_at(i)->usable_bytes / 1073741824.0);
    return 0;
}

static int list_methods(int argc, char **argv, int first)
{
    (void)argc, (void)argv, (void)first;
    for (const struct method_part *p = method_parts; p->word.name; p++)
        printf("%-16s %s\n", p->word.name, p->word.value == WORD_UNMODELLED ? "not modelled yet" : "modelled");
    return 0;
}

/* --- which ---------------------------------------------------------------------------------------------------------------------- */

static int help(int argc, char **argv, int first)
{
    (void)argc, (void)argv, (void)first;
    puts("llmemd " LLMEMD_VERSION " - which fine-tuning fits on your GPU, with which batch\n"
         "\n"
         "  llmemd [serve] [options]      the HTTP daemon\n"
         "  llmemd estimate < REQUEST     one answer; exits 0 when something fits, 3 when nothing does, 4 when nothing was\n"
         "                                modelled, 2 on a bad request\n"
         "  llmemd models | gpus | methods\n"
         "  llmemd --help | --version\n"
         "\n"
         "options of serve, and the environment that means the same");
    options_help(stdout);
    return 0;
}

static int version(int argc, char **argv, int first)
{
    (void)argc, (void)argv, (void)first;
    puts("llmemd " LLMEMD_VERSION);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, int first);
} commands[] = {
    {"serve", run_serve},     {"estimate", run_estimate}, {"models", list_models}, {"gpus", list_gpus},
    {"methods", list_methods}, {"--help", help},           {"-h", help},            {"--version", version},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc, argv, 2);
    if (argc > 1 && argv[1][0] != '-') {
        fprintf(stderr, "llmemd: no such command: %s; see llmemd --help\n", argv[1]);
        return EXIT_BAD_REQUEST;
    }
    return run_serve(argc, argv, 1);
}
