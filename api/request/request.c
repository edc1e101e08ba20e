/* What one member of a request alone cannot tell. */
#include "api/request/request.h"
#include "api/request/named.h"
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <string.h>

const char *model_id_fault(const char *id)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
    const char *slash = strchr(id, '/');
    size_t n = strlen(id);

    if (!n || n > 96)
        return "must have 1 to 96 characters";
    if (strspn(id, letters) != n)
        return "may have letters, digits, '.', '_', '-' and one '/'";
    if (slash && (slash == id || !slash[1] || strchr(slash + 1, '/')))
        return "is \"name\" or \"organisation/name\"";
    if (strstr(id, "--") || strstr(id, ".."))
        return "has no \"--\" and no \"..\"";
    if (strchr("-.", id[0]) || strchr("-.", id[n - 1]) || (slash && (strchr("-.", slash[1]) || strchr("-.", slash[-1]))))
        return "has no part that begins or ends with '-' or '.'";
    return n > 4 && !strcmp(id + n - 4, ".git") ? "does not end in .git" : NULL;
}

/* git check-ref-format */
static bool has_bad_part(const char *revision)
{
    const char *part = revision;

    for (;;) {
        size_t n = strcspn(part, "/");

        if (!n || part[0] == '.' || part[n - 1] == '.' || (n >= 5 && !strncmp(part + n - 5, ".lock", 5)))
            return true;
        if (!part[n])
            return false;
        part += n + 1;
    }
}

const char *revision_fault(const char *revision)
{
    size_t n = strlen(revision);

    if (!n || n > REVISION_MAX)
        return "has 1 to 255 characters";
    for (const char *p = revision; *p; p++)
        if (*p <= ' ' || *p > '~' || strchr("~^:?*[\\\"<>|", *p))
            return "is a branch, a tag, refs/pr/N or a commit";
    if (strstr(revision, "..") || strstr(revision, "@{") || has_bad_part(revision))
        return "has no \"..\", no empty part and none that begins or ends with '.'";
    return NULL;
}

uint64_t request_gpus(const struct estimate_request *rq)
{
    const struct cluster_request *c = &rq->cluster;

    return (c->gpus_per_node.set ? c->gpus_per_node.whole : 1) * (c->nodes.set ? c->nodes.whole : 1);
}

static uint64_t degree(const struct quantity *q)
{
    return q->set ? q->whole : 1;
}

static bool only_single(const struct methods *m)
{
    return m->n == 1 && !strcmp(m->v[0], "single");
}

uint64_t request_data_parallel(const struct estimate_request *rq)
{
    const struct training_request *t = &rq->training;
    uint64_t split = degree(&t->tensor_parallel) * degree(&t->pipeline_parallel) * degree(&t->context_parallel);
    uint64_t gpus = request_gpus(rq);

    if (only_single(&t->methods))
        return 1;
    return gpus % split ? 0 : gpus / split;
}

/* global = micro x accumulation x DP: two give the third. Without methods it is the planner that chooses DP. */
static enum err_code check_batch(struct estimate_request *rq, struct err *err)
{
    struct training_request *t = &rq->training;
    uint64_t dp = request_data_parallel(rq), micro = t->micro_batch_size.whole, steps = t->gradient_accumulation_steps.whole;
    uint64_t global = t->global_batch_size.whole, at_once;

    if (!steps && global > ACCUMULATION_MAX * (micro ? micro : 1) * (dp ? dp : 1))
        return err_set(err, ERR_FIELD_RANGE, "/training/global_batch_size", "asks one GPU for more than %d micro-batches a step",
                       (int)ACCUMULATION_MAX);
    if (!global || !dp || (!t->methods.n && request_gpus(rq) > 1) || !(micro || steps))
        return ERR_OK;
    at_once = dp * (micro ? micro : 1) * (steps ? steps : 1);
    if (micro && steps ? global != at_once : global % at_once)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/global_batch_size",
                       "%llu is not micro_batch_size x gradient_accumulation_steps x data-parallel replicas (%llu) "
                       "for any whole number of the one left out",
                       (unsigned long long)global, (unsigned long long)dp);
    if (micro)
        t->gradient_accumulation_steps = (struct quantity){.set = true, .whole = global / (dp * micro)};
    else
        t->micro_batch_size = (struct quantity){.set = true, .whole = global / (dp * steps)};
    if (t->micro_batch_size.whole > 65536 || t->gradient_accumulation_steps.whole > ACCUMULATION_MAX)
        return err_set(err, ERR_FIELD_RANGE, "/training/global_batch_size",
                       "makes a micro-batch above 65536 or an accumulation above 16384");
    return ERR_OK;
}

bool has_word(const struct words *w, const struct word *vocabulary, const char *name)
{
    for (unsigned i = 0; i < w->n; i++)
        if (!strcmp(vocabulary[w->at[i]].name, name))
            return true;
    return false;
}

unsigned words_bits(const struct words *w, const struct word *vocabulary)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < w->n; i++)
        bits |= 1u << vocabulary[w->at[i]].value;
    return bits;
}

static enum err_code check_loss(const struct training_request *t, struct err *err)
{
    bool fused = has_word(&t->liger_kernels, liger_words, "fused_linear_cross_entropy");
    bool plain = has_word(&t->liger_kernels, liger_words, "cross_entropy");
    bool liger = has_word(&t->loss, loss_words, "liger");

    if ((fused && t->loss.n && !liger) || (plain && liger) || (plain && fused))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/liger_kernels", "contradicts /training/loss");
    return ERR_OK;
}

/* qlora alone is nf4; beside a word that says none it is nothing. */
static enum err_code check_qlora(const struct training_request *t, struct err *err)
{
    if (t->tuning.n != 1 || !has_word(&t->tuning, tuning_words, "qlora") || !has_word(&t->quantization, quantization_words, "none"))
        return ERR_OK;
    return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization",
                   "none contradicts /training/tuning qlora, whose base is quantised: lora has one that is not");
}

/* "2.2.2", "4.40", "5". Letters of a pre-release may follow. */
static enum err_code check_versions(const struct stack_request *s, struct err *err)
{
    for (const struct member *m = stack_members; m->key; m++) {
        const char *text;
        char at[40];

        if (m->kind != KIND_STR)
            continue;
        memcpy(&text, (const char *)s + m->at, sizeof text);
        if (!text || (text[0] >= '0' && text[0] <= '9' && strspn(text, "0123456789.+abcdefghijklmnopqrstuvwxyz") == strlen(text)))
            continue;
        (void)snprintf(at, sizeof at, "/stack/%s", m->key);
        return err_set(err, ERR_FIELD_VALUE, at, "'%.20s' is no version, like \"5.23\"", text);
    }
    return ERR_OK;
}

static enum err_code check_model(const struct estimate_request *rq, struct err *err)
{
    const char *fault;

    if (!rq->model && !rq->config && !rq->training_arguments && !rq->framework_config.text) /* those may name it, theirs_read() says */
        return err_set(err, ERR_FIELD_MISSING, "/model", "a model's id, or its config.json as `config`");
    fault = rq->model ? model_id_fault(rq->model) : NULL;
    if (fault)
        return err_set(err, ERR_FIELD_VALUE, "/model", "'%.40s': an id %s", rq->model, fault);
    fault = rq->revision ? revision_fault(rq->revision) : NULL;
    return fault ? err_set(err, ERR_FIELD_VALUE, "/revision", "a revision %s", fault) : ERR_OK;
}

/* "zero3_offload": offload, where the request does not say another. */
static enum err_code take_offload(struct training_request *t, struct notes *assumptions, struct err *err)
{
    const char *moved = t->methods.offloads_params ? "optimizer+params" : "optimizer";

    if (!t->methods.offloads_optimizer)
        return ERR_OK;
    if (t->offload.n == 1 && has_word(&t->offload, offload_words, "none"))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/offload", "none contradicts the method's name, which ends in offload");
    if (t->offload.n)
        return ERR_OK;
    if (t->methods.is_plain_too)
        t->offload.at[t->offload.n++] = (uint8_t)word_find(offload_words, "none", 4);
    t->offload.at[t->offload.n++] = (uint8_t)word_find(offload_words, moved, strlen(moved));
    note(assumptions, "training.offload %s: the method's name ends in offload, as LLaMA-Factory's ds_z%s_offload_config.json does", moved,
         t->methods.offloads_params ? "3" : "2");
    return ERR_OK;
}

enum err_code request_read(const struct json *doc, struct arena *arena, struct notes *warnings, struct left_out *left_out,
                           struct estimate_request *ret, struct err *err)
{
    struct decoding d = {
        .arena = arena, .warnings = warnings, .err = err, .left_out = left_out, .root = estimate_members, .others = theirs_known};
    enum err_code rc;

    memset(ret, 0, sizeof *ret);
    rc = decode(&d, doc, estimate_members, ret);
    if (!rc && ret->model)
        ret->model = model_named(ret->model, arena, &ret->revision);
    if (!rc)
        rc = check_model(ret, err);
    return rc ? rc : check_versions(&ret->stack, err);
}

enum err_code request_check(struct estimate_request *rq, struct notes *assumptions, struct notes *warnings, struct err *err)
{
    enum err_code rc = cluster_names(&rq->cluster, assumptions, warnings, err);

    if (!rc)
        rc = take_offload(&rq->training, assumptions, err);
    if (!rc)
        rc = check_loss(&rq->training, err);
    if (!rc)
        rc = check_qlora(&rq->training, err);
    return rc ? rc : check_batch(rq, err);
}
