/* library.c - what a request's own files import: the library of the families, and around it what stands around installed files. */
#include "models/modeling.h"
#include "models/program.h"

#include <string.h>

extern const struct program_file around_files[];
extern const size_t n_around_files;

static const struct program_file wide_files[] = {
#include "gen/wide.inc"
};

static bool is_in_library(const char *path)
{
    for (size_t i = 0; i < n_program_files; i++)
        if (!strcmp(program_files[i].path, path))
            return true;
    return false;
}

/* Config classes with all that old and new ones do, guards, names that are imported and never used: in the place of the families' few lines. */
static enum err_code wide_image(struct arena *arena, const struct image *families, const struct image **ret, struct err *err)
{
    static const char packages[] = "import torch\ntorch.__version__ = '2.15.0'\n";
    struct image *im = NULL;
    enum err_code rc = image_new(arena, families, &im, err);

    if (!rc)
        rc = image_source(im, "_release", "_release", packages, sizeof packages - 1, false, err);
    for (size_t i = 0; !rc && i < n_around_files; i++) {
        const struct program_file *f = &around_files[i];

        if (!is_in_library(f->path))
            rc = image_source(im, f->name, f->path, f->text, f->bytes, f->package, err);
    }
    for (size_t i = 0; !rc && i < sizeof wide_files / sizeof *wide_files; i++) {
        const struct program_file *f = &wide_files[i];

        rc = image_has(families, f->name) ? image_continue(im, f->name, f->path, f->text, f->bytes, err)
                                          : image_source(im, f->name, f->path, f->text, f->bytes, f->package, err);
    }
    if (!rc)
        *ret = im;
    return rc;
}

enum err_code program_library(struct arena *arena, struct program_library *ret, struct err *err)
{
    enum err_code rc = program_image(arena, &ret->families, err);

    ret->shelf = NULL;
    return rc ? rc : wide_image(arena, ret->families, &ret->wide, err);
}
