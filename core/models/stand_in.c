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

/* torch.nn by another name */
static const char nn_text[] = "from _script import import_by_name\n"
                              "def __getattr__(name):\n"
                              "    if name.startswith('__'):\n"
                              "        raise AttributeError(name)\n"
                              "    return getattr(import_by_name('torch.nn'), name)\n";

static const char nn_utils_text[] = "def _ntuple(n):\n"
                                    "    def parse(x):\n"
                                    "        return tuple(x) if isinstance(x, (list, tuple)) else (x,) * n\n"
                                    "    return parse\n"
                                    "_single, _pair, _triple, _quadruple = _ntuple(1), _ntuple(2), _ntuple(3), _ntuple(4)\n";

static const char func_text[] = "from torch import vmap\n"
                                "from json import _Refused\n"
                                "def __getattr__(name):\n"
                                "    if name.startswith('__'):\n"
                                "        raise AttributeError(name)\n"
                                "    return _Refused('torch.func.' + name)\n";

/* Classes that people derive theirs from beside the model; made, they leave the language. */
#define DERIVED_FROM(text)                      \
    "from json import _Refused\n"               \
    text "def __getattr__(name):\n"             \
         "    if name.startswith('__'):\n"      \
         "        raise AttributeError(name)\n" \
         "    return _Refused(__name__ + '.' + name)\n"
#define A_CLASS(name) "class " name ":\n    def __init__(self, *args, **kwargs):\n        _Refused(__name__ + '." name "')()\n"
static const char optim_text[] = DERIVED_FROM(A_CLASS("Optimizer") A_CLASS("Adam") A_CLASS("AdamW") A_CLASS("SGD"));
static const char schedule_text[] = DERIVED_FROM(A_CLASS("LRScheduler") A_CLASS("_LRScheduler") A_CLASS("LambdaLR"));
static const char data_text[] = DERIVED_FROM(A_CLASS("Dataset") A_CLASS("IterableDataset") A_CLASS("DataLoader") A_CLASS("Sampler"));

/* What switches nothing that allocates: the precision of products, the choice of convolutions. */
static const char backends_text[] = "from json import _Refused\n"
                                    "class _Flags:\n"
                                    "    allow_tf32 = benchmark = deterministic = False\n"
                                    "    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = True\n"
                                    "    fp32_precision, enabled = 'none', True\n"
                                    "    def is_available(self):\n"
                                    "        return True\n"
                                    "class _Cuda:\n"
                                    "    matmul = _Flags()\n"
                                    "    def flash_sdp_enabled(self):\n"
                                    "        return True\n"
                                    "    mem_efficient_sdp_enabled = math_sdp_enabled = flash_sdp_enabled\n"
                                    "    def is_built(self):\n"
                                    "        return True\n"
                                    "    def __getattr__(self, name):\n"
                                    "        if name.startswith('__'):\n"
                                    "            raise AttributeError(name)\n"
                                    "        return _Refused('torch.backends.cuda.' + name)\n"
                                    "class _None:\n"
                                    "    def is_available(self):\n"
                                    "        return False\n"
                                    "    is_built = is_available\n"
                                    "cuda, cudnn, mps = _Cuda(), _Flags(), _None()\n"
                                    "def __getattr__(name):\n"
                                    "    if name.startswith('__'):\n"
                                    "        raise AttributeError(name)\n"
                                    "    return _Refused('torch.backends.' + name)\n";

static const struct {
    const char *name, *text;
} others[] = {
    {"numpy", numpy_text},
    {"torch.nn.modules.utils", nn_utils_text},
    {"torch.nn.modules", nn_text},
    {"torch.nn.parameter", nn_text},
    {"torch.func", func_text},
    {"torch.optim.lr_scheduler", schedule_text},
    {"torch.optim", optim_text},
    {"torch.utils.data", data_text},
    {"torch.backends", backends_text},
};

static bool is_in(const char *name, const char *package)
{
    size_t n = strlen(package);

    return !strncmp(name, package, n) && (!name[n] || name[n] == '.');
}

const char *stand_in_text_of(const char *name)
{
    if (!strcmp(name, "numpy"))
        return numpy_text;
    for (size_t i = 1; i < sizeof others / sizeof *others; i++)
        if (is_in(name, others[i].name))
            return others[i].text;
    return stand_in_text;
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
