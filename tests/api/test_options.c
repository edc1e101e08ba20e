/*
 * docs/options.md: a row for each word that has a model, of the words' own table and of options.def; the truth that a row names is there.
 * OPTIONS_FILE=docs/options.md writes it anew (make docs).
 */
#include "api/words/words.h"
#include "base/buf.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option {
    const char *member, *word, *keeps, *source, *truth;
} options[] = {
#define OPTION(member, word, keeps, source, truth) {member, word, keeps, source, truth},
#include "api/words/options.def"
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static const struct word packing_words[] = {{"true", 1, NULL, "Several sequences a row, without a mask, whose positions start anew."}, {0}};

static const struct word experts_words[] = {{"true", 1, NULL, "Tensors of experts in 4 or 8 bits too: axolotl's quantize_moe_experts."}, {0}};

static const struct word backward_words[] = {{"true", 1, NULL, "Each parameter's step as soon as its gradient stands, which then goes."}, {0}};

static const struct word compile_words[] = {{"true", 1, NULL, "torch.compile with Inductor, in its default mode."}, {0}};

static const struct word lora_words[] = {
    {"bias", 1, NULL, "Biases that are trained beside adapters: all of the model's, or those of adapted modules."},
    {"use_dora", 1, NULL, "DoRA: a magnitude for each output, over the norm of the adapted weight."},
    {"kernels", 1, NULL, "axolotl's own kernels of adapters: qkv, o, mlp; its file's lora_qkv_kernel, lora_o_kernel, lora_mlp_kernel, on unless it says no."},
    {"target_parameters", 1, NULL, "Adapters of tensors that no linear has, experts above all."},
    {"layers_to_transform", 1, NULL, "Some layers alone."},
    {"layers_pattern", 1, NULL, "What the list of layers is called."},
    {"exclude_modules", 1, NULL, "Modules that the targets mean and that are left out."},
    {"rank_pattern", 1, NULL, "Ranks by name."},
    {"alpha_pattern", 1, NULL, "Alphas by name."},
    {0}};

static const struct word part_words[] = {
    {"freeze", 1, NULL, "Modules and parameters that are not trained, by name."},
    {"trainable", 1, NULL, "What alone is trained: by name, or one regular expression; beside the others, what they freeze is trained all the same."},
    {"freeze_ratio", 1, NULL, "The first parameters, up to a share of all, are not trained."},
    {0}};

static const struct word zero_words[] = {
    {"round_robin", 1, NULL, "round_robin_gradients: parameters are dealt out to the ranks of ZeRO-1 and 2 in turn."},
    {"reuse_elems", 1, NULL, "stage3_max_reuse_distance: how soon a gathered parameter must be used again to be kept."},
    {0}};

static const struct word stack_words[] = {
    {"causal_conv1d", 1, NULL, "causal-conv1d is installed: its kernels make the mixers' convolutions."},
    {"mamba_ssm", 1, NULL, "mamba-ssm is installed: its kernels scan, in one function with the convolution and the projections around it."},
    {"fla", 1, NULL, "flash-linear-attention is installed: its kernels are the gated delta rule's."},
    {0}};

static const struct {
    const char *member;
    const struct word *words;
} vocabularies[] = {{"lora", lora_words},
                    {"a part", part_words},
                    {"buckets", zero_words},
                    {"loss", loss_words},
                    {"liger_kernels", liger_words},
                    {"stack", stack_words},
                    {"optimizer", optimizer_words},
                    {"attention", attention_words},
                    {"gradient_checkpointing", checkpointing_words},
                    {"offload", offload_words},
                    {"quantization", quantization_words},
                    {"prepare_kbit", prepare_kbit_words},
                    {"quantize_experts", experts_words},
                    {"packing", packing_words},
                    {"optimizer_in_backward", backward_words},
                    {"compile", compile_words},
                    {"float8", float8_words},
                    {"stage", stage_words},
                    {"trainer", trainer_words},
                    {"reference", reference_words},
                    {"inference.weights", weights_words},
                    {"inference.kv_cache", kv_cache_words},
                    {"inference.cache", cache_words},
                    {"inference.engine", engine_words}};
enum { N_VOCABULARIES = sizeof vocabularies / sizeof *vocabularies };

static const struct option *option_of(const char *member, const char *word)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (!strcmp(options[i].member, member) && !strcmp(options[i].word, word))
            return &options[i];
    return NULL;
}

START_TEST(tells_each_word_that_has_a_model)
{
    for (const struct word *w = vocabularies[_i].words; w->name; w++)
        ck_assert_msg((w->value != WORD_UNMODELLED) == (option_of(vocabularies[_i].member, w->name) != NULL), "%s %s: a row of options.def",
                      vocabularies[_i].member, w->name);
}
END_TEST

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    long n;

    if (!f)
        return NULL;
    (void)fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)n + 1);
    if (text && fread(text, 1, (size_t)n, f) != (size_t)n)
        text[0] = 0;
    (void)fclose(f);
    return text;
}

static bool is_default(const char *word)
{
    static const char *const words[] = {"none", "hf", "sft", "copy", "adapter"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i]))
            return true;
    return false;
}

/* Its rows have the word somewhere: in a body, where quotes are escaped. */
START_TEST(names_truth_that_is_there)
{
    const struct option *o = &options[_i];
    const char *colon = strchr(o->truth, ':');
    char path[128], quoted[96], *text;

    if (!o->truth[0])
        return;
    ck_assert_msg(colon != NULL, "%s %s: a file and what it shows", o->member, o->word);
    (void)snprintf(path, sizeof path, "tests/data/accuracy/%.*s", (int)(colon - o->truth), o->truth);
    text = read_file(path);
    ck_assert_msg(text != NULL, "%s", path);
    (void)snprintf(quoted, sizeof quoted, !strcmp(o->word, "true") || !strcmp(o->word, "false") ? "%s" : "\\\"%s\\\"", o->word);
    ck_assert_msg(strstr(text, quoted) || is_default(o->word), "%s has no %s", path, quoted);
    free(text);
}
END_TEST

static char page[1 << 16];

static void write_page(void)
{
    size_t n = (size_t)snprintf(page, sizeof page,
                                "# What people switch on\n\nWritten by `make docs` from the words of the contract (api/words) and api/words/options.def; a test "
                                "holds it true. Words of the same lists\nthat are not here have no model yet: a candidate with one has a reason and no figures.\n");

    for (size_t v = 0; v < N_VOCABULARIES; v++) {
        n += (size_t)snprintf(page + n, sizeof page - n, "\n## %s\n\n| word | what it is | what it keeps, and when | source | traced |\n|---|---|---|---|---|\n",
                              vocabularies[v].member);
        for (const struct word *w = vocabularies[v].words; w->name; w++) {
            const struct option *o = option_of(vocabularies[v].member, w->name);

            if (o)
                n += (size_t)snprintf(page + n, sizeof page - n, "| `%s` | %s | %s | %s | %s |\n", w->name, w->says, o->keeps, o->source,
                                      o->truth[0] ? o->truth : "not traced");
        }
    }
    ck_assert_uint_lt(n, sizeof page);
}

START_TEST(is_the_page)
{
    const char *path = getenv("OPTIONS_FILE");
    char *text;

    write_page();
    if (path) {
        FILE *f = fopen(path, "w");

        ck_assert_ptr_nonnull(f);
        ck_assert_int_eq(fputs(page, f) < 0, 0);
        (void)fclose(f);
    }
    text = read_file("docs/options.md");
    ck_assert_msg(text && !strcmp(text, page), "docs/options.md is not what the tables say: make docs");
    free(text);
}
END_TEST

UNIT_TESTS("options", unit_rows(tells_each_word_that_has_a_model, vocabularies); unit_rows(names_truth_that_is_there, options); unit_test(is_the_page);)
