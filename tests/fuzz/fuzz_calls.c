/*
 * Calls of torch's names with odd arguments, an expression a line: the forward of a modelling file of a request evaluates one after another, adds what has a
 * gradient to what it returns, and a step of it is played. What ends it has a sentence, whatever was handed to whom, and soon.
 */
#include "api/api.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "models/program.h"
#include "natives/functions.h"
#include "natives/nn.h"
#include "natives/tensor.h"
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096, LINE_MAX = 512, LINES_MAX = 24, FILE_MAX = 32 << 10, NAMES_MAX = 2048 };
#define ARENA_BYTES ((size_t)192 << 20)
#define EVENTS      UINT64_C(400000)

/* --- names ------------------------------------------------------------------------------------------------------------------------- */

struct names {
    unsigned n;
    char v[NAMES_MAX][40];
};

static struct names functions, classes;

static void add_name(struct names *to, const char *name, size_t n)
{
    if (to->n == NAMES_MAX || !n || n >= sizeof to->v[0] || (n > 1 && name[0] == '_' && name[1] == '_'))
        return;
    memcpy(to->v[to->n], name, n);
    to->v[to->n++][n] = 0;
}

static void add_natives(const struct script_native *f)
{
    for (; f && f->name; f++)
        add_name(&functions, f->name, strlen(f->name));
}

/* "def NAME(", "class NAME" of the library's text. */
static void add_defined(const char *text, const char *word, struct names *to)
{
    for (const char *at = text; (at = strstr(at, word));) {
        at += strlen(word);
        add_name(to, at, strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
    }
}

static void learn_names(void)
{
    if (functions.n)
        return;
    add_natives(torch_module.functions);
    add_natives(functional_module.functions);
    add_natives(tensor_class.methods);
    for (const struct script_class *const *c = nn_module_table.classes; c && *c; c++)
        add_name(&classes, (*c)->name, strlen((*c)->name));
    for (size_t i = 0; i < n_program_files; i++)
        if (!strncmp(program_files[i].name, "torch", 5)) {
            add_defined(program_files[i].text, "def ", &functions);
            if (strstr(program_files[i].name, "nn"))
                add_defined(program_files[i].text, "class ", &classes);
        }
    FUZZ_CHECK(functions.n > 300 && classes.n > 50, "%u names, %u classes", functions.n, classes.n);
}

/* --- an expression ------------------------------------------------------------------------------------------------------------------ */

static const char *const tensors[] = {
    "x", "x", "x", "x", "y", "x.sum()", "x[0, 0, 0]", "x[0]", "x[:, :1]", "x[:0]", "x[..., 0]", "x[..., ::2]", "x.mean(-1)", "x.half()", "x.double()", "x.detach()",
    "x.to(torch.int32)", "x.bool()", "x > 0", "(x > 0).all()", "x.transpose(1, 2)", "x.expand(2, -1, -1)", "x.unsqueeze(0).unsqueeze(0)", "x.view(-1)",
    "x.reshape(-1, 4, 4)", "input_ids", "labels", "torch.tensor(3)", "torch.zeros(())", "torch.zeros(0)", "torch.ones(3, 0, 2)", "torch.arange(5)",
    "torch.zeros(1, 1, 1, 1, 1, 1, 1, 1)", "torch.zeros(1 << 40)", "torch.empty(2, 3, 5, 7)", "torch.zeros(2, 8, 16, 16)", "torch.zeros(2, 4, 64)",
    "self.lm_head.weight",
};
static const char *const numbers[] = {
    "0", "1", "-1", "2", "3", "-2", "4", "7", "8", "16", "64", "1000", "1 << 20", "1 << 31", "(1 << 31) - 1", "-(1 << 31)", "1 << 40", "1 << 62", "-(1 << 63)",
    "(1 << 63) - 1", "1 << 63", "10 ** 30", "0.5", "0.0", "-1.0", "1e300", "1e-320", "float('nan')", "float('inf')",
};
static const char *const others[] = {
    "None", "True", "False", "''", "'a'", "'mean'", "'none'", "'sum'", "'same'", "'...ij,jk->ik'", "slice(None)", "...", "torch.float16", "torch.bfloat16", "torch.long",
    "'cuda'", "self", "self.lm_head", "nn.Linear", "nn.Linear(64, 64)", "lambda *a, **k: a[0] if a else None", "lambda *a: 1 / 0", "{}", "{'a': x}", "range(3)",
    "range(1 << 40)", "iter([x, x])", "nn", "torch", "int", "nn.functional.relu", "(1, 1)", "(2, 2)", "[1, 2]",
};
static const char *const keywords[] = {
    "dim", "dims", "size", "p", "keepdim", "dtype", "out", "weight", "bias", "eps", "reduction", "ignore_index", "kernel_size", "stride", "padding", "dilation", "groups", "n",
    "k", "largest", "sorted", "start", "end", "step", "index", "value", "mask", "normalized_shape", "num_groups", "training", "inplace", "dropout_p", "is_causal", "attn_mask",
    "scale", "enable_gqa", "mode", "label_smoothing", "min", "max", "diagonal", "repeats", "chunks", "return_inverse", "alpha", "beta", "other", "accumulate", "src",
    "correction", "unbiased", "batch_first", "hidden_size", "input_size", "num_layers", "bidirectional", "ceil_mode", "scale_factor", "align_corners", "prepend",
};
static const char *const indices[] = {"0", "-1", "1", "...", "None", ":", "::2", "::-1", "1:", "5:2", "x > 0", "[0, 1]", "torch.tensor(1)", "torch.arange(2)", "True", "(0, 1)",
                                      "slice(0, 1 << 62)", "1 << 40", "input_ids", "[]"};

#define PICK(r, of) of[fuzz_below(r, sizeof of / sizeof *of)]

static void write_argument(struct buf *b, uint64_t *r, unsigned depth)
{
    size_t k = fuzz_below(r, 20), n = fuzz_below(r, 5);

    if (k < 2 && depth < 2) {
        buf_str(b, k ? "[" : "(");
        for (size_t i = 0; i < n; i++) {
            write_argument(b, r, depth + 1);
            buf_str(b, ", ");
        }
        buf_str(b, k ? "]" : ")");
    } else {
        buf_str(b, k < 9 ? PICK(r, tensors) : k < 16 ? numbers[fuzz_below(r, k < 14 ? 9 : sizeof numbers / sizeof *numbers)] : PICK(r, others));
    }
}

static void write_arguments(struct buf *b, uint64_t *r)
{
    size_t n = fuzz_below(r, 5), named = fuzz_below(r, 8);

    buf_str(b, "(");
    for (size_t i = 0; i < n; i++) {
        write_argument(b, r, 0);
        buf_str(b, ", ");
    }
    for (size_t i = 5; i < named; i++) {
        buf_str(b, PICK(r, keywords));
        buf_str(b, "=");
        write_argument(b, r, 0);
        buf_str(b, ", ");
    }
    buf_str(b, ")");
}

static void write_call(struct buf *b, uint64_t *r)
{
    const char *name = functions.v[fuzz_below(r, functions.n)];
    size_t k = fuzz_below(r, 20), n = 1 + fuzz_below(r, 4);

    if (k < 1) {
        buf_str(b, "(");
        buf_str(b, PICK(r, tensors));
        buf_str(b, ")[");
        for (size_t i = 0; i < n; i++) {
            buf_str(b, PICK(r, indices));
            buf_str(b, i + 1 < n ? ", " : "]");
        }
        return;
    }
    if (k < 4) {
        buf_str(b, "nn.");
        buf_str(b, classes.v[fuzz_below(r, classes.n)]);
        write_arguments(b, r);
    } else if (k < 11) {
        buf_str(b, k < 8 ? "torch." : k < 10 ? "nn.functional." : "torch.linalg.");
        buf_str(b, name);
    } else {
        buf_str(b, "(");
        buf_str(b, k < 19 ? PICK(r, tensors) : "self.lm_head");
        buf_str(b, ").");
        buf_str(b, name);
    }
    write_arguments(b, r);
}

/* --- mutations ------------------------------------------------------------------------------------------------------------------------ */

static size_t put(uint8_t *data, size_t size, size_t max_size, size_t at, size_t was, const char *text, size_t n)
{
    if (size - was + n > max_size)
        return size;
    memmove(data + at + n, data + at + was, size - at - was);
    memcpy(data + at, text, n);
    return size - was + n;
}

static bool is_of_word(uint8_t c)
{
    return isalnum(c) || c == '_' || c == '.';
}

/* A call more or in the place of a line, a word or number in the place of another; now and then bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    char block[LINE_MAX];
    uint64_t r = seed;
    size_t kind = fuzz_below(&r, 16), at = fuzz_below(&r, size + 1), end;
    struct buf b;

    learn_names();
    if (kind > 13)
        return LLVMFuzzerMutate(data, size, max_size);
    buf_init_fixed(&b, block, sizeof block);
    if (kind < 9) { /* lines */
        while (at && data[at - 1] != '\n')
            at--;
        for (end = at; end < size && data[end] != '\n'; end++)
            ;
        end += end < size;
        write_call(&b, &r);
        buf_str(&b, "\n");
        return buf_ok(&b) ? put(data, size, max_size, at, kind < 4 ? end - at : 0, buf_text(&b), b.bytes) : size;
    }
    while (at && is_of_word(data[at - 1]))
        at--;
    for (end = at; end < size && is_of_word(data[end]); end++)
        ;
    write_argument(&b, &r, 1);
    return buf_ok(&b) ? put(data, size, max_size, at, end - at, buf_text(&b), b.bytes) : size;
}

/* --- the step ------------------------------------------------------------------------------------------------------------------------- */

static const char before[] = "import torch\n"
                             "from torch import nn\n"
                             "from transformers import PretrainedConfig, PreTrainedModel\n"
                             "from transformers.modeling_outputs import CausalLMOutputWithPast\n"
                             "def told(x, y):\n"
                             "    return x + y.sum() if isinstance(y, torch.Tensor) and y.requires_grad and y.is_floating_point() else x\n"
                             "class C(PretrainedConfig):\n"
                             "    model_type = 'h'\n"
                             "    def __init__(self, vocab_size=100, hidden_size=64, **kw):\n"
                             "        self.vocab_size = vocab_size\n"
                             "        self.hidden_size = hidden_size\n"
                             "        super().__init__(**kw)\n"
                             "class M(PreTrainedModel):\n"
                             "    config_class = C\n"
                             "    def __init__(self, config):\n"
                             "        super().__init__(config)\n"
                             "        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)\n"
                             "        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)\n"
                             "    def forward(self, input_ids, labels=None, **kwargs):\n"
                             "        y = x = self.embed_tokens(input_ids)\n";
static const char after[] = "        logits = self.lm_head(x)\n"
                            "        loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))\n"
                            "        return CausalLMOutputWithPast(loss=loss, logits=logits)\n";

static void write_file(struct buf *b, char *text)
{
    unsigned n = 0;

    buf_str(b, before);
    for (char *line = text, *next; line && n < LINES_MAX; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (!*line)
            continue;
        buf_str(b, "        try:\n            y = ");
        buf_str(b, line);
        buf_str(b, "\n            x = told(x, y)\n        except Exception as e:\n            y = x\n");
        n++;
    }
    buf_str(b, after);
}

static void write_body(struct jsonw *w, const char *file)
{
    jsonw_object(w, NULL);
    jsonw_object(w, "config");
    jsonw_str(w, "model_type", "h");
    jsonw_object(w, "auto_map");
    jsonw_str(w, "AutoConfig", "modeling_h.C");
    jsonw_str(w, "AutoModelForCausalLM", "modeling_h.M");
    jsonw_end(w);
    jsonw_u64(w, "hidden_size", 64);
    jsonw_u64(w, "vocab_size", 100);
    jsonw_end(w);
    jsonw_object(w, "modeling");
    jsonw_str(w, "modeling_h.py", file);
    jsonw_end(w);
    jsonw_object(w, "cluster");
    jsonw_str(w, "gpu", "A100-80GB");
    jsonw_end(w);
    jsonw_object(w, "training");
    jsonw_u64(w, "seq_len", 64);
    jsonw_u64(w, "micro_batch_size", 2);
    jsonw_str(w, "methods", "single");
    jsonw_str(w, "tuning", "full");
    jsonw_bool(w, "gradient_checkpointing", false);
    jsonw_end(w);
    jsonw_end(w);
}

/* Without a line the step is one that fits. */
static void ask(const char *body, size_t bytes, bool is_plain, struct arena *arena)
{
    struct budget budget = {.limit_events = EVENTS};
    struct api_request rq = {.method = "POST", .path = "/estimate", .content_type = "application/json", .body = body, .body_bytes = bytes, .arena = arena,
                             .budget = &budget, .library = fuzz_library};
    struct api_response r;

    api_answer(&rq, NULL, 0, &r);
    FUZZ_CHECK(r.status == 200 || (r.status >= 400 && r.status < 500) || r.status == 503, "status %d: %s", r.status, r.body);
    FUZZ_CHECK(r.body && r.bytes, "an answer without a body");
    FUZZ_CHECK(!is_plain || (r.status == 200 && r.fits), "the step itself: %s", r.body);
    FUZZ_CHECK(r.status == 200 || (r.code && r.err && r.err->detail[0]), "a problem that says nothing: %s", r.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = fuzz_arena(ARENA_BYTES);
    char *text = fuzz_text(data, size);
    struct buf file, body;
    struct jsonw w;

    buf_init(&file, &arena, FILE_MAX);
    buf_init(&body, &arena, 2 * FILE_MAX);
    if (size < TEXT_MAX && strlen(text) == size) {
        write_file(&file, text);
        if (buf_ok(&file)) {
            jsonw_init(&w, &body, false);
            write_body(&w, buf_text(&file));
        }
        if (buf_ok(&file) && buf_ok(&body))
            ask(buf_text(&body), body.bytes, !size, &arena);
    }
    free(text);
    return 0;
}
