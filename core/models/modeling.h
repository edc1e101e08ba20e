/*
 * modeling.h - a model whose program is text in the language: the files of a request, or a family that is written in it alone.
 *
 * Purpose   what a question needs before its first run: the library that such texts import from, and the sizes that everything beside memory asks of
 *           a model. The runs themselves are program.h's.
 * Image     the builtin library and families, compiled once: program_image(). Files of a request are compiled on top of it, once a request.
 * Errors    what the language says, with file, line and construct (err.h), at /modeling/FILE, /modeling or /config.
 */
#ifndef MODELS_MODELING_H
#define MODELS_MODELING_H

#include "config/arch.h"

#include <stddef.h>

struct image;
struct installed;
struct json;
struct stack;

/* A file that came with the request: "modeling_x.py". */
struct modeling_file {
    const char *name, *text;
    size_t bytes;
};

/* Nobody else uses the arena meanwhile. */
MUST_CHECK enum err_code program_image(struct arena *arena, const struct image **ret, struct err *err); /* natives, library, families */

/* Modules of the families as importing left them, for all requests of a process: read only once they lie there. */
struct program_shelf;
struct program_shelf *program_shelf_new(struct arena *arena, void (*lock)(bool)); /* lock: of the process, taken and given back; NULL: there is one thread */

struct program_library {
    const struct image *families, *wide; /* wide: what files of a request import, on top of the other */
    struct program_shelf *shelf;         /* NULL: each request imports for itself */
};
MUST_CHECK enum err_code program_library(struct arena *arena, struct program_library *ret, struct err *err);

/* A family that is in the language has one. */
const char *program_type(const char *named); /* what transformers calls it: falcon, of RefinedWebModel */
bool arch_is_of_files(const struct arch *a); /* of a request or an installed release: what the classes do there is theirs */
bool program_is_builtin(const char *model_type);
/* The type whose class the config names first, whatever it calls its own: what vLLM's registry goes by. NULL: no builtin one with a step. */
const char *program_of_class(const struct json *config);
bool program_has_step(const char *model_type); /* in some release; its text says when only its parameters are known */

/*
 * A model whose program is text: of the files that came, the classes that the config's auto_map names (without one: architectures[0], in the file
 * that has it); with no files a family that is in the language. The config is read by its own class, sizes are those of the model that the classes
 * make on `stack` (NULL: the newest). `library`, `config` and `files` are kept by reference, as long as *ret is used.
 */
MUST_CHECK enum err_code program_arch(const struct program_library *library, const struct json *config, const struct modeling_file *files, uint32_t n_files,
                                      const struct stack *stack, struct arena *arena, struct arch *ret, struct err *err);

/*
 * The same of an installed transformers: the classes that AutoModelForCausalLM takes there for the config's model_type. *from is kept by reference;
 * ERR_ARCH_UNKNOWN: that release has no such type.
 */
MUST_CHECK enum err_code program_arch_installed(struct installed *from, const struct json *config, struct arena *arena, struct arch *ret,
                                                struct err *err);

/* The program of a family whose sizes arch_parse() read into *ret: its text of the library. `library` and `config` are kept by reference. */
MUST_CHECK enum err_code program_attach(const struct program_library *library, const struct json *config, struct arena *arena, struct arch *ret,
                                        struct err *err);

#endif
