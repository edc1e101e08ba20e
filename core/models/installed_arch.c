/* installed_arch.c - a model of an installed transformers: its files found by importing them once, compiled for all walks that follow. */
#include "models/installed.h"
#include "models/program_parts.h"
#include "models/stand_in.h"
#include "stack/release.h"

#include <stdio.h>
#include <string.h>

/* What the first script that makes the model imports of the files. */
enum { IMPORTS_MAX = 128, IMPORT_NAME = 96 };
struct imports {
    struct installed *from;
    uint32_t n, n_files;
    char name[IMPORTS_MAX][IMPORT_NAME];
    struct modeling_file file[IMPORTS_MAX]; /* those of them that were read */
};

static bool gather(void *of, const char *name, const char **path, const char **text, size_t *bytes, bool *package)
{
    struct imports *g = of;

    if (!installed_source(g->from, name, path, text, bytes, package))
        return false;
    if (g->n == IMPORTS_MAX || strlen(name) >= IMPORT_NAME)
        return true;
    if (*text != stand_in_file("anything")->text && *text != g->from->scratch && strchr(*path, '/'))
        g->file[g->n_files++] = (struct modeling_file){*path, *text, *bytes};
    (void)snprintf(g->name[g->n++], IMPORT_NAME, "%s", name);
    return true;
}

/* Those files as an image: of the many scripts that follow none compiles them again. */
static enum err_code compile(const struct imports *g, struct arena *arena, const struct image **ret, struct err *err)
{
    struct image *own = NULL;
    enum err_code rc = image_new(arena, g->from->image, &own, err);

    for (uint32_t i = 0; i < g->n && !rc; i++) {
        const char *path, *text;
        size_t bytes;
        bool package;

        if (installed_source(g->from, g->name[i], &path, &text, &bytes, &package))
            rc = image_source(own, g->name[i], path, text, bytes, package, err);
    }
    if (!rc)
        *ret = own;
    return rc;
}

enum err_code program_arch_installed(struct installed *from, const struct json *config, struct arena *arena, struct arch *ret, struct err *err)
{
    struct program_source *source = arena_new(arena, struct program_source);
    struct imports *g = arena_new(arena, struct imports);
    struct script_host host = {.source = gather, .files = g};
    struct arch a = program_arch_blank(config, source, arena);
    struct stack stack = {0}; /* of just that release: its rules of tying weights are not the newest's */
    enum err_code rc;

    if (!source || !g || !a.model_type || !a.architecture)
        return err_set(err, ERR_NOMEM, "", "no room for the model's program");
    if (!a.model_type[0])
        return err_set(err, ERR_ARCH_UNKNOWN, "/model_type", "the config names no model type");
    a.theirs = true;
    *g = (struct imports){.from = from};
    *source = (struct program_source){.run = &script_program, .image = from->image, .config = config, .installed = from, .host = &host};
    rc = installed_classes(from, a.model_type, a.architecture, arena, source, err);
    if (!rc)
        rc = stack_name(&stack, PACKAGE_TRANSFORMERS, from->release, err);
    if (!rc)
        rc = program_look(source, &stack, arena, &a, err);
    if (!rc)
        rc = compile(g, arena, &source->image, err);
    if (rc && !err->at[0])
        (void)snprintf(err->at, sizeof err->at, "/config");
    if (rc)
        return rc;
    source->host = NULL;
    source->ready = program_ready(arena);
    from->files = g->file;
    from->n_files = g->n_files;
    *ret = a;
    return ERR_OK;
}
