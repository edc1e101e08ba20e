/* llmemd: the daemon and its subcommands. */
#include "api/words/words.h"
#include "catalog/builtin.h"
#include "catalog/gpus.h"
#include "server/command.h"
#include "server/lifecycle.h"
#include "server/options.h"

#include <stdio.h>
#include <string.h>

static int run_serve(int argc, char **argv, int first)
{
    struct options o;

    return options_read(&o, argc, argv, first, NULL) ? lifecycle_serve(&o) : EXIT_BAD_REQUEST;
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
         "  llmemd estimate --model gpt2 --gpu T4 --seq-len 1024 ...\n"
         "                                the same, from members of the request (also model=gpt2 lora.rank=4); a model may be\n"
         "                                a directory that holds its config.json\n"
         "  llmemd estimate --snapshot out.pickle ...\n"
         "                                the replayed step as torch.cuda.memory._snapshot() has it, for pytorch.org/memory_viz\n"
         "  llmemd models | gpus | methods\n"
         "  llmemd --help | --version\n"
         "\n"
         "options, and the environment that means the same");
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
    {"serve", run_serve}, {"estimate", command_estimate}, {"models", list_models},
    {"gpus", list_gpus},  {"methods", list_methods},      {"--help", help},
    {"-h", help},         {"--version", version},
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
