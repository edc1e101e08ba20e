/* GET /methods, /optimizers, /dtypes: every word that a request may use. */
#include "api/routes.h"
#include "api/words/words.h"
#include "parallel/method.h"

#include <string.h>

static void write_synonyms(struct jsonw *w, const char *joined)
{
    jsonw_array(w, "synonyms");
    for (const char *p = joined; p && *p;) {
        size_t n = strcspn(p, "|");

        jsonw_str_n(w, NULL, p, n);
        p += n + (p[n] == '|');
    }
    jsonw_end(w);
}

static void write_word(struct jsonw *w, const struct word *word, const char *part, const struct method_row *method)
{
    jsonw_object(w, NULL);
    jsonw_str(w, "name", word->name);
    write_synonyms(w, word->also);
    jsonw_bool(w, "modelled", word->value != WORD_UNMODELLED);
    if (part)
        jsonw_str(w, "part", part);
    jsonw_str(w, "description", word->says);
    if (method) {
        jsonw_str(w, "sharded", method->sharded);
        jsonw_str(w, "replicated", method->replicated);
    }
    jsonw_end(w);
}

static void write_words(struct jsonw *w, const char *name, const struct word *words)
{
    jsonw_array(w, name);
    for (; words->name; words++)
        write_word(w, words, NULL, NULL);
    jsonw_end(w);
}

static void write_methods(struct jsonw *w)
{
    static const char *const ranks[] = {"alone", "tp", "pp", "cp", "ep", "data-parallel"};

    jsonw_array(w, "methods");
    for (const struct method_part *p = method_parts; p->word.name; p++) {
        bool known = p->word.value != WORD_UNMODELLED;
        const struct method_row *row = known ? &method_rows[p->word.value] : NULL;

        write_word(w, &p->word, ranks[p->rank], row);
    }
    jsonw_end(w);
}

struct vocabulary {
    const char *name;
    const struct word *words;
};

static enum err_code write_all(struct call *c, bool methods, const struct vocabulary *v, size_t n)
{
    struct buf out;
    struct jsonw w;

    if (c->query.n) {
        c->parameter = c->query.v[0].name;
        return err_set(c->err, ERR_UNKNOWN_MEMBER, "", "'%.60s' is not known here: this list takes no parameters", c->parameter);
    }
    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    if (methods)
        write_methods(&w);
    for (size_t i = 0; i < n; i++)
        write_words(&w, v[i].name, v[i].words);
    jsonw_end(&w);
    return finish_json(c, &w);
}

enum err_code get_methods(struct call *c)
{
    static const struct vocabulary v[] = {
        {"workload", workload_words},
        {"objective", objective_words},
        {"tuning", tuning_words},
        {"gradient_checkpointing", checkpointing_words},
        {"offload", offload_words},
        {"attention", attention_words},
        {"loss", loss_words},
        {"liger_kernels", liger_words},
        {"framework", framework_words},
        {"lora_bias", lora_bias_words},
        {"lora_kernels", lora_kernel_words},
        {"stage", stage_words},
        {"trainer", trainer_words},
        {"reference", reference_words},
        {"tool", tool_words},
        {"engine", engine_words},
        {"fsdp_wrap", wrap_words},
        {"fsdp_backward_prefetch", prefetch_words},
        {"llmem_variant", llmem_words},
        {"links", link_words},
    };

    return write_all(c, true, v, sizeof v / sizeof *v);
}

enum err_code get_optimizers(struct call *c)
{
    static const struct vocabulary v[] = {{"optimizers", optimizer_words}};

    return write_all(c, false, v, 1);
}

enum err_code get_dtypes(struct call *c)
{
    static const struct vocabulary v[] = {
        {"precision", precision_words}, {"quantization", quantization_words}, {"prepare_kbit", prepare_kbit_words},
        {"float8", float8_words},       {"lora_dtype", lora_dtype_words},     {"reduce_dtype", reduce_words},
        {"dtype", compute_words},       {"weights", weights_words},           {"kv_cache", kv_cache_words},
        {"cache", cache_words},
    };

    return write_all(c, false, v, sizeof v / sizeof *v);
}
