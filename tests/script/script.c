/*
 * script FILE.py: runs a file of the language and prints. script --parse FILE.py..: how many are read. script FILE.py --ast: its tree. A tool of the tests.
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

/* ---- --ast: the tree as tools/script-ast writes that of CPython */

static void dump(const struct node *n);

static void dump_list(const struct node *n)
{
    putchar('[');
    for (; n; n = n->next)
        dump(n);
    putchar(']');
}

static void dump_one(const struct node *n)
{
    if (n)
        dump(n);
    else
        putchar('-');
}

static bool is_listed(unsigned kind, int part) /* is that part a list? */
{
    switch (kind) {
    case N_TUPLE:
    case N_LIST:
    case N_SET:
    case N_DICT:
    case N_AND:
    case N_OR:
    case N_JOINED:
    case N_DELETE:
    case N_IMPORT:
    case N_IMPORT_FROM:
    case N_GLOBAL:
    case N_NONLOCAL:
    case N_MODULE:
        return part == 0;
    case N_CALL:
        return part > 0;
    case N_COMPARE:
        return part == 1;
    case N_LISTCOMP:
    case N_SETCOMP:
    case N_DICTCOMP:
    case N_GENEXP:
    case N_FOR_IN:
        return part == 2;
    case N_LAMBDA:
    case N_ASSIGN:
        return part == 0;
    case N_IF:
    case N_WHILE:
    case N_EXCEPT:
        return part > 0;
    case N_FOR:
        return part > 1;
    case N_WITH:
    case N_TRY:
    case N_CLASS:
        return true;
    case N_DEF:
        return part < 3;
    default:
        return false;
    }
}

static void dump_constant(sv v)
{
    unsigned sum = 0;
    size_t n = 0;
    const char *t = str_text(v, &n);

    for (size_t i = 0; i < n; i++)
        sum = (sum * 31 + (unsigned char)t[i]) & 0xFFFFFF;
    if (t)
        printf("s%zu:%u", n, sum);
    else if (v.tag == SV_FLOAT)
        printf("f%.17g", v.f);
    else
        printf("c%u:%lld", v.tag, v.tag == SV_INT || v.tag == SV_BOOL ? (long long)v.i : 0);
}

static void dump(const struct node *n)
{
    const struct node *part[4] = {n->a, n->b, n->c, n->d};
    bool named = n->kind == N_NAME || n->kind == N_ATTR || n->kind == N_KEYWORD || n->kind == N_ALIAS || n->kind == N_DEF ||
                 n->kind == N_CLASS || n->kind == N_PARAM || n->kind == N_EXCEPT || n->kind == N_IMPORT_FROM;

    printf("(%u.%u", n->kind, n->op);
    if (named)
        printf(" %s", n->name ? n->name->text : "-");
    if (n->other)
        printf(" as %s", n->other->text);
    if (n->kind == N_CONST) {
        putchar(' ');
        dump_constant(n->value);
    }
    for (int i = 0; i < 4; i++) {
        if (is_listed(n->kind, i))
            dump_list(part[i]);
        else
            dump_one(part[i]);
    }
    putchar(')');
}

static int ast(struct image *im, struct arena *arena, const char *path, const char *text, size_t bytes)
{
    struct node *module;
    struct err err = {0};

    if (parse_module(im, arena, path, text, bytes, &module, &err)) {
        printf("%s\n", err.detail);
        return 1;
    }
    dump(module);
    putchar('\n');
    return 0;
}

int main(int argc, char **argv)
{
    size_t room = (size_t)1 << 28, bytes;
    struct arena arena;
    struct image *im;
    struct script *s;
    struct err err = {0};
    struct script_host host = {.source = source, .print = print};
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
    if (argc > 2 && strcmp(argv[2], "--ast") == 0)
        return ast(im, &arena, argv[1], text, bytes);
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
