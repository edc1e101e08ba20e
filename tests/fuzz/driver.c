/*
 * A fuzz target without libFuzzer: its corpus, and mutations of it that are always the same.
 *
 *   fuzz_name [FILE or DIRECTORY ...] [-mutations N]      default: tests/fuzz/corpus/name, 3 mutations an input
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_MAX = 1 << 20, INPUT_S = 60 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) __attribute__((weak));

static uint64_t state;
static char name[4096];
static unsigned mutations = 3, ran;

/* Which input it was, whatever became of it. */
static void tell(int signal_number)
{
    static const char what[] = "\nthe input: ";

    (void)!write(2, what, sizeof what - 1);
    (void)!write(2, name, strlen(name));
    (void)!write(2, "\n", 1);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    size_t at = fuzz_below(&state, size + 1), n;

    switch (fuzz_below(&state, 4)) {
    case 0: /* a byte less */
        if (at < size) {
            memmove(data + at, data + at + 1, size - at - 1);
            return size - 1;
        }
        return size;
    case 1: /* a byte more */
        if (size == max_size)
            return size;
        memmove(data + at + 1, data + at, size - at);
        data[at] = (uint8_t)fuzz_random(&state);
        return size + 1;
    case 2: /* a piece twice */
        n = fuzz_below(&state, size - at + 1);
        n = n < max_size - size ? n : max_size - size;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    default: /* a bit */
        if (at < size)
            data[at] ^= (uint8_t)(1u << fuzz_below(&state, 8));
        return size;
    }
}

/* At the end of a block of its own: a sanitizer sees who reads beyond it. */
static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *own = malloc(size ? size : 1);

    FUZZ_CHECK(own, "no memory for an input");
    memcpy(own, data, size);
    alarm(INPUT_S);
    (void)LLVMFuzzerTestOneInput(own, size);
    alarm(0);
    ran++;
    free(own);
}

static void run_mutations(uint8_t *data, size_t size)
{
    size_t max = size + 4096 < INPUT_MAX ? size + 4096 : INPUT_MAX;
    uint8_t *m = malloc(INPUT_MAX);
    size_t n = size, end = strlen(name);

    FUZZ_CHECK(m, "no memory for an input");
    memcpy(m, data, size);
    for (unsigned i = 0; i < mutations; i++) {
        unsigned seed = (unsigned)fuzz_random(&state);

        (void)snprintf(name + end, sizeof name - end, ", mutation %u", i);
        n = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(m, n, max, seed) : LLVMFuzzerMutate(m, n, max);
        run_one(m, n);
    }
    free(m);
}

static void run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    size_t n;

    FUZZ_CHECK(f && data, "%s cannot be read", path);
    n = fread(data, 1, INPUT_MAX, f);
    (void)fclose(f);
    (void)snprintf(name, sizeof name, "%s", path);
    state = n;
    run_one(data, n);
    run_mutations(data, n);
    free(data);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void run_path(const char *path)
{
    struct dirent **list;
    struct stat s;
    int n;

    if (stat(path, &s) || !S_ISDIR(s.st_mode)) {
        run_file(path);
        return;
    }
    n = scandir(path, &list, NULL, by_name);
    FUZZ_CHECK(n >= 0, "%s cannot be listed", path);
    for (int i = 0; i < n; i++) {
        char file[4096];

        (void)snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        if (list[i]->d_name[0] != '.')
            run_file(file);
        free(list[i]);
    }
    free(list);
}

int main(int argc, char **argv)
{
    const char *own = strrchr(argv[0], '/');
    char corpus[4096];
    bool given = false;

    for (int i = 0; i < 5; i++)
        (void)signal((int[]){SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGALRM}[i], tell);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-mutations") && i + 1 < argc)
            mutations = (unsigned)strtoul(argv[++i], NULL, 10);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-mutations")) {
            i++;
            continue;
        }
        given = true;
        run_path(argv[i]);
    }
    own = own ? own + 1 : argv[0];
    (void)snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%s", strncmp(own, "fuzz_", 5) ? own : own + 5);
    if (!given)
        run_path(corpus);
    printf("%s: %u inputs\n100%%: Checks: %u, Failures: 0, Errors: 0\n", own, ran, ran);
    return 0;
}
