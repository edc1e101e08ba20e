/*
 * Liger's kernels as other tools switch them on.
 *
 * Source    transformers 5.23.0 integrations/liger.py (use_liger_kernel, liger_kernel_config), axolotl 0.19.0 integrations/liger/args.py and
 *           integrations/cut_cross_entropy/args.py; what apply_liger_kernel_to_* of liger-kernel 0.8.5 switches on by itself.
 */
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <string.h>

/* What a name of theirs switches on, and whether it is on where nothing is said. */
static const struct {
    const char *theirs, *word;
    bool on;
} kernels[] = {
    {"rope", "rope", true},
    {"rms_norm", "rms_norm", true},
    {"swiglu", "swiglu", true},
    {"geglu", "geglu", true},
    {"glu_activation", "swiglu\",\"geglu", false},
    {"layer_norm", "layer_norm", false},
    {"cross_entropy", "cross_entropy", false},
    {"fused_linear_cross_entropy", "fused_linear_cross_entropy", true},
};

/* trl 1.16 trainer/{sft,dpo,kto}_trainer.py: a fused head of its own stands where Liger's would. */
static bool keeps_trl_head(const struct theirs *t)
{
    const struct words *stage = &t->e->rq.training.stage;

    return theirs_tool_is(t, TOOL_TRL) && (!theirs_has_stage(t) || has_word(stage, stage_words, "dpo") || has_word(stage, stage_words, "kto"));
}

/* All of them that are on, `before` each name of theirs, in one list. */
static enum err_code say_kernels(struct theirs *t, const char *member, const struct json *of, const char *before, bool by_default)
{
    char text[256] = "[", name[64];
    size_t n = 1;

    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        bool is_head = !strcmp(kernels[i].word, "fused_linear_cross_entropy") && keeps_trl_head(t), on = by_default && kernels[i].on && !is_head;

        (void)snprintf(name, sizeof name, "%s%s", before, kernels[i].theirs);
        (void)theirs_flag(json_get(of, name), &on);
        if (is_head && on)
            return decode_fail(&t->d, ERR_FIELD_VALUE,
                               "trl 1.16 raises on liger_kernel_config.fused_linear_cross_entropy: it has a fused head of its own; leave it out");
        if (on)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\"", n > 1 ? "," : "", kernels[i].word);
    }
    (void)snprintf(text + n, sizeof text - n, "]");
    return n > 1 ? theirs_say_text(t, member, text) : ERR_OK;
}

/* use_liger_kernel: with what liger_kernel_config says otherwise */
enum err_code theirs_read_liger(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    return rc || !on ? rc : say_kernels(t, key->member, json_get(t->doc, "liger_kernel_config"), "", true);
}

/* liger_rope: true, .. */
enum err_code theirs_read_liger_kernel(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    return rc || !on ? rc : say_kernels(t, key->member, t->doc, "liger_", false);
}

/* src/axolotl/integrations: what each of axolotl's own plugins does */
static const char *plugin_gap(const char *name)
{
    static const struct {
        const char *part, *gap;
    } gaps[] = {
        {"integrations.kernels", "KernelsPlugin, by which ScatterMoE or SonicMoE run the experts (without it experts_implementation grouped_mm has figures)"},
        {"expert_parallel", "ExpertParallelPlugin, which gives each rank experts of its own (DeepEP)"},
        {"diffusion", "DiffusionPlugin, a loss over masked tokens"},
        {"llm_compressor", "LLMCompressorPlugin, which keeps pruned weights at nought"},
        {"integrations.kd", "KDPlugin, a loss against a teacher's logits of before"},
        {"spectrum", "SpectrumPlugin, which trains the layers of a list that it measured (unfrozen_parameters names them)"},
        {"densemixer", "DenseMixerPlugin, gradients of all experts"},
        {"grokfast", "GrokfastPlugin, a moving mean of gradients"},
        {"nemo_gym", "NemoGymPlugin, rewards of an environment"},
    };

    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (strstr(name, gaps[i].part))
            return gaps[i].gap;
    return "a plugin that may change the model, the loss or the step";
}

/* plugins of axolotl: Liger's does what its keys say, that of cut cross-entropy is on unless its key is off, SwanLab's writes a log, lm_eval's
 * runs when training has ended */
enum err_code theirs_read_plugins(struct theirs *t, const struct their_key *key, const struct json *v)
{
    enum err_code rc = ERR_OK;

    json_each (one, v) {
        const char *s = json_str(one);
        bool on = true;

        if (s && (strstr(s, "liger") || strstr(s, "swanlab") || strstr(s, "lm_eval")))
            continue;
        if (s && strstr(s, "cut_cross_entropy")) {
            (void)theirs_flag(json_get(t->doc, "cut_cross_entropy"), &on);
            rc = on && !rc ? theirs_say_word(t, key->member, "cut_cross_entropy") : rc;
        } else {
            theirs_gap(&t->d, plugin_gap(s ? s : ""));
        }
    }
    return rc;
}
