/* GET /gpus, /clusters, /methods, /optimizers, /dtypes: the catalogue, and every word that a request may use. */
#include "api/routes.h"
#include "api/words.h"
#include "catalog/clusters.h"
#include "catalog/gpus.h"

#include <string.h>

static void write_words(struct jsonw *w, const char *name, const struct word *words)
{
    jsonw_array(w, name);
    for (; words->name; words++) {
        jsonw_object(w, NULL);
        jsonw_str(w, "name", words->name);
        jsonw_bool(w, "modelled", words->value != WORD_UNMODELLED);
        jsonw_end(w);
    }
    jsonw_end(w);
}

static void write_methods(struct jsonw *w)
{
    static const char *const ranks[] = {"alone", "tp", "pp", "cp", "ep", "data-parallel"};

    jsonw_array(w, "methods");
    for (const struct method_part *p = method_parts; p->word.name; p++) {
        jsonw_object(w, NULL);
        jsonw_str(w, "name", p->word.name);
        jsonw_bool(w, "modelled", p->word.value != WORD_UNMODELLED);
        jsonw_str(w, "part", ranks[p->rank]);
        jsonw_end(w);
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
        {"precision", precision_words},
        {"quantization", quantization_words},
        {"prepare_kbit", prepare_kbit_words},
        {"float8", float8_words},
        {"lora_dtype", lora_dtype_words},
        {"reduce_dtype", reduce_words},
        {"dtype", compute_words},
        {"weights", weights_words},
        {"kv_cache", kv_cache_words},
    };

    return write_all(c, false, v, sizeof v / sizeof *v);
}

static void write_aliases(struct jsonw *w, const char *joined)
{
    jsonw_array(w, "aliases");
    for (const char *p = joined; p && *p;) {
        size_t n = strcspn(p, ";");

        jsonw_str_n(w, NULL, p, n);
        p += n + (p[n] == ';');
    }
    jsonw_end(w);
}

/* What no source gives is null, not zero. */
static void write_figure(struct jsonw *w, const char *name, uint64_t value)
{
    if (value)
        jsonw_u64(w, name, value);
    else
        jsonw_null(w, name);
}

enum err_code get_gpus(struct call *c)
{
    struct buf out;
    struct jsonw w;

    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    jsonw_array(&w, "gpus");
    for (size_t i = 0; i < gpu_count(); i++) {
        const struct gpu *g = gpu_at(i);

        jsonw_object(&w, NULL);
        jsonw_str(&w, "name", g->name);
        write_aliases(&w, g->aliases);
        jsonw_str(&w, "vendor", g->vendor);
        jsonw_str(&w, "arch", g->arch);
        jsonw_str(&w, "compute_capability", g->compute_capability);
        write_figure(&w, "multiprocessors", g->multiprocessors);
        write_figure(&w, "memory_bytes", g->memory_bytes);
        write_figure(&w, "usable_bytes", g->usable_bytes);
        jsonw_end(&w);
    }
    jsonw_end(&w);
    jsonw_end(&w);
    return finish_json(c, &w);
}

enum err_code get_clusters(struct call *c)
{
    struct buf out;
    struct jsonw w;

    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    jsonw_array(&w, "clusters");
    for (size_t i = 0; i < cluster_count(); i++) {
        const struct cluster *k = cluster_at(i);

        jsonw_object(&w, NULL);
        jsonw_str(&w, "name", k->name);
        write_aliases(&w, k->aliases);
        jsonw_str(&w, "gpu", k->gpu);
        jsonw_u64(&w, "gpus_per_node", k->gpus_per_node);
        write_figure(&w, "nodes", k->nodes);
        write_figure(&w, "host_memory_bytes_per_node", (uint64_t)(k->host_memory_gb_per_node * 1e9));
        jsonw_str(&w, "intra_node", k->intra_node);
        jsonw_str(&w, "inter_node", k->inter_node);
        jsonw_end(&w);
    }
    jsonw_end(&w);
    jsonw_end(&w);
    return finish_json(c, &w);
}
