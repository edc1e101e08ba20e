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
#include "models/modeling.h"
#include "script/script.h"

struct installed;
struct json;

/* One text file of the library: what `import` calls it. */
struct program_file {
    const char *name, *path, *text;
    size_t bytes;
    bool package;
};

struct program_ready;

struct program_source {
    const struct family_program *run;       /* &script_program: who has none does not carry the interpreter */
    const struct image *image;              /* natives, library, families; a request's files on top */
    const struct json *config;              /* config.json as it came */
    const char *module;                     /* "transformers.models.llama.modeling_llama" */
    const char *config_module;              /* NULL: the same */
    const char *config_class, *model_class; /* NULL: the model class's config_class, the module's `causal_lm` */
    const char *const *heads;               /* of an installed transformers: by enum task_id, the class of the type under that head; NULL: none */
    bool trains_head;                       /* what it trains without a stage is the head that architectures[0] names */
    const struct script_host *host;         /* of files that no image has; NULL: none */
    struct installed *installed;            /* an installed transformers that the files are of; NULL: none */
    const struct modeling_file *files;      /* of the request; NULL: the program is builtin */
    uint32_t n_files;
    const char *layers_name;     /* the config's member that says how many layers; NULL: a walk has all of them */
    const char *layers_within;   /* the member that it is one of, as text_config; NULL: the config itself */
    uint32_t layers;             /* that it says */
    struct program_shelf *shelf; /* of the library, where all files are its own; NULL: none */
    struct program_ready *ready; /* program_ready(); NULL: modules are imported anew for each walk */
};

/* Files of a request or of an installed release: what the classes do there is theirs. */
static inline bool program_is_of_files(const struct program_source *from)
{
    return from->n_files || from->files || from->installed || from->host;
}

/*
 * Keeps the model's modules as they are once they are imported, and models that pass as they were declared: for the walks
 * of one source, one after the other.
 * Lives in `arena`. NULL: no room, which is no error.
 */
struct program_ready *program_ready(struct arena *arena);
bool program_is_kept(const struct program_ready *r);   /* a walk has begun there */
bool program_has_stood(const struct program_ready *r); /* a walk has had the model of another (model.h: memory) */

extern const struct program_file program_files[]; /* the builtin ones: programs.c */
extern const size_t n_program_files;

/* What tensor parallelism and a pipeline ask of a model that was declared from a program: split.h, stage.h. */
MUST_CHECK enum err_code program_split(struct model *m, struct err *err);
bool program_tell_plan(struct model *m); /* which modules are in the base model's plan (module.planned); false: there is none */
bool program_has_stage(const struct model *m);
bool program_stage_gap(const struct model *m, char *text, size_t room);                   /* why layers m->first_layer on are none; false: they are one */
bool program_first_has(const struct model *m, const char *name);                          /* a buffer of the stack */
uint32_t program_before_layers(const struct model *m, struct module **ret, uint32_t room); /* what the first stage alone has; how many */
uint32_t program_behind_layers(const struct model *m, struct module **ret, uint32_t room); /* what the last one has, without the head */
enum dtype program_wire(const struct model *m, bool autocast);                             /* of what goes from stage to stage */
val program_stage(struct run *r, struct model *m, val x);

extern const struct family_program script_program; /* model->source names what it is made of */

#endif
