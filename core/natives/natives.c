/* natives.c - the modules of natives as an image, and what a script of them begins with. */
#include "natives/functions.h"
#include "natives/nn.h"
#include "natives/regions.h"

#include <string.h>

extern const struct script_module flash_module, autograd_module, triton_module, adapters_module;
static const struct script_class *const pytorch_utils_classes[] = {&conv1d_class, NULL};
static const struct script_module pytorch_utils = {.name = "transformers.pytorch_utils", .classes = pytorch_utils_classes};

static const struct script_module *const modules[] = {&torch_module,    &functional_module, &nn_module_table, &checkpoint_module,
                                                      &switches_module, &autograd_module,   &flash_module,    &pytorch_utils,  &triton_module,
                                                      &adapters_module};

/* torch/csrc/utils/python_arg_parser.cpp numpy_compatibility_arg_names */
static const struct script_keyword numpy_names[] = {{"dim", "axis"}, {"keepdim", "keepdims"}, {"input", "x"}, {"input", "a"},
                                                    {"input", "x1"}, {"other", "x2"},          {0}};

enum err_code natives_image(struct image *im, struct err *err)
{
    image_keywords(im, numpy_names, "core/natives/library/");
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (image_native(im, modules[i], err))
            return err->code;
    return ERR_OK;
}

/* Of a model that is made: a tensor for each parameter. Mixtures before transformers 5 have three linears an expert: DeepSeek-V3 45,000, Qwen3-235B
 * 36,000. */
enum { HOST_VALUES = 1 << 15, HOST_VALUES_MOST = 1 << 17, HOST_ROOM = 128 << 20 };

enum err_code natives_wake(struct natives *n, struct arena *arena, const struct quirks *q, struct err *err)
{
    uint32_t most = arena->end - arena->cur > HOST_ROOM ? HOST_VALUES_MOST : HOST_VALUES; /* small beside models that are kept */
    struct run_limits limits = {.values = most, .storages = most, .nodes = 1, .births = most};
    struct device none = {0};

    n->default_dtype = DTYPE_FP32;
    if (run_init(&n->host, arena, q, none, limits, err))
        return err->code;
    n->host.grad_enabled = false;
    n->host_end = arena->cur;
    return ERR_OK;
}

bool natives_sleep(struct natives *n)
{
    bool none = n->host.n_values == 1;

    memset(&n->host, 0, sizeof n->host);
    n->host_end = NULL;
    return none;
}

bool natives_rest(const struct natives *n)
{
    const struct run *h = &n->host;

    return h->arena->cur == n->host_end && !n->run && !h->error.code && h->n_nodes == 1 && !h->n_locals && !h->n_ready && !h->n_casts && !h->n_hooks &&
           !h->work;
}

enum { HOST_PARTS = 4 };

/* Of each table the part that is used. */
static void host_parts(const struct run *h, void *ret[HOST_PARTS], size_t ret_bytes[HOST_PARTS])
{
    ret[0] = h->values;
    ret[1] = h->storages;
    ret[2] = h->births;
    ret[3] = h->events;
    ret_bytes[0] = h->n_values * sizeof *h->values;
    ret_bytes[1] = h->n_storages * sizeof *h->storages;
    ret_bytes[2] = h->n_births * sizeof *h->births;
    ret_bytes[3] = h->n_events * sizeof *h->events;
}

size_t natives_host_bytes(const struct natives *n)
{
    void *part[HOST_PARTS];
    size_t bytes[HOST_PARTS];

    host_parts(&n->host, part, bytes);
    return bytes[0] + bytes[1] + bytes[2] + bytes[3];
}

void natives_host_save(const struct natives *n, void *to)
{
    unsigned char *at = to;
    void *part[HOST_PARTS];
    size_t bytes[HOST_PARTS];

    host_parts(&n->host, part, bytes);
    for (int i = 0; i < HOST_PARTS; at += bytes[i++])
        memcpy(at, part[i], bytes[i]);
}

void natives_host_load(struct natives *n, const void *from, struct arena *arena, const struct quirks *q)
{
    const unsigned char *at = from;
    void *part[HOST_PARTS];
    size_t bytes[HOST_PARTS];

    host_parts(&n->host, part, bytes);
    for (int i = 0; at && i < HOST_PARTS; at += bytes[i++])
        memcpy(part[i], at, bytes[i]);
    n->host.arena = arena;
    n->host.q = q;
}

enum err_code natives_begin(struct natives *n, struct script *s, struct arena *arena, const struct quirks *q, struct err *err)
{
    n->s = s;
    if (natives_wake(n, arena, q, err))
        return err->code;
    n->tensor = script_class(s, &tensor_class);
    n->parameter = script_class(s, &parameter_class);
    n->buffer = script_class(s, &buffer_class);
    n->forward = script_symbol(s, "forward");
    n->is_transposed = script_symbol(s, "is_transposed");
    n->weight = script_symbol(s, "weight");
    n->last_hidden_state = script_symbol(s, "last_hidden_state");
    n->bias = script_symbol(s, "bias");
    for (int t = 0; t < DTYPE_COUNT; t++) {
        n->dtypes[t] = script_object(s, script_class(s, &dtype_class));
        if (!sv_ok(n->dtypes[t]))
            return script_error(s, err);
        ((struct dtype_object *)(void *)n->dtypes[t].o)->dtype = (enum dtype)t;
    }
    n->cuda = script_object(s, script_class(s, &device_class));
    n->cpu = script_object(s, script_class(s, &device_class));
    if (!sv_ok(n->cuda) || !sv_ok(n->cpu))
        return script_error(s, err);
    ((struct device_object *)(void *)n->cuda.o)->cuda = true;
    return ERR_OK;
}

void natives_on_device(struct natives *n, struct run *r)
{
    n->run = r;
    for (struct tensor *t = n->planted; t; t = t->next) {
        value_unref(&n->host, t->v);
        t->v = 0;
        t->run = r;
    }
    n->planted = NULL;
}

sv natives_tensor(struct natives *n, val v)
{
    sv made = script_object(n->s, n->tensor);
    struct tensor *t;

    if (!sv_ok(made))
        return made;
    t = (struct tensor *)(void *)made.o;
    t->run = n->run;
    t->v = v;
    calls_held(n->run, CALLED_LEND, v);
    return made;
}

val natives_value(struct natives *n, sv tensor)
{
    struct tensor *t = as_tensor(n->s, tensor);

    return t && on_device(n, t) ? value_in(t) : 0;
}

void natives_tell_ones(sv tensor)
{
    ((struct tensor *)(void *)tensor.o)->content = content_const(1);
}

void natives_tell_padded(sv tensor)
{
    ((struct tensor *)(void *)tensor.o)->content = content_is(CONTENT_PADDED, 1);
}

void natives_tell_packed(sv tensor, uint32_t sequences)
{
    ((struct tensor *)(void *)tensor.o)->content = sequences > 1 ? content_is(CONTENT_PACKED, sequences) : content_is(CONTENT_RISING, 0);
}

void natives_tell_text(sv tensor, int64_t padded_with, int64_t ends_with)
{
    struct content *c = &((struct tensor *)(void *)tensor.o)->content;

    *c = content_is(CONTENT_TEXT, (double)padded_with);
    c->skew = (double)ends_with;
}

void natives_fail_run(struct natives *n)
{
    struct err err = {0};

    if (script_error(n->s, &err) && !n->run->error.code)
        n->run->error = err;
}
