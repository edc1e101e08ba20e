/*
 * installed.h - an installed transformers: its own files are read as text and answer for just its release.
 *
 * Purpose   says which of its files are read (models/, masks, rope, caches, activations, losses, SDPA, experts, outputs, config classes, the
 *           wrappers of utils), what stands in for the others (core/models/installed: PreTrainedModel, guards, the hub, generation), and which
 *           classes a model type has there.
 * Reads     through the caller's read(): core/ has no I/O. Nothing of it is run by Python.
 * Errors    ERR_ARCH_UNKNOWN: the release does not know the type; what the files themselves say: script.h.
 * Threads   an image is shared; a struct installed is read only, and its read() is called by whoever asks.
 */
#ifndef MODELS_INSTALLED_H
#define MODELS_INSTALLED_H

#include "models/program.h"

struct installed {
    /* The text of a file below the package, "models/llama/modeling_llama.py", and what errors call it; false: there is none, or it cannot be read.
     * Both stay where they are while the script does. */
    bool (*read)(void *of, const char *path, const char **ret_name, const char **text, size_t *bytes);
    void *of;
    const char *release, *torch_text; /* "5.23.0": of its __init__.py; what `torch.__version__` says */
};

/* Natives and what stands around the files; lives in `arena`. */
MUST_CHECK enum err_code installed_image(struct arena *arena, const struct installed *from, const struct image **ret, struct err *err);

/* script_host.source with `files` a struct installed. */
bool installed_source(void *files, const char *name, const char **path, const char **text, size_t *bytes, bool *package);

/* Fills module, config_class, model_class with what AutoModelForCausalLM would take for the type; strings live in `arena`. */
MUST_CHECK enum err_code installed_classes(const struct installed *from, const char *model_type, struct arena *arena, struct program_source *ret,
                                           struct err *err);

/* __version__ of a transformers/__init__.py, into ret; false: it has none. */
bool installed_version(const char *text, size_t bytes, char *ret, size_t room);

#endif
