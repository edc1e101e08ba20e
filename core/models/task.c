/* task.c - natives that the texts of tasks call: the loop around the model, switches of a step. */
#include "models/task.h"

#include "models/model.h"
#include "natives/functions.h"

#include <string.h>

const struct task tasks[TASK_COUNT] = {
    [TASK_SFT] = {TRAINER_TRL, "sft", NULL, "Trainer", 1, 0, REFERS_NOT, "", "", "", "", ""},
#define TASK(id, by, stage, module, trainer, rows, tokens, refers, classes, saved, more, kept, holds) \
    [TASK_##id] = {by, stage, module, trainer, rows, tokens, refers, classes, saved, more, kept, holds},
#include "models/tasks.def"
#undef TASK
};

const struct trainer_row trainer_rows[TRAINER_COUNT] = {
    [TRAINER_TRL] = {"trl", "trl 1.16", "max_length"},
    [TRAINER_LLAMA_FACTORY] = {"LLaMA-Factory", "LLaMA-Factory 0.9.5", "cutoff_len"},
    [TRAINER_AXOLOTL] = {"axolotl", "axolotl 0.19", "sequence_len"},
    [TRAINER_OPEN_INSTRUCT] = {"open-instruct", "open-instruct e6c3044a", "max_seq_length"},
    [TRAINER_MS_SWIFT] = {"ms-swift", "ms-swift 4.6.0", "max_length"},
};

const char *task_name(const char *list, int k, char *ret, size_t bytes)
{
    size_t n;

    for (; *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        if (k--)
            continue;
        if (n >= bytes)
            return NULL;
        memcpy(ret, list, n);
        ret[n] = 0;
        return ret;
    }
    return NULL;
}

enum task_id task_of_architecture(const char *architecture)
{
    static const struct {
        const char *end;
        enum task_id task;
    } heads[] = {{"ForSequenceClassification", TASK_CLASSIFICATION},
                 {"ForTokenClassification", TASK_TOKEN_CLASSIFICATION},
                 {"ForQuestionAnswering", TASK_QUESTION_ANSWERING},
                 {"ForPreTraining", TASK_PRETRAINING}};
    size_t n = strlen(architecture);

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (n > strlen(heads[i].end) && !strcmp(architecture + n - strlen(heads[i].end), heads[i].end))
            return heads[i].task;
    return TASK_MASKED_LM;
}

enum task_id task_by(enum task_id stage, enum trainer_of by)
{
    if (!tasks[stage].module && by == TRAINER_TRL)
        return stage;
    for (unsigned i = 0; i < TASK_COUNT; i++)
        if (tasks[i].by == by && !strcmp(tasks[i].stage, tasks[stage].stage))
            return (enum task_id)i;
    return TASK_COUNT;
}

bool task_counts_items(const struct task *task)
{
    return !strncmp(task->more, "labels", 6) && task->by != TRAINER_LLAMA_FACTORY;
}

uint32_t task_sequences(const struct task *task)
{
    return task->rows > 1 || strstr(task->more, "rejected_input_ids") || strstr(task->more, "positive_input_ids") ? 2 : 1;
}

static struct model *model_in(struct script *s)
{
    return natives_of(s)->of;
}

/* enter(policy); leave(policy) -> whether half becomes fp32 */
static sv around(struct script *s, const struct script_args *a)
{
    const struct model_caller *c = model_in(s)->caller;
    bool policy = true;

    if (!bool_arg(s, a->v[0], &policy))
        return sv_null();
    if (!c)
        return sv_bool(false);
    if (a->def->data)
        return sv_bool(c->leave(c->of, policy));
    c->enter(c->of, policy);
    return sv_none();
}

/* outputs([tensors], policy) -> those that the method's wrapper hands out */
static sv hand_out(struct script *s, const struct script_args *a)
{
    const struct model_caller *c = model_in(s)->caller;
    struct run *r = natives_of(s)->run;
    uint32_t n = 0;
    const sv *items = seq_items(a->v[0], &n);
    val *v;
    bool policy = true;
    sv list;

    if (!bool_arg(s, a->v[1], &policy))
        return sv_null();
    if (!c || !items)
        return sv_keep(a->v[0]);
    v = script_memory(s, n * sizeof *v);
    if (!v)
        return sv_null();
    for (uint32_t i = 0; i < n; i++)
        value_ref(r, v[i] = natives_value(natives_of(s), items[i]));
    c->outputs(c->of, policy, n, v);
    list = list_new(s, 0, NULL);
    for (uint32_t i = 0; i < n; i++) {
        struct tensor *was = as_tensor(s, items[i]);
        sv one = value_in(was) == v[i] ? sv_keep(items[i]) : natives_tensor(natives_of(s), v[i]);
        bool ok = sv_ok(list) && sv_ok(one) && list_append(s, list, one);

        sv_drop(s, one);
        value_unref(r, v[i]);
        if (!ok) {
            sv_drop(s, list);
            list = sv_null();
        }
    }
    script_memory_give(s, v, n * sizeof *v);
    return list;
}

/* loss_begins(): what the answer's phases call the loss */
static sv loss_begins(struct script *s, const struct script_args *a)
{
    (void)a;
    if (natives_of(s)->run)
        natives_of(s)->run->stage = STAGE_LOSS;
    return sv_none();
}

/* all_count(mask): every token counts in the loss, which is what the request's figures are of */
static sv all_count(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "all_count");

    if (!t)
        return sv_null();
    t->content = content_const(1);
    return sv_keep(a->v[0]);
}

/* half_count(verdicts): half of them are true */
static sv half_count(struct script *s, const struct script_args *a)
{
    struct tensor *t = need_tensor(s, a->v[0], "half_count");

    if (!t)
        return sv_null();
    t->content = content_is(CONTENT_MARKS, (double)(numel(t->run, value_in(t)) / 2));
    return sv_keep(a->v[0]);
}

/* adapters(on) */
static sv set_adapters(struct script *s, const struct script_args *a)
{
    bool on = true;

    if (!bool_arg(s, a->v[0], &on))
        return sv_null();
    if (natives_of(s)->run)
        natives_of(s)->run->adapters_off = !on;
    return sv_none();
}

/* without_dropout(): disable_dropout_in_model of all models */
static sv without_dropout(struct script *s, const struct script_args *a)
{
    struct tree *t = natives_of(s)->tree;

    (void)a;
    for (uint32_t i = 1; t && i < t->n_modules; i++)
        if (t->modules[i]->kind == MODULE_DROPOUT)
            t->modules[i]->p = 0;
    return sv_none();
}

/* reads(module): its parameters, and does not call it */
static sv reads(struct script *s, const struct script_args *a)
{
    struct module *m = natives_module(natives_of(s), a->v[0]);

    if (m && natives_of(s)->run)
        module_read(natives_of(s)->run, m);
    return sv_none();
}

static sv let_go(struct script *s, const struct script_args *a)
{
    (void)a;
    if (natives_of(s)->run)
        empty_cache(natives_of(s)->run);
    return sv_none();
}

static const struct script_native functions[] = {
    {"empty_cache", let_go, "", 0, NATIVE_PLAIN},
    {"enter", around, "policy, /", 0, NATIVE_PLAIN},
    {"leave", around, "policy, /", 1, NATIVE_PLAIN},
    {"outputs", hand_out, "tensors, policy, /", 0, NATIVE_PLAIN},
    {"loss_begins", loss_begins, "", 0, NATIVE_PLAIN},
    {"all_count", all_count, "mask, /", 0, NATIVE_PLAIN},
    {"half_count", half_count, "verdicts, /", 0, NATIVE_PLAIN},
    {"adapters", set_adapters, "on, /", 0, NATIVE_PLAIN},
    {"reads", reads, "module, /", 0, NATIVE_PLAIN},
    {"without_dropout", without_dropout, "", 0, NATIVE_PLAIN},
    {0},
};
const struct script_module task_module = {.name = "transformers.trl.loop", .functions = functions};
