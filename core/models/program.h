/*
 * program.h - a causal language model whose program is in the language: classes that transformers would import, run by core/script over core/natives.
 *
 * Purpose   a family_program whose declare() makes the model as AutoModelForCausalLM.from_config would (config class, __init__, ties,
 *           checkpointing switched on) and whose forward() calls it with the batch's tensors.
 * Image     the builtin library and families, compiled once: program_image(); a request's own files come from a host on top of it.
 * Errors    what the script says: ERR_LEAVES_LANGUAGE and the like, with file and line.
 */
#ifndef MODELS_PROGRAM_H
#define MODELS_PROGRAM_H

#include "models/model.h"
#include "script/script.h"

struct json;

/* One text file of the library: what `import` calls it. */
struct program_file {
    const char *name, *path, *text;
    size_t bytes;
    bool package;
};

struct program_source {
    const struct family_program *run;       /* &script_program: who has none does not carry the interpreter */
    const struct image *image;              /* natives, library, families */
    const struct json *config;              /* config.json as it came */
    const char *module;                     /* "transformers.models.llama.modeling_llama" */
    const char *config_class, *model_class; /* NULL: the module's `causal_lm` and its config_class */
    const struct script_host *host;         /* of a request's own files; NULL: none */
};

extern const struct program_file program_files[]; /* the builtin ones: programs.c */
extern const size_t n_program_files;

MUST_CHECK enum err_code program_image(struct arena *arena, const struct image **ret,
                                       struct err *err); /* nobody else uses the arena meanwhile */

extern const struct family_program script_program; /* model->source names what it is made of */

#endif
