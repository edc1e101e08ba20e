/* stand_in.c - core/models/stand_in: its files by the names of what they stand in for. */
#include "models/stand_in.h"

#include <string.h>

static const struct program_file files[] = {
#include "gen/stand_in.inc"
};

static bool is_in(const char *name, const char *package)
{
    size_t n = strlen(package);

    return !strncmp(name, package, n) && (!name[n] || name[n] == '.');
}

const struct program_file *stand_in_file(const char *name)
{
    const struct program_file *found = NULL;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].package ? is_in(name, files[i].name) : !strcmp(name, files[i].name))
            found = found && strlen(found->name) > strlen(files[i].name) ? found : &files[i];
    return found ? found : stand_in_file("anything");
}

static const char *const packages[] = {
    "numpy", "safetensors", "safetensors.torch", "huggingface_hub", "tqdm", "tqdm.auto", "regex", "filelock", "yaml", "tokenizers", "accelerate",
    "accelerate.utils", "accelerate.hooks", "sentencepiece", "torch.distributed", "torch.multiprocessing", "torch._higher_order_ops",
    "torch._higher_order_ops.associative_scan", "torchvision", "torchvision.transforms", "PIL", "PIL.Image", "requests", "scipy", "matplotlib",
    "matplotlib.pyplot", "tiktoken", "torch.nn.modules", "torch.nn.parameter", "torch.nn.parallel", "torch.nn.utils.rnn", "torch.nn.utils.parametrizations",
    "torch.func", "torch.optim", "torch.utils.data", "torch.utils.cpp_extension", "torch.utils.tensorboard", "torch.backends", "torch.fft", "torch.special",
    "torch.overrides", "torch.profiler",
};

bool stand_in_package(const char *name)
{
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        if (is_in(name, packages[i]))
            return true;
    return false;
}

/* Not a model's own folder: a file that is missing there is told by its name. */
bool stand_in_source(void *of, const char *name, const char **path, const char **text, size_t *bytes, bool *package)
{
    static const char transformers[] = "transformers.", models[] = "transformers.models.";
    bool is_theirs = !strncmp(name, transformers, sizeof transformers - 1) && strncmp(name, models, sizeof models - 1) != 0;
    const struct program_file *f = stand_in_file(is_theirs ? "anything" : name);

    (void)of;
    if (!is_theirs && !stand_in_package(name))
        return false;
    *path = name;
    *text = f->text;
    *bytes = f->bytes;
    *package = true;
    return true;
}
