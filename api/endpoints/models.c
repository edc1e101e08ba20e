/* /models: what is carried, and one model's tensors to the last parameter. */
#include "api/answer/estimate.h"
#include "api/endpoints/rows.h"
#include "api/request/left_out.h"
#include "api/request/named.h"
#include "api/routes.h"
#include "api/words/families.h"

#include "catalog/builtin.h"
#include "models/modeling.h"

#include <stdio.h>
#include <string.h>

struct models_request {
    const char *model, *revision;
    const struct json *config, *lora_doc, *modeling;
    struct lora_request lora;
    struct words dtype, program;
    struct stack_request stack;
};

static enum err_code lora_present(struct decoding *d, const struct json *v, void *at)
{
    struct models_request *rq = (struct models_request *)(void *)((char *)at - offsetof(struct models_request, lora));

    rq->lora_doc = v;
    return decode(d, v, lora_members, at);
}

#define AT(member) .key = #member, .at = offsetof(struct models_request, member)
static const struct member models_members[] = {
    {AT(model), .kind = KIND_STR, .min = 1, .max = 255},
    {AT(revision), .kind = KIND_STR, .min = 1, .max = 128},
    {AT(config), .kind = KIND_JSON},
    {AT(modeling), .kind = KIND_JSON},
    {AT(lora), .kind = KIND_OWN, .own = lora_present},
    {AT(dtype), .kind = KIND_WORDS, .words = compute_words, .also = "torch_dtype"},
    {AT(program), .kind = KIND_WORDS, .words = program_words},
    {AT(stack), .kind = KIND_OBJECT, .members = stack_members},
    {0},
};

struct asked_model {
    struct call *call;
    struct models_request rq;
    struct model_info info;
    struct notes warnings;
    struct stack stack;
    struct inventory inventory;
};

static enum err_code check_names(const struct models_request *rq, struct err *err)
{
    const char *fault = rq->model ? model_id_fault(rq->model) : NULL;

    if (fault)
        return err_set(err, ERR_FIELD_VALUE, "/model", "'%.40s': an id %s", rq->model, fault);
    fault = rq->revision ? revision_fault(rq->revision) : NULL;
    return fault ? err_set(err, ERR_FIELD_VALUE, "/revision", "a revision %s", fault) : ERR_OK;
}

static enum err_code read_request(struct asked_model *m)
{
    struct call *c = m->call;
    struct left_out left_out;
    struct decoding d = {.arena = c->arena, .warnings = &m->warnings, .err = c->err, .left_out = &left_out};
    enum err_code rc;

    left_out_init(&left_out, c->arena, false);
    rc = decode(&d, c->doc, models_members, &m->rq);
    for (const struct ignored *i = left_out.ignored; i && !rc; i = i->next)
        note(&m->warnings, "%.100s is not known and was ignored", i->pointer);

    if (rc)
        return rc;
    if (!m->rq.model && !m->rq.config)
        return err_set(c->err, ERR_FIELD_MISSING, "/config", "a config.json, or a model's id as `model`");
    if (m->rq.model)
        m->rq.model = model_named(m->rq.model, c->arena, &m->rq.revision);
    return check_names(&m->rq, c->err);
}

/* The dtype the weights have: as asked, else as saved. The Trainer has no part in it. */
static enum precision precision_of(const struct asked_model *m)
{
    static const enum precision by_word[] = {PRECISION_BF16, PRECISION_FP16, PRECISION_FP32};

    if (m->rq.dtype.n)
        return by_word[m->rq.dtype.at[0]];
    return m->info.arch.saved == SAVED_BF16 ? PRECISION_BF16 : m->info.arch.saved == SAVED_FP16 ? PRECISION_FP16 : PRECISION_FP32;
}

static enum err_code take_inventory(struct asked_model *m)
{
    static const struct device any = {.cc_major = 8, .multiprocessors = 108, .threads_per_multiprocessor = 2048};
    struct call *c = m->call;
    struct recipe r = {.max_grad_norm = -1, .precision = precision_of(m), .tuning = m->rq.lora_doc ? TUNING_LORA : TUNING_FULL,
                       .peft_unnamed = !m->rq.stack.peft};
    struct step step;
    enum err_code rc = stack_read(&m->rq.stack, &r.stack, c->err);

    m->stack = r.stack;
    if (!rc)
        rc = lora_read(&m->rq.lora, "/lora/target_modules", c->arena, &r.lora, c->err);
    if (!rc)
        rc = train_resolve(&r, &m->info.arch, &any, c->arena, &step, c->err);
    if (rc == ERR_NO_TARGETS)
        return err_set(c->err, rc, "/lora/target_modules",
                       "peft has no default target modules for '%.60s': name them, or write \"all-linear\"", m->info.model_type);
    if (!rc)
        rc = inventory_of(&m->info.arch, &step, c->arena, &m->inventory, c->err);
    if (!rc && m->rq.lora_doc && !m->inventory.adapted_modules)
        rc = err_set(c->err, ERR_FIELD_VALUE, "/lora/target_modules", "none of them is a module of this model");
    return rc;
}

/* --- writing ------------------------------------------------------------------------------------------------------------------ */

static void write_tensor(struct jsonw *w, const struct tensor_info *t)
{
    jsonw_object(w, NULL);
    jsonw_str(w, "name", t->name);
    jsonw_array(w, "shape");
    for (uint32_t i = 0; i < t->ndim; i++)
        jsonw_u64(w, NULL, t->shape[i]);
    jsonw_end(w);
    jsonw_str(w, "dtype", t->dtype);
    if (!t->buffer)
        jsonw_bool(w, "trainable", t->trainable);
    if (t->tied_to)
        jsonw_str(w, "tied_to", t->tied_to);
    jsonw_end(w);
}

static void write_tensors(struct jsonw *w, const char *name, const struct inventory *inv, bool buffers)
{
    jsonw_array(w, name);
    for (uint32_t i = 0; i < inv->n; i++)
        if (inv->rows[i].buffer == buffers)
            write_tensor(w, &inv->rows[i]);
    jsonw_end(w);
}

static void write_arch(struct jsonw *w, const struct arch *a)
{
    jsonw_object(w, "architecture");
    jsonw_str(w, "class", a->architecture);
    jsonw_u64(w, "hidden", a->hidden);
    jsonw_u64(w, "layers", a->layers);
    jsonw_u64(w, "heads", a->heads);
    jsonw_u64(w, "kv_heads", a->kv_heads);
    jsonw_u64(w, "head_dim", a->head_dim);
    jsonw_u64(w, "ffn", a->ffn);
    jsonw_u64(w, "vocab", a->vocab);
    jsonw_u64(w, "max_positions", a->max_positions);
    jsonw_bool(w, "tied_embeddings", a->tie_embeddings);
    jsonw_end(w);
}

static enum err_code write_model(struct asked_model *m)
{
    const struct inventory *inv = &m->inventory;
    struct buf out;
    struct jsonw w;

    begin_json(m->call, &out, &w);
    jsonw_object(&w, NULL);
    model_write_origin(&w, &m->info, &m->stack);
    jsonw_bool(&w, "modelled", !m->info.generic && !m->info.arch.inventory_only);
    write_arch(&w, &m->info.arch);
    jsonw_u64(&w, "parameters", inv->base_parameters);
    jsonw_u64(&w, "trainable_parameters", inv->trainable_parameters);
    jsonw_u64(&w, "active_parameters", inv->active_parameters);
    jsonw_u64(&w, "adapted_modules", inv->adapted_modules);
    jsonw_u64(&w, "n_tensors", inv->tensors);
    write_tensors(&w, "tensors", inv, false);
    write_tensors(&w, "buffers", inv, true);
    notes_write(&w, "warnings", &m->warnings);
    jsonw_end(&w);
    return finish_json(m->call, &w);
}

/* Nothing but the count is known of a type without a program. */
static enum err_code write_counted(struct asked_model *m)
{
    struct buf out;
    struct jsonw w;

    note(&m->warnings, "model type '%.60s' has no program yet: `parameters` is what its class in transformers declares, its tensors are not listed",
         m->info.model_type);
    begin_json(m->call, &out, &w);
    jsonw_object(&w, NULL);
    model_write_origin(&w, &m->info, &m->stack);
    jsonw_bool(&w, "modelled", false);
    jsonw_u64(&w, "parameters", m->info.counted_parameters);
    jsonw_array(&w, "tensors");
    jsonw_end(&w);
    jsonw_array(&w, "buffers");
    jsonw_end(&w);
    notes_write(&w, "warnings", &m->warnings);
    jsonw_end(&w);
    return finish_json(m->call, &w);
}

static enum err_code answer_counted(struct asked_model *m)
{
    enum err_code rc = write_counted(m);

    json_free(m->info.owned);
    return rc;
}

static enum err_code answer(struct asked_model *m)
{
    const struct model_asked asked = {m->rq.model,    m->rq.revision,                    m->rq.config,
                                      m->rq.modeling, program_wanted(&m->rq.program), &m->rq.stack, NULL};
    enum err_code rc = model_read(m->call, &asked, &m->warnings, &m->info);

    if (!rc && !m->info.has_program && m->info.counted_parameters && !m->rq.lora_doc)
        return answer_counted(m);
    if (!rc && !m->info.has_program)
        rc = err_set(m->call->err, ERR_ARCH_UNKNOWN, m->rq.config ? "/config/model_type" : "/model",
                     "model type '%.60s' has no program yet", m->info.model_type);
    if (!rc)
        rc = model_blame(&m->info, take_inventory(m), m->call->err);
    model_compare_count(&m->info, m->inventory.base_parameters, &m->warnings);
    if (!rc)
        rc = write_model(m);
    json_free(m->info.owned);
    return rc;
}

enum err_code post_models(struct call *c)
{
    struct asked_model m = {.call = c, .warnings.arena = c->arena};
    enum err_code rc = read_request(&m);

    return rc ? rc : answer(&m);
}

void get_model_needs(const struct call *c, struct needs *needs)
{
    need_add(needs, c->rest, query_value(&c->query, "revision"), API_CODE_UNKNOWN);
}

enum err_code get_model(struct call *c)
{
    struct asked_model m = {.call = c,
                            .rq = {.model = c->rest, .revision = query_value(&c->query, "revision")},
                            .warnings.arena = c->arena};
    enum err_code rc;

    m.rq.model = model_named(m.rq.model, c->arena, &m.rq.revision);
    rc = m.rq.model ? check_names(&m.rq, c->err) : err_set(c->err, ERR_NOMEM, "", "no room for the request");
    if (rc && !strcmp(c->err->at, "/revision"))
        c->parameter = "revision";
    if (rc)
        return rc;
    for (uint32_t i = 0; i < c->query.n; i++)
        if (strcmp(c->query.v[i].name, "revision"))
            note(&m.warnings, "?%.80s is not known and was ignored", c->query.v[i].name);
    return answer(&m);
}

/* --- the list ------------------------------------------------------------------------------------------------------------------------ */

static const char *made_by(const struct builtin *b)
{
    static const char *const words[] = {[BUILTIN_VERBATIM] = "verbatim", [BUILTIN_FACTS] = "facts", [BUILTIN_SAME] = "same", [BUILTIN_PRESUMED] = "presumed"};

    return words[b->made];
}

static void write_carried(struct jsonw *w, const struct builtin *b, bool modelled)
{
    jsonw_object(w, NULL);
    jsonw_str(w, "id", b->id);
    jsonw_str(w, "source", "builtin");
    jsonw_str(w, "model_type", b->model_type);
    jsonw_bool(w, "modelled", modelled);
    if (b->parameters)
        jsonw_u64(w, "parameters", b->parameters);
    else
        jsonw_null(w, "parameters");
    jsonw_str(w, "config", made_by(b));
    jsonw_str(w, "config_of", b->of);
    jsonw_str(w, "config_source", b->source);
    jsonw_end(w);
}

static void write_releases(struct jsonw *w, const char *releases)
{
    char one[16];

    jsonw_array(w, "transformers");
    for (const char *p = releases; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        (void)snprintf(one, sizeof one, "%.*s", (int)n, p);
        jsonw_str(w, NULL, one);
        p += n;
    }
    jsonw_end(w);
}

/* What is modelled of each type that has a program; ?model_type= alone narrows these. */
static void write_types(struct jsonw *w, const char *wanted)
{
    jsonw_array(w, "types");
    for (size_t i = 0; i < n_families; i++) {
        const struct family_row *f = &families[i];

        if (wanted && !word_same(wanted, strlen(wanted), f->model_type, strlen(f->model_type)))
            continue;
        jsonw_object(w, NULL);
        jsonw_str(w, "model_type", f->model_type);
        jsonw_bool(w, "parameters", true);
        jsonw_bool(w, "memory", f->models & FAMILY_MEMORY);
        jsonw_bool(w, "time", f->models & FAMILY_TIME);
        jsonw_bool(w, "tensor_parallel", f->models & FAMILY_TENSOR);
        jsonw_bool(w, "pipeline_parallel", f->models & FAMILY_PIPELINE);
        if (f->no_stages[0])
            jsonw_str(w, "pipeline_parallel_reason", f->no_stages);
        jsonw_bool(w, "inference", f->models & FAMILY_INFERENCE);
        write_releases(w, f->releases);
        jsonw_u64(w, "traced_steps", f->traced);
        jsonw_end(w);
    }
    jsonw_end(w);
}

/* ?model_type=llama&modelled=true&q=qwen narrow it, ?limit=20&offset=40 take a part of that. */
enum err_code get_models(struct call *c)
{
    struct rows_page page;
    uint64_t total = 0;
    struct buf out;
    struct jsonw w;
    enum err_code rc = rows_page_read(c, &page);

    if (rc)
        return rc;
    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    jsonw_array(&w, "models");
    for (size_t i = 0; i < builtin_count(); i++) {
        const struct builtin *b = builtin_at(i);
        bool modelled = program_has_step(b->model_type), known;
        const struct row_member members[] = {{"id", b->id},          {"model_type", b->model_type}, {"modelled", modelled ? "true" : "false"},
                                             {"config", made_by(b)}, {"config_of", b->of},          {"source", "builtin"}};

        if (rows_choose(c, members, sizeof members / sizeof *members, b->id, &known) && rows_page_has(&page, total++))
            write_carried(&w, b, modelled);
        if (!known)
            return c->err->code;
    }
    jsonw_end(&w);
    jsonw_u64(&w, "total", total);
    write_types(&w, query_value(&c->query, "model_type"));
    jsonw_end(&w);
    return finish_json(c, &w);
}
