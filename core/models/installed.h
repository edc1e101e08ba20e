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

#include "models/modeling.h"

struct program_source;

struct installed {
    /* The text of a file below the package, "models/llama/modeling_llama.py", and what errors call it. A file that is there and cannot be read:
     * *ret_text says why. What it gives stays where it is as long as the struct does. */
    enum installed_file { INSTALLED_ABSENT, INSTALLED_READ, INSTALLED_REFUSED } (*read)(void *of, const char *path, const char **ret_name,
                                                                                      const char **ret_text, size_t *ret_bytes);
    void *of;
    const char *release;       /* "5.23.0": of its __init__.py */
    const struct image *image; /* installed_image() */
    const char *torch_text;    /* what `torch.__version__` says: the caller's copy has that of the question */
    char scratch[512];         /* and a text that is made up here: not for two threads */
    const struct modeling_file *files; /* of the copy: what the model is made of, once program_arch_installed() has looked */
    uint32_t n_files;
};

/* Natives and what stands around the files; lives in `arena`, which nobody else uses meanwhile. `named`: its release. */
MUST_CHECK enum err_code installed_image(struct arena *arena, const char *named, const struct image **ret, struct err *err);

/* script_host.source with `files` a struct installed. */
bool installed_source(void *files, const char *name, const char **path, const char **text, size_t *bytes, bool *package);

/* Fills module, config_class, model_class with what AutoModelForCausalLM would take for the type, heads with the other heads it has there. What has no causal
 * language model is trained as AutoModelForImageTextToText, Seq2SeqLM or MaskedLM make it; `architecture` of a config, where it is one of those, goes
 * before. Strings live in `arena`. */
MUST_CHECK enum err_code installed_classes(const struct installed *from, const char *model_type, const char *architecture, struct arena *arena,
                                           struct program_source *ret, struct err *err);

/* __version__ of a transformers/__init__.py, into ret; false: it has none. */
bool installed_version(const char *text, size_t bytes, char *ret, size_t room);

#endif
