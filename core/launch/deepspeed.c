/*
 * DeepSpeed's JSON: every size explicit, as the step resolved it.
 *
 * Source    deepspeed 0.19.8 and 0.14.2 runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py. transformers
 *           hands over its own optimizer (zero_allow_untested_optimizer, as integrations/deepspeed.py sets it); an engine without
 *           the Trainer that offloads makes DeepSpeedCPUAdam of "AdamW" (runtime/engine.py _configure_basic_optimizer).
 */
#include "launch/launch.h"

static void write_device(struct jsonw *w, const char *name)
{
    jsonw_object(w, name);
    jsonw_str(w, "device", "cpu");
    jsonw_bool(w, "pin_memory", true);
    jsonw_end(w);
}

static void write_stage3(struct jsonw *w, const struct zero_recipe *z)
{
    jsonw_u64(w, "stage3_prefetch_bucket_size", z->prefetch_elems);
    jsonw_u64(w, "stage3_param_persistence_threshold", z->persistence_elems);
    jsonw_u64(w, "stage3_max_live_parameters", z->max_live_elems);
    jsonw_u64(w, "stage3_max_reuse_distance", z->reuse_elems);
    jsonw_u64(w, "sub_group_size", z->sub_group_elems);
    jsonw_bool(w, "stage3_gather_16bit_weights_on_model_save", true);
}

static void write_zero(struct jsonw *w, const struct recipe *r)
{
    unsigned stage = launch_method(r->method)->zero_stage;

    jsonw_object(w, "zero_optimization");
    jsonw_u64(w, "stage", stage);
    jsonw_u64(w, "reduce_bucket_size", r->zero.reduce_elems);
    jsonw_u64(w, "allgather_bucket_size", r->zero.allgather_elems);
    jsonw_bool(w, "overlap_comm", r->zero.overlap_comm == TRI_TRUE);
    jsonw_bool(w, "contiguous_gradients", true);
    if (stage == 3)
        write_stage3(w, &r->zero);
    else if (stage && r->zero.round_robin)
        jsonw_bool(w, "round_robin_gradients", true);
    if (r->offload == OFFLOAD_OPTIMIZER || r->offload == OFFLOAD_OPTIMIZER_PARAMS)
        write_device(w, "offload_optimizer");
    if (r->offload == OFFLOAD_OPTIMIZER_PARAMS)
        write_device(w, "offload_param");
    jsonw_end(w);
}

static void write_enabled(struct jsonw *w, const char *name)
{
    jsonw_object(w, name);
    jsonw_bool(w, "enabled", true);
    jsonw_end(w);
}

static void write_optimizer(struct jsonw *w)
{
    jsonw_object(w, "optimizer");
    jsonw_str(w, "type", "AdamW");
    jsonw_end(w);
}

void launch_deepspeed(struct jsonw *w, const char *name, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    jsonw_object(w, name);
    jsonw_u64(w, "train_batch_size", (uint64_t)r->micro_batch_size * r->gradient_accumulation_steps * r->data_parallel);
    jsonw_u64(w, "train_micro_batch_size_per_gpu", r->micro_batch_size);
    jsonw_u64(w, "gradient_accumulation_steps", r->gradient_accumulation_steps);
    jsonw_fixed(w, "gradient_clipping", r->max_grad_norm, 9);
    if (launch_half(l))
        write_enabled(w, launch_half(l));
    write_zero(w, r);
    jsonw_bool(w, "zero_allow_untested_optimizer", true);
    if (!launch_is_trainer(l) && offload_of_states(r->offload) && r->optimizer != OPTIMIZER_SGD)
        write_optimizer(w);
    jsonw_end(w);
}
