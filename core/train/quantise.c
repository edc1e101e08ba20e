/* quantise.c - a row for each kind of quantised weights: who rewrites the linears, and under which methods and releases. See quantise.h. */
#include "train/quantise.h"

#include "tuning/awq.h"
#include "tuning/bnb.h"
#include "tuning/gptq.h"
#include "tuning/hqq.h"
#include "tuning/torchao.h"
#include "tuning/torchao_nf4.h"

#include <string.h>

struct asked {
    struct model *m;
    const struct recipe *r;
    enum dtype compute;
};

typedef enum err_code applying(const struct asked *a, struct err *err);

static enum err_code gap(const struct asked *a, struct err *err, const char *text)
{
    return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization", text, method_rows[a->r->method].name);
}

/* ------------------------------------------------------------------------------------------------------------------ bitsandbytes */

/* bnb_4bit_quant_storage: what is flattened or cut with the rest has its dtype. */
static enum dtype storage_dtype(const struct asked *a)
{
    enum method m = a->r->method;

    return method_is_fsdp1(m) || method_is_fsdp2(m) || m == METHOD_ZERO3 ? a->compute : DTYPE_UINT8;
}

/* NULL, or why these weights and this method do not go together. */
static const char *bnb_gap(const struct recipe *s)
{
    if (s->method == METHOD_SINGLE || s->method == METHOD_DDP || method_is_zero_whole(s->method))
        return NULL;
    if (!method_is_fsdp1(s->method) && !(method_is_fsdp2(s->method) && s->method != METHOD_TP_FSDP2) && s->method != METHOD_ZERO3)
        return "quantised weights under %s are not modelled yet: single, ddp, zero1, zero2, zero3, fsdp or fsdp2";
    if (s->quantization == KBIT_INT8) /* torch/distributed/fsdp/_flat_param.py: "Cannot flatten integer dtype tensors" */
        return "int8 weights would lose the scales of their rows where %s flattens or cuts them: a 4-bit kind";
    if (s->method == METHOD_FSDP_GRAD_OP && s->fsdp.use_orig_params == TRI_TRUE) /* _writeback_orig_params: each forward makes a Params4bit anew */
        return "%s with use_orig_params \"does not support changing the parameters between forward and backward\", as Linear4bit does: use_orig_params false";
    return NULL;
}

/* A head with a bias is packed by transformers from 5.0 on: quantizers/base.py get_keys_to_not_convert() leaves out what the last parameter is called, and cuts
 * ".weight" off that alone (integrations/bitsandbytes.py of 4.57.6: the last module). What peft then trains beside adapters is whole numbers. */
static bool packs_head(const struct asked *a)
{
    const struct tree *t = &a->m->tree;
    char name[64], path[256];

    for (uint32_t i = 1; i < t->n_modules && a->m->q->bnb_loads_by_name; i++) {
        const struct module *m = t->modules[i];

        for (int k = 0; m->bias && task_name(tasks[a->r->stage].saved, k, name, sizeof name); k++)
            if (!strncmp(module_path(t, m->number, path, sizeof path), name, strlen(name)))
                return true;
    }
    return false;
}

static enum err_code experts_by_bnb(const struct asked *a, const struct bnb_options *o, struct err *err)
{
    static const char at[] = "/training/quantize_experts";

    if (a->r->method != METHOD_SINGLE && a->r->method != METHOD_DDP)
        return err_set(err, ERR_FIELD_CONFLICT, at, "quantised experts under %s are not modelled yet: single or ddp", method_rows[a->r->method].name);
    if (!a->m->q->bnb_loads_by_name)
        return err_set(err, ERR_FIELD_CONFLICT, at, "transformers before 5.0 has experts as linears, which are quantised as all are: left out");
    return bnb_apply_to_experts(&a->m->tree, o, err);
}

static enum err_code by_bnb(const struct asked *a, struct err *err)
{
    const struct quirks *q = a->m->q;
    const struct bnb_options o = {
        .kind = a->r->quantization,
        .compute = a->compute,
        .storage = storage_dtype(a),
        .derived = q->bnb_takes_derived,
        .ties_first = !q->bnb_loads_by_name,
    };
    const char *why = bnb_gap(a->r);

    if (why)
        return gap(a, err, why);
    /* _flat_param.py: "Must flatten tensors with uniform dtype" */
    if (a->r->prepare_kbit && a->r->prepare_kbit != KBIT_PREPARE_AXOLOTL && method_is_fsdp1(a->r->method) && a->compute != DTYPE_FP32)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/prepare_kbit",
                       "norms in fp32 and 4-bit weights in half are not of one dtype, which a unit of FullyShardedDataParallel is: prepare_kbit none");
    if (packs_head(a))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization",
                       "transformers from 5.0 on packs a head that has a bias, and peft raises where it trains it (\"only Tensors of floating point dtype can "
                       "require gradients\"): transformers 4.57, or quantization none");
    if (a->r->quantization == KBIT_INT8 && !q->bnb_int8_in_rows && a->r->method != METHOD_SINGLE && a->r->method != METHOD_DDP)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/bitsandbytes",
                       "int8 as bitsandbytes multiplies it before 0.45, whose weights are laid out anew when they are used first, is modelled under single "
                       "and ddp");
    if (bnb_apply(&a->m->tree, &o, err))
        return err->code;
    return a->r->quantize_experts ? experts_by_bnb(a, &o, err) : ERR_OK;
}

/* ----------------------------------------------------------------------------------------------------------------------- others */
static enum err_code by_gptq(const struct asked *a, struct err *err)
{
    enum method m = a->r->method;

    if (m != METHOD_SINGLE && m != METHOD_DDP && !method_is_zero_whole(m) && !method_is_fsdp1(m))
        return gap(a, err, "GPTQ weights under %s are not modelled yet: single, ddp, zero1, zero2 or fsdp");
    return gptq_apply(&a->m->tree, &(struct gptq_options){a->r->quantization, a->compute, method_is_fsdp1(m)}, err);
}

static enum err_code by_torchao(const struct asked *a, struct err *err)
{
    enum method m = a->r->method;

    if (m == METHOD_DDP) /* torch/distributed/utils.py _verify_param_shape_across_processes(), of tensors of tensors; torch 2.15 with torchao 0.18 */
        return gap(a, err, "under %s torch raises on torchao's weights, which have no storage of their own (\"DDP expects same model across all ranks\"): "
                           "single, or nf4 or int8");
    if (a->r->quantization == KBIT_TORCHAO_INT8 && method_is_fsdp2(m)) /* torchao/utils.py: aten.chunk of an Int8Tensor */
        return gap(a, err, "under %s fully_shard cuts each weight by torch.chunk(), for which Int8Tensor raises NotImplementedError: single, or nf4 or int8");
    if (m != METHOD_SINGLE)
        return gap(a, err, "torchao's weights under %s are not modelled yet: single, or nf4 or int8");
    if (!a->m->q->bnb_loads_by_name)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "torchao's weights as transformers loads them before 5.0 are not modelled: 5.0, or nf4 or int8");
    return a->r->quantization == KBIT_TORCHAO_NF4 ? torchao_nf4_apply(&a->m->tree, err) : torchao_apply(&a->m->tree, err);
}

static enum err_code by_awq(const struct asked *a, struct err *err)
{
    if (a->r->method != METHOD_SINGLE)
        return gap(a, err, "AWQ weights under %s are not modelled yet: single, or nf4 or gptq4");
    if (a->m->q->awq_by_gptqmodel) /* gptqmodel 7.7.0 nn_modules/qlinear/__init__.py train(), marlin_awq.py SUPPORTS_TRAINING */
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "transformers from 5.0 on reads AWQ by gptqmodel, whose choice is Marlin's kernel, which raises NotImplementedError in train(): "
                       "4.57 trains");
    return awq_apply(&a->m->tree, err);
}

static enum err_code by_hqq(const struct asked *a, struct err *err)
{
    if (a->r->method != METHOD_SINGLE)
        return gap(a, err, "hqq's weights under %s are not modelled yet: single, or nf4 or int8");
    if (a->m->q->bnb_loads_by_name)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "transformers from 5.0 on does not quantise by hqq (HqqHfQuantizer.get_quantize_ops() raises NotImplementedError): 4.56 does");
    if (a->m->q->hqq_in_fp32)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "transformers 4.57 has hqq compute in fp32 whatever the model is loaded in, which is not modelled: 4.56 takes the model's dtype");
    if (!a->m->q->load_keeps_last)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers", "hqq's weights as transformers loads them before 4.51 are not modelled: 4.51 to 4.56");
    if (precision_is_mixed(a->r->precision)) /* core/quantize.py HQQMatmulNoCacheMul.backward(), which no autocast covers */
        return err_set(err, ERR_FIELD_CONFLICT, "/training/precision",
                       "hqq computes in the dtype that the model is loaded in, here fp32, by which its backward cannot multiply gradients in half: "
                       "bf16-autocast or fp16-autocast");
    return hqq_apply(&a->m->tree, a->r->quantization == KBIT_HQQ4 ? 4 : 8, err);
}

static applying *const rows[KBIT_COUNT] = {
    [KBIT_FP4] = by_bnb,   [KBIT_NF4] = by_bnb,   [KBIT_NF4_DQ] = by_bnb,          [KBIT_INT8] = by_bnb, [KBIT_GPTQ4] = by_gptq,
    [KBIT_GPTQ8] = by_gptq, [KBIT_TORCHAO_INT8] = by_torchao, [KBIT_TORCHAO_NF4] = by_torchao, [KBIT_AWQ4] = by_awq, [KBIT_HQQ4] = by_hqq, [KBIT_HQQ8] = by_hqq,
};

enum err_code quantise(struct model *m, const struct recipe *r, enum dtype compute, struct err *err)
{
    return rows[r->quantization](&(struct asked){m, r, compute}, err);
}
