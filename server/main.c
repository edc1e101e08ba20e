/* llmemd: the daemon and its subcommands. */
#include "server/command.h"
#include "server/lifecycle.h"
#include "server/options.h"
#include "server/terminal/lists.h"
#include "server/terminal/manual.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int run_serve(int argc, char **argv, int first)
{
    struct options o;

    if (first < argc && (!strcmp(argv[first], "--help") || !strcmp(argv[first], "-h")))
        return manual_help(stdout, "serve");
    return options_read(&o, argc, argv, first, NULL) ? lifecycle_serve(&o) : EXIT_BAD_REQUEST;
}

/* --- which ---------------------------------------------------------------------------------------------------------------------- */

static int help(int argc, char **argv, int first)
{
    return manual_help(stdout, first < argc ? argv[first] : NULL);
}

static int version(int argc, char **argv, int first)
{
    (void)argc, (void)argv, (void)first;
    puts("llmemd " LLMEMD_VERSION);
    return 0;
}

#define LIST(name)                                         \
    static int list_##name(int argc, char **argv, int first) \
    {                                                      \
        return command_list(#name, argc, argv, first);     \
    }
LIST(models)
LIST(gpus)
LIST(clusters)
LIST(methods)
LIST(optimizers)

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, int first);
} commands[] = {
    {"serve", run_serve},       {"estimate", command_estimate},     {"models", list_models},   {"gpus", list_gpus},   {"clusters", list_clusters}, {"methods", list_methods},
    {"optimizers", list_optimizers}, {"completion", command_completion}, {"manual", command_manual}, {"help", help},    {"--help", help},            {"-h", help},
    {"version", version},       {"--version", version},             {"-V", version},
};

/* Who starts it with one of the three closed would have the next socket take its number, and lines of the log go to a caller. Standard output fails when it
   is written to, as a closed one does: an answer that nobody gets is no success. */
static bool stand_open(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};

    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (!stand_open())
        return 1;
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc, argv, 2);
    if (argc > 1 && argv[1][0] != '-')
        return manual_unknown_command(argv[1]);
    return run_serve(argc, argv, 1);
}
