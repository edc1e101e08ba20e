#include "models/stand_in.h"

#include <string.h>

const char stand_in_text[] = "from json import _Refused\n"
                             "def __getattr__(name):\n"
                             "    if name.startswith('__'):\n"
                             "        raise AttributeError(name)\n"
                             "    return _Refused(__name__ + '.' + name)\n";

/* of numpy: what models work numbers out with before there are tensors */
static const char numpy_text[] = "from json import _Refused\n"
                                 "from math import ceil, e, exp, floor, inf, log, log10, log2, nan, pi, prod, sqrt\n"
                                 "def __getattr__(name):\n"
                                 "    if name.startswith('__'):\n"
                                 "        raise AttributeError(name)\n"
                                 "    return _Refused('numpy.' + name)\n";

const char *stand_in_text_of(const char *name)
{
    return strcmp(name, "numpy") ? stand_in_text : numpy_text;
}

static const char *const packages[] = {
    "numpy", "safetensors", "safetensors.torch", "huggingface_hub", "tqdm", "tqdm.auto", "regex", "filelock", "yaml", "tokenizers", "accelerate",
    "accelerate.utils", "accelerate.hooks", "sentencepiece", "torch.distributed", "torch.multiprocessing", "torch._higher_order_ops",
    "torch._higher_order_ops.associative_scan", "torchvision", "torchvision.transforms", "PIL", "PIL.Image", "requests", "scipy", "matplotlib",
    "matplotlib.pyplot", "tiktoken",
};

bool stand_in_package(const char *name)
{
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        if (!strcmp(name, packages[i]) || (!strncmp(name, packages[i], strlen(packages[i])) && name[strlen(packages[i])] == '.'))
            return true;
    return false;
}

/* Not a model's own folder: a file that is missing there is told by its name. */
bool stand_in_source(void *files, const char *name, const char **path, const char **text, size_t *bytes, bool *package)
{
    static const char transformers[] = "transformers.", models[] = "transformers.models.";
    bool is_theirs = !strncmp(name, transformers, sizeof transformers - 1) && strncmp(name, models, sizeof models - 1) != 0;

    (void)files;
    if (!is_theirs && !stand_in_package(name))
        return false;
    *path = name;
    *text = stand_in_text_of(name);
    *bytes = strlen(*text);
    *package = true;
    return true;
}
