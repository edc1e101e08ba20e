/* What people multiply by, to compare with; states and weights only, never what llmemd answers. */
#include "api/answer/estimate.h"

#include "stack/stack.h"

#include <string.h>

/* Most parameters that one module owns itself: what DeepSpeed's estimators call the largest layer (model_to_params). */
static uint64_t largest_layer(const struct inventory *inv)
{
    uint64_t largest = 0, sum = 0;
    const char *module = "";
    size_t module_bytes = 0;

    for (uint32_t i = 0; i < inv->n; i++) {
        const struct tensor_info *t = &inv->rows[i];
        const char *dot = strrchr(t->name, '.');
        size_t n = dot ? (size_t)(dot - t->name) : 0;

        if (t->buffer || t->tied_to)
            continue;
        sum = n == module_bytes && !strncmp(t->name, module, n) ? sum + t->elems : t->elems;
        module = t->name;
        module_bytes = n;
        if (sum > largest)
            largest = sum;
    }
    return largest;
}

/*
 * inference_x1.2, finetune_x5: of 16-bit weights, as blogs have it.
 * zero3: runtime/zero/stage3.py estimate_zero3_model_states_mem_needs without offload; zero2: runtime/zero/stage_1_and_2.py
 * estimate_zero2_model_states_mem_needs without offload. 18 and 16 are bytes a parameter. deepspeed 0.14.2 and 0.19.8.
 */
void rules_write(struct jsonw *w, const struct estimate *e)
{
    const struct inventory *inv = &e->inventory;
    uint64_t parameters = inv->base_parameters, half = 2 * parameters, gpus = request_gpus(&e->rq);
    uint64_t sharded = quirks_of(&e->stack).zero2_estimator_shards ? 18 : 16;

    if (!inv->n)
        return;
    jsonw_object(w, "rules_of_thumb");
    jsonw_u64(w, "inference_x1.2_bytes", half + half / 5);
    jsonw_u64(w, "finetune_x5_bytes", half * 5);
    jsonw_u64(w, "deepspeed_zero2_estimator_bytes", (20 - sharded) * parameters + sharded * parameters / gpus);
    jsonw_u64(w, "deepspeed_zero3_estimator_bytes", 4 * largest_layer(inv) + 18 * parameters / gpus);
    jsonw_end(w);
}
