/*
 * script FILE.py: runs a file of the language and prints. script --parse FILE.py..: how many are read. A tool of the tests.
 *
 * Modules beside the file are imported by name.
 */
#include "script/ast.h"
#include "script/object.h"
#include "script/script.h"

#include <stdio.h>
#include <stdlib.h>

static char directory[1024];

static char *read_all(const char *path, size_t *ret_bytes)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;

    if (!f)
        return NULL;
    do {
        room = room * 2 + 65536;
        text = realloc(text, room);
        n += fread(text + n, 1, room - n, f);
    } while (n == room);
    fclose(f);
    *ret_bytes = n;
    return text;
}

static bool source(void *of, const char *name, const char **path, const char **text, size_t *bytes, bool *package)
{
    static char at[2048];
    char slashes[512];
    char *t;

    (void)of;
    snprintf(slashes, sizeof slashes, "%s", name);
    for (char *c = slashes; *c; c++)
        *c = *c == '.' ? '/' : *c;
    snprintf(at, sizeof at, "%s%s.py", directory, slashes);
    *package = false;
    t = read_all(at, bytes);
    if (!t) {
        snprintf(at, sizeof at, "%s%s/__init__.py", directory, slashes);
        *package = true;
        t = read_all(at, bytes);
    }
    *path = at;
    *text = t;
    return t;
}

static void print(void *of, const char *text, size_t bytes)
{
    (void)of;
    fwrite(text, 1, bytes, stdout);
}

static int fail(const struct err *e)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", err_slug(e->code), e->detail);
    return 1;
}

int main(int argc, char **argv)
{
    size_t room = (size_t)1 << 28, bytes;
    struct arena arena;
    struct image *im;
    struct script *s;
    struct err err = {0};
    struct script_host host = {source, print, NULL};
    struct script_limits limits = script_limits_default;
    char *block = malloc(room), *text, *slash;
    const char *steps = getenv("SCRIPT_STEPS");

    if (argc < 2) {
        fprintf(stderr, "script FILE.py\n");
        return 2;
    }
    if (steps)
        limits.steps = (uint64_t)atoll(steps);
    snprintf(directory, sizeof directory, "%s", argv[1]);
    slash = strrchr(directory, '/');
    if (slash)
        slash[1] = '\0';
    else
        directory[0] = '\0';
    text = argc > 2 && strcmp(argv[1], "--parse") == 0 ? argv[1] : read_all(argv[1], &bytes);
    if (!text) {
        fprintf(stderr, "script: no file %s\n", argv[1]);
        return 2;
    }
    arena_init(&arena, block, room);
    if (image_new(&arena, NULL, &im, &err))
        return fail(&err);
    if (text == argv[1]) {
        int bad = 0;

        for (int i = 1; i < argc; i++) {
            struct image *top;
            unsigned char *mark = arena.cur;

            if (i == 1)
                continue;
            text = read_all(argv[i], &bytes);
            if (image_new(&arena, im, &top, &err) || image_source(top, "m", argv[i], text, bytes, false, &err)) {
                printf("%s\n", err.detail);
                bad++;
            }
            arena_rewind(&arena, mark);
            free(text);
        }
        printf("%d of %d files are read\n", argc - 2 - bad, argc - 2);
        return bad != 0;
    }
    if (image_source(im, "__main__", argv[1], text, bytes, false, &err))
        return fail(&err);
    if (script_new(&arena, im, &limits, &host, &s, &err))
        return fail(&err);
    if (!sv_ok(script_import(s, "__main__"))) {
        script_error(s, &err);
        return fail(&err);
    }
    if (getenv("SCRIPT_STAT"))
        fprintf(stderr, "steps %lld\n", (long long)(limits.steps - script_steps_left(s)));
    return 0;
}
