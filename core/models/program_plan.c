/* program_plan.c - how a model in the language is cut: tensor parallel plans of its classes, stages of a pipeline. */
#include "models/program_parts.h"

#include <stdio.h>
#include <string.h>

static sv of_class(struct program *p, sv of, const char *name)
{
    sv v = sv_null();

    if (script_find(p->s, of, script_symbol(p->s, name), &v) < 0)
        script_forgive(p->s);
    return v;
}

/* ------------------------------------------------------------------------------------------------- tensor parallelism */
static const struct style {
    const char *name;
    enum split split;
    int from_end; /* of a bare parameter: the dimension that is cut, counted from the last; < 0: none */
} styles[] = {{"colwise", SPLIT_COLUMNS, 2},
              {"packed_colwise", SPLIT_NONE, 2},
              {"rowwise", SPLIT_ROWS, 1},
              {"rowwise_split_input", SPLIT_ROWS_OF_WHOLE, 1},
              {"colwise_gather_output", SPLIT_COLUMNS_GATHERED, 2},
              {"embedding_rowwise", SPLIT_VOCABULARY, -1},
              {"moe_tp_experts", SPLIT_EXPERTS, -1},
              {"local_params", SPLIT_OWN_PARAMS, -1},
              {"mla_kv_a_proj", SPLIT_SUM_LAST_COLUMNS, -1},
              {"replicated_with_grad_allreduce", SPLIT_SUM_GRADIENT, -1}};

/* "layers.3.mlp.up_proj" -> "layers.*.mlp.up_proj" */
static void starred(const char *path, char *ret, size_t bytes)
{
    size_t n = 0;

    while (*path && n + 2 < bytes) {
        size_t digits = strspn(path, "0123456789");

        if (digits && (!path[digits] || path[digits] == '.') && (!n || ret[n - 1] == '.')) {
            ret[n++] = '*';
            path += digits;
        } else {
            ret[n++] = *path++;
        }
    }
    ret[n] = 0;
}

/* What the plan says of a path; *ret NULL: nothing. */
static enum err_code style_of(sv plan, struct program *p, const char *path, const struct style **ret, struct err *err)
{
    sv key = script_symbol(p->s, path), style = sv_is(plan, KIND_DICT) ? dict_get(p->s, plan, key) : sv_null();
    const char *text = sv_ok(style) ? str_text(style, NULL) : NULL;

    script_forgive(p->s);
    *ret = NULL;
    for (size_t i = 0; text && i < sizeof styles / sizeof *styles; i++)
        if (!strcmp(styles[i].name, text))
            *ret = &styles[i];
    return !text || *ret
               ? ERR_OK
               : err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "the tensor parallel plan of %.60s cuts by '%.40s': that is not modelled", path, text);
}

/* Shard(ndim - 2), Shard(-1): of a vector by columns the same; it is whole where rows are cut (RowwiseParallel, ColwiseParallel, PackedColwiseParallel). */
static enum err_code cut_params(struct module *m, sv plan, struct program *p, const char *path, struct err *err)
{
    for (struct param *q = m->params; q; q = q->next) {
        const struct style *style;
        char of[300];
        enum err_code rc;

        (void)snprintf(of, sizeof of, "%s.%s", path, q->name);
        rc = style_of(plan, p, of, &style, err);
        if (rc)
            return rc;
        if (style && (style->from_end < 0 || (q->ndim < 2 && style->split != SPLIT_COLUMNS)))
            return err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "the tensor parallel plan of %.60s cuts by '%.40s': that is not modelled", of,
                           style->name);
        if (style)
            q->cut = (uint8_t)(q->ndim < 2 ? 1 : q->ndim - style->from_end + 1);
    }
    return ERR_OK;
}

static enum err_code put_split(struct module *m, sv plan, struct program *p, const char *path, struct err *err)
{
    const struct style *style;
    enum err_code rc = style_of(plan, p, path, &style, err);
    sv width;

    if (rc || !style)
        return rc;
    m->split = (uint8_t)style->split;
    if (style->split == SPLIT_EXPERTS || style->split == SPLIT_OWN_PARAMS)
        return cut_params(m, plan, p, path, err);
    if (style->split == SPLIT_SUM_LAST_COLUMNS) {
        width = of_class(p, p->config, "qk_rope_head_dim");
        m->last_columns = width.tag == SV_INT ? (uint32_t)width.i : 0;
        sv_drop(p->s, width);
    }
    return ERR_OK;
}

/* "layers.*.self_attn.k_proj": "colwise"; experts and feed forwards have no heads. */
static bool cuts_heads(sv key, sv style)
{
    const char *at = str_text(key, NULL), *text = str_text(style, NULL);

    return at && text && !strcmp(text, "colwise") && !strstr(at, "experts") && !strstr(at, "mlp") && !strstr(at, "feed_forward");
}

bool program_leaves_heads_whole(struct program *p)
{
    sv plan = of_class(p, p->config, "base_model_tp_plan"), key, style;
    bool whole = sv_is(plan, KIND_DICT);
    uint32_t at = 0;

    while (whole && dict_each(plan, &at, &key, &style))
        whole = !cuts_heads(key, style);
    sv_drop(p->s, plan);
    return whole;
}

bool program_tell_plan(struct model *m)
{
    struct program *p = m->parts;
    sv base = of_class(p, p->config, "base_model_tp_plan"), prefix = of_class(p, p->model, "base_model_prefix");
    const char *under = sv_ok(prefix) ? str_text(prefix, NULL) : NULL;
    size_t n = under ? strlen(under) : 0;
    bool plans = sv_is(base, KIND_DICT);
    char path[256], generic[256];

    for (uint32_t i = 1; plans && i < m->tree.n_modules; i++) {
        const char *at = module_path(&m->tree, i, path, sizeof path);
        const char *layer = strstr(at, ".base_layer"); /* adapters come once it is loaded */

        if (layer)
            path[layer - path] = 0;
        if (!n || strncmp(at, under, n) || at[n] != '.')
            continue;
        starred(at + n + 1, generic, sizeof generic);
        m->tree.modules[i]->planned = sv_ok(dict_get(p->s, base, script_symbol(p->s, generic)));
        script_forgive(p->s);
    }
    sv_drop(p->s, base);
    sv_drop(p->s, prefix);
    return plans;
}

enum err_code program_split(struct model *m, struct err *err)
{
    struct program *p = m->parts;
    sv base = of_class(p, p->config, "base_model_tp_plan"), own = of_class(p, p->model, "_tp_plan"), prefix = of_class(p, p->model, "base_model_prefix");
    const char *under = sv_ok(prefix) ? str_text(prefix, NULL) : NULL;
    size_t n = under ? strlen(under) : 0;
    char path[256], generic[256];
    enum err_code rc = ERR_OK;

    if (!sv_given(base))
        rc = err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "transformers has no tensor parallel plan for %.40s", m->arch->model_type);
    for (uint32_t i = 1; !rc && i < m->tree.n_modules; i++) {
        const char *at = module_path(&m->tree, i, path, sizeof path);

        if (n && !strncmp(at, under, n) && at[n] == '.') {
            starred(at + n + 1, generic, sizeof generic);
            rc = put_split(m->tree.modules[i], base, p, generic, err);
        } else {
            rc = put_split(m->tree.modules[i], own, p, at, err);
        }
    }
    sv_drop(p->s, base);
    sv_drop(p->s, own);
    sv_drop(p->s, prefix);
    return rc;
}

/* ---------------------------------------------------------------------------------------------------------- a stage */
/* A function of modeling_stage, asked of the model; null where it raised. */
static sv asked(const struct model *m, const char *name, int argc, sv *argv)
{
    struct program *p = m->parts;
    sv module = script_import(p->s, "transformers.modeling_stage");

    argv[0] = p->model;
    return sv_ok(module) ? script_call_method(p->s, module, script_symbol(p->s, name), (uint32_t)argc, argv) : sv_null();
}

/* parts_of() of modeling_stage: the modules before the layers, or those behind them. */
static uint32_t parts(const struct model *m, uint32_t which, struct module **ret, uint32_t room)
{
    struct program *p = m->parts;
    sv model, both = asked(m, "parts_of", 1, &model);
    const sv *two, *of;
    uint32_t n = 0, found = 0;

    two = sv_ok(both) ? seq_items(both, &n) : NULL;
    of = two && n == 2 ? seq_items(two[which], &n) : NULL;
    for (uint32_t i = 0; of && i < n && found < room; i++)
        if ((ret[found] = natives_module(&p->n, of[i])))
            found++;
    script_forgive(p->s);
    sv_drop(p->s, both);
    return found;
}

bool program_stage_gap(const struct model *m, char *text, size_t room)
{
    struct program *p = m->parts;
    sv argv[3], why;
    const char *says;

    argv[1] = sv_int(m->first_layer);
    argv[2] = sv_int(m->end_layer);
    why = asked(m, "gap_of", 3, argv);
    says = sv_is(why, KIND_STR) ? str_text(why, NULL) : NULL;
    if (says)
        (void)snprintf(text, room, "%s", says);
    script_forgive(p->s);
    sv_drop(p->s, why);
    return says;
}

bool program_first_has(const struct model *m, const char *name)
{
    struct program *p = m->parts;
    sv argv[2], answer;
    bool has;

    argv[1] = script_symbol(p->s, name);
    answer = asked(m, "first_has", 2, argv);
    has = sv_ok(answer) && script_truth(p->s, answer) == 1;
    script_forgive(p->s);
    sv_drop(p->s, answer);
    return has;
}

uint32_t program_before_layers(const struct model *m, struct module **ret, uint32_t room)
{
    return parts(m, 0, ret, room);
}

uint32_t program_behind_layers(const struct model *m, struct module **ret, uint32_t room)
{
    return parts(m, 1, ret, room);
}

static bool says(struct program *p, sv of, const char *name)
{
    sv v = of_class(p, of, name);
    bool is = sv_ok(v) && script_truth(p->s, v) == 1;

    script_forgive(p->s);
    sv_drop(p->s, v);
    return is;
}

enum dtype program_wire(const struct model *m, bool autocast)
{
    struct program *p = m->parts;

    return says(p, p->config, "residual_in_fp32") || (autocast && says(p, p->model, "widened_by_autocast")) ? DTYPE_FP32 : m->tree.dtype;
}

/* What the class says, lent for a call with the model first; a class that says nothing has the common one if it is built so. None: no stage. */
static sv stage_of(struct program *p)
{
    sv own = sv_null(), module, answer, f = sv_none();

    if (script_find(p->s, cls_value(sv_class(p->s, p->model)), script_symbol(p->s, "stage"), &own) == 0)
        return own;
    script_forgive(p->s);
    module = script_import(p->s, "transformers.modeling_stage");
    answer = sv_ok(module) ? script_call_method(p->s, module, script_symbol(p->s, "has_stages"), 1, &p->model) : module;
    if (sv_ok(answer) && script_truth(p->s, answer) == 1)
        f = script_get(p->s, module, script_symbol(p->s, "stage_of_decoder"));
    sv_drop(p->s, answer);
    script_forgive(p->s);
    return f;
}

bool program_has_stage(const struct model *m)
{
    struct program *p = m->parts;
    sv f = stage_of(p);
    bool has = sv_given(f);

    sv_drop(p->s, f);
    return has;
}

val program_stage(struct run *r, struct model *m, val x)
{
    struct program *p = m->parts;
    struct frame f;
    sv argv[6], stage, result;
    val out;

    if (!p->n.run)
        program_on_device(p, m, r);
    f = module_enter(r, m->tree.root);
    stage = stage_of(p);
    argv[0] = p->model;
    argv[1] = natives_tensor(&p->n, x);
    argv[2] = sv_int(m->first_layer);
    argv[3] = sv_int(m->end_layer);
    argv[4] = sv_bool(m->starts);
    argv[5] = sv_bool(m->ends);
    result = sv_ok(argv[1]) ? script_call(p->s, stage, 6, argv) : argv[1];
    sv_drop(p->s, stage);
    sv_drop(p->s, argv[1]);
    if (!sv_ok(result)) {
        natives_fail_run(&p->n);
        return frame_leave(r, f, 0);
    }
    out = natives_value(&p->n, result);
    if (out)
        value_ref(r, out);
    sv_drop(p->s, result);
    if (out)
        r->values[out].floating = true;
    return frame_leave(r, f, out);
}
