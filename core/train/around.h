/*
 * around.h - what stands around a step: a batch that is evaluated after it, a checkpoint that is saved or resumed from, the host while weights are loaded.
 *
 * Purpose   people run out of memory there too. The run goes on after its step: the model's program once more without autograd, in eval mode, on
 *           evaluation batches; then what a full state dict gathers on the device. Figures are sums of live blocks, as a walk's.
 * Source    transformers 5.23.0, 4.40.0 trainer.py (evaluation_loop, prediction_step, _load_optimizer_and_scheduler), trainer_pt_utils.py (EvalLoopContainer,
 *           nested_concat), modeling_utils.py (from_pretrained); deepspeed 0.19.8 runtime/engine.py (_zero3_consolidated_16bit_state_dict); accelerate 1.15.0
 *           utils/fsdp_utils.py (save_fsdp_model: FULL_STATE_DICT, offloaded, on rank 0 alone); torch/distributed/fsdp/_state_dict_utils.py.
 * Models    evaluation  loss alone unless predictions are kept; kept ones are gathered over the ranks and stay on the device, one behind another, until
 *                       accumulation_steps batches have come. Between the second and the last batch forwards repeat each other and are not played.
 *           saving      what is gathered on the GPU, a module (ZeRO-3 with stage3_gather_16bit_weights_on_model_save), a unit (FSDP1) or a tensor
 *                       (fully_shard) at a time; single, ddp, ZeRO-1 and 2 read what stands there.
 *           resuming    weights, then optimizer states, which no second copy stands beside: torch.load() brings them to the device (several ranks) or
 *                       to the host (one GPU), load_state_dict() keeps or copies each.
 *           loading     processes of a node that hold the whole model before it goes to the device: one with FSDP's cpu_ram_efficient_loading, which
 *                       accelerate launch has on, and none but a checkpoint's shard under zero.Init. 0 of quantised weights that go to the device one by
 *                       one and stay there.
 *           A deep model's figures lie on a line through two shallow depths, a period of layers apart.
 * Errors    as train_measure(); ERR_FIELD_CONFLICT where the method's evaluation is not modelled (pipelines, tensor parallelism, Colossal-AI, packed rows).
 * Threads   pure.
 */
#ifndef TRAIN_AROUND_H
#define TRAIN_AROUND_H

#include "base/arena.h"
#include "base/err.h"
#include "stack/device.h"
#include "train/recipe.h"

struct arch;
struct trainer;
struct held;

struct around_question {
    uint32_t batch_size;         /* of an evaluation batch, each rank's */
    uint32_t batches;            /* of an evaluation, each rank's */
    uint32_t accumulation_steps; /* batches whose predictions stay on the device; 0: all */
    bool keeps_predictions;      /* compute_metrics without prediction_loss_only */
    uint32_t processes_per_node;
};

struct around {
    uint64_t evaluation_bytes, saving_bytes, resuming_bytes; /* allocated on a GPU, live blocks */
    uint64_t loading_host_bytes;                             /* of a node */
};

MUST_CHECK enum err_code train_around(const struct arch *arch, const struct step *step, const struct device *device, const struct around_question *q,
                                      struct arena *arena, struct around *ret, struct err *err);

/* Of trainer_run(), after its steps. */
void around_play(struct trainer *t, struct held *h);

#endif
