#include "perf/perf.h"

/*
 * Fitted together by `accuracy speed fit` on tests/data/accuracy/speed.jsonl: 205 published rows of eleven sources on A100, H100, L40S, V100 and
 * RTX 3090, 1 to 128 GPUs, each source and GPU weighted by the root of its rows. `data` says which of them tell a constant; `prior` is what was
 * expected before. Rates of flash attention are not among them: attention.c.
 */
// clang-format off
static const struct perf_constant table[PERF_CONSTANTS] = {
    [PERF_PRODUCT_SHARE]     = {"product_share", "of the best published product", 0.827, 0.9,
        "llm-foundry, torchtune, fms-acceleration on A100, NeMo Automodel on H100: products in training against the best single one (gpus.csv)"},
    [PERF_BEST_SHARE]        = {"best_share", "of the dense peak", 0.80, 0,
        "gpus.csv, best published product / dense peak: A100 0.87, H100 0.80, B200 0.78; for GPUs without one"},
    [PERF_BEST_SHARE_GEFORCE] = {"best_share_geforce", "times the dense peak", 1.29, 0.95,
        "gpjt on one RTX 3090, whose data sheet's peak is that of a clock which the card exceeds, so that products may too; GeForce of all generations, whose "
        "tensor cores run at half the die's rate and meet no limit of power: in training they reach their best single product, 77 TFLOPS of 71 on RTX "
        "3090, 160 to 173 of 165 on RTX 4090, 222 to 242 of 210 on RTX 5090 (zzc0721/torch-performance-test-data)"},
    [PERF_ADA_FLOPS_PER_JOULE] = {"ada_flops_per_joule", "flops/J", 760e9, 725e9,
        "peft-metamath on one L40S of 350 W: where a board's power limit gives less than its peak does; its best product of 269 TFLOPS "
        "(zzc0721/torch-performance-test-data) comes to 769e9"},
    [PERF_HOPPER_FLOPS_PER_JOULE] = {"hopper_flops_per_joule", "flops/J", 1.135e12, 0,
        "best published product of H100 SXM at its 700 W (gpus.csv), for boards with less; torchtitan on H100 of 500 W agrees"},
    [PERF_UNALIGNED_SHARE]   = {"unaligned_share", "of the rate of products", 0.33, 0,
        "products of halves whose rows are an odd number of them apart, a vocabulary of 50,257: padding it \"achieves nearly a 3x speedup\", a step of "
        "nanoGPT on A100 takes 87 instead of 113 ms (pytorch.org/blog/accelerating-large-language-models, 2023-04-18)"},
    [PERF_EFFICIENT_SHARE]   = {"efficient_share", "of the rate of products", 0.484, 0.35,
        "gpjt and peft-metamath: scaled_dot_product_attention with a mask, counted in full"},
    [PERF_MEMORY_SHARE]      = {"memory_share", "of the memory bandwidth", 0.8, 0.85,
        "all rows: elementwise kernels, reductions, foreach optimizers"},
    [PERF_CACHE_SPEED]       = {"cache_speed", "times the memory bandwidth", 2.7, 2.5,
        "peft-metamath on L40S (96 MiB of L2) beside gpjt on RTX 3090 (6 MiB)"},
    [PERF_KERNEL_S]          = {"kernel_s", "seconds", 1.9e-6, 2e-6,
        "peft-metamath, gpjt at 1,024 tokens: start and end of each kernel on the GPU"},
    [PERF_FORWARD_CALL_S]    = {"forward_call_s", "seconds", 5.4e-6, 5e-6,
        "an operator called from Python; the rows hardly tell: below the prior's cost (gpjt below 700 tokens bounds it, behind DeepSpeed's hooks)"},
    [PERF_BACKWARD_CALL_S]   = {"backward_call_s", "seconds", 4.0e-6, 4e-6,
        "an operator or node run by autograd's engine; as forward_call_s"},
    [PERF_MESSAGE_CALL_S]    = {"message_call_s", "seconds", 100e-6, 100e-6,
        "the host enqueues a collective through torch.distributed, with what FSDP does around it: fms-accel on two A100"},
    /* prior: the half a millisecond that was expected for each of the first step's 666 messages, over the 458 that later steps send */
    [PERF_ENGINE_CALL_S]     = {"engine_call_s", "seconds", 740e-6, 700e-6,
        "the same in DeepSpeed, with its bookkeeping of parameters: gpjt's ZeRO-3 on eight A100 takes 0.65 s a step however few its tokens, for 458 messages"},
    [PERF_HOOK_S]            = {"hook_s", "seconds", 25e-6, 30e-6,
        "a hook in Python around a module or a gradient: gpjt below 500 tokens"},
    [PERF_SERVER_HOST]       = {"server_host", "times as long", 1.5, 1.5,
        "qwen-readme, LoRA at 256 to 1,024 tokens on A100: what the five lines above take on a server's processor, of lower clocks than a desktop's "
        "(gpjt's RTX 3090); on its eight A100 too"},
    [PERF_TILE_READS]        = {"tile_reads", "multiply-adds", 31, 32,
        "what a tile of a product must compute for each element that it reads before its reads no longer count: CUTLASS's and cuBLAS's tiles"},
    [PERF_INNER_START]       = {"inner_start", "steps along the inner dimension", 65, 64,
        "what starting and ending a tile takes, in two steps of 32: the depth of CUTLASS's stages"},
    [PERF_BUS_SHARE]         = {"bus_share", "of PCIe's bandwidth", 0.85, 0.8,
        "pinned copies reach 25 to 26 GB/s of the 31.5 of PCIe 4.0 x16"},
    [PERF_HOST_RANK_BYTES_PER_S] = {"host_rank_bytes_per_s", "bytes/s", 36e9, 33e9,
        "gpjt: 0.42 s for Adam over 0.46 G parameters on the host of one RTX 3090, 30 bytes each"},
    [PERF_HOST_NODE_BYTES_PER_S] = {"host_node_bytes_per_s", "bytes/s", 92e9, 78e9,
        "gpjt: 2.6 to 3.1 s for 8.0 G parameters of eight ranks on the host of eight A100, 30 bytes each"},
    /* Of replays alone (follow.c), which must know where within a step the host spends engine_call_s: */
    [PERF_STAGE3_CALL_S]     = {"stage3_call_s", "seconds", 180e-6, 0,
        "__all_gather_params of DeepSpeed 0.14.2 in Python, timed on a CUDA runtime without a GPU: 180 to 200 us"},
    [PERF_STAGE3_HOOK_S]     = {"stage3_hook_s", "seconds", 240e-6, 0,
        "a hook of stage 3 with several ranks (fetch, release, reduce): what gpjt's 0.65 s a step on eight A100, however few its tokens, leave beside that"},
    /* Not fitted: one kernel, timed. */
    [PERF_BLOCKWISE_FLOPS]   = {"blockwise_flops", "flops/s a multiprocessor", 3.85e9, 0,
        "bitsandbytes' block-wise 8-bit step, which looks each state up in a code book: 2.82 G elements of 14 flops in 77.6 ms on the 132 "
        "multiprocessors of an H100 (make_measured.py, Llama-3.2-3B), eight times what its bytes take"},
    [PERF_FAST_RANK]         = {"fast_rank", "of the slowest rank's time", 0.85, 0,
        "hosts of a node differ: gpjt's launch-bound steps take 0.62 to 0.80 s from run to run, each as long as its slowest rank's; within that range it "
        "was chosen with gpjt's 48 figures of active bytes in view"},
};
// clang-format on

const struct perf_constant *perf_constant(enum perf_constant_id id)
{
    return &table[id];
}

void perf_constants(double ret[PERF_CONSTANTS])
{
    for (int i = 0; i < PERF_CONSTANTS; i++)
        ret[i] = perf_constant((enum perf_constant_id)i)->value;
}

const char *perf_assumption(void)
{
    return "step times: kernels by the GPU's peak, bandwidth and watts, attention by whose kernel it is, collectives by NCCL's latencies and the links' "
           "bandwidth, the host's launches by desktop or server; 21 empirical constants (core/perf/constants.c), fitted on 205 published runs";
}
