/* The closed vocabularies of training and inference. What a word says stands in GET /methods and /dtypes. */
#include "api/words/words.h"

#include "models/generation.h"
#include "plan/plan.h"

/* Known, accepted, not modelled yet. */
#define LATER(name, says)                 \
    {                                     \
        name, WORD_UNMODELLED, NULL, says \
    }
#define LATER_TOO(name, also, says)       \
    {                                     \
        name, WORD_UNMODELLED, also, says \
    }

const struct word workload_words[] = {
    {"finetune", WORKLOAD_FINETUNE, "fine-tune|finetuning|training", "Training steps: forward, backward, optimizer."},
    {"inference", WORKLOAD_INFERENCE, "generate|generation", "Prompts in, tokens out: weights, KV cache, what a forward holds."},
    {0},
};

const struct word tuning_words[] = {
    {"full", TUNING_FULL, NULL, "Every parameter is trained."},
    {"lora", TUNING_LORA, NULL, "The base is frozen; low-rank adapters on its linear layers are trained (peft)."},
    {"qlora", TUNING_QLORA, NULL, "LoRA on a base whose linear layers are quantised to 4 bits (bitsandbytes)."},
    {"adalora", WORD_UNMODELLED, NULL, "Adapters whose ranks are pruned as they train (peft)."},
    {"bone", WORD_UNMODELLED, "miss", "Blocks that are added to weights (peft)."},
    {"c3a", WORD_UNMODELLED, NULL, "Circular convolutions beside each linear layer (peft)."},
    {"fourierft", WORD_UNMODELLED, NULL, "A few spectral entries of each weight's change (peft)."},
    {"hra", WORD_UNMODELLED, NULL, "Householder reflections before each linear layer (peft)."},
    {"ia3", WORD_UNMODELLED, "(ia)3", "Vectors that scale keys, values and hidden layers (peft)."},
    {"ln_tuning", WORD_UNMODELLED, NULL, "Layer norms alone are trained (peft)."},
    {"loha", WORD_UNMODELLED, NULL, "Hadamard products of two low-rank pairs (peft, LyCORIS)."},
    {"lokr", WORD_UNMODELLED, NULL, "Kronecker products of low rank (peft, LyCORIS)."},
    {"lora-fa", WORD_UNMODELLED, NULL, "LoRA whose A stays as it was made (peft)."},
    {"oft", WORD_UNMODELLED, "boft|qoft", "Orthogonal matrices before each linear layer (peft)."},
    {"prefix", WORD_UNMODELLED, "prefix_tuning|prompt|prompt_tuning|p-tuning", "Keys and values, or embeddings, that are trained before each sequence (peft)."},
    {"randlora", WORD_UNMODELLED, NULL, "Sums of random bases, scaled (peft)."},
    {"shira", WORD_UNMODELLED, NULL, "A sparse change of each weight (peft)."},
    {"vblora", WORD_UNMODELLED, NULL, "Adapters whose vectors come of one bank (peft)."},
    {"vera", WORD_UNMODELLED, NULL, "Vectors on random matrices that all layers share (peft)."},
    {"xlora", WORD_UNMODELLED, "x-lora", "Several adapters, mixed a token at a time (peft)."},
    {0},
};

const struct word quantization_words[] = {
    {"none", 0, NULL, "Weights as loaded."},
    {"int8", KBIT_INT8, "8bit|llm.int8|8", "bitsandbytes LLM.int8(): 8-bit linear weights."},
    {"nf4", KBIT_NF4, "int4|4bit", "bitsandbytes 4-bit NormalFloat, two values a byte."},
    {"nf4-dq", KBIT_NF4_DQ, "nf4-double-quant|4", "nf4 whose scales are quantised too."},
    {"fp4", KBIT_FP4, NULL, "bitsandbytes 4-bit floats, two values a byte."},
    {"gptq4", KBIT_GPTQ4, "gptq", "A GPTQ checkpoint of 4 bits."},
    {"gptq8", KBIT_GPTQ8, NULL, "A GPTQ checkpoint of 8 bits."},
    {"torchao-int8", KBIT_TORCHAO_INT8, "torchao|int8wo|int8_weight_only", "torchao's Int8WeightOnlyConfig(): 8-bit linear weights, a scale a row."},
    {"torchao-nf4", KBIT_TORCHAO_NF4, "nf4_weight_only", "torchao's NF4WeightOnlyConfig(): NF4Tensor, scales of 8 bits."},
    {"awq4", KBIT_AWQ4, "awq", "An AWQ checkpoint of 4 bits."},
    {"hqq4", KBIT_HQQ4, "hqq", "hqq's groups of 64 in 4 bits, quantised while the model loads (transformers before 5)."},
    {"hqq8", KBIT_HQQ8, NULL, "The same in 8 bits."},
    {0},
};

const struct word prepare_kbit_words[] = {
    {"none", 0, NULL, "What is not quantised keeps its dtype."},
    {"peft", KBIT_PREPARE_PEFT, NULL, "prepare_model_for_kbit_training: what is not quantised becomes fp32."},
    {"trl", KBIT_PREPARE_TRL, NULL, "As peft, after which embedding and head are cast back to half."},
    {"axolotl", KBIT_PREPARE_AXOLOTL, NULL,
     "As peft, after which norms, embedding and head are cast back to half; over quantised experts routers called gate alone become fp32. Without bits: these, "
     "and where full tuning runs without flash or flex attention and cut cross-entropy also norms, embedding and head (single, ddp, tp)."},
    {0},
};

const struct word precision_words[] = {
    {"bf16", PRECISION_BF16, "bfloat16", "Weights, gradients and states in bf16."},
    {"bf16-autocast", PRECISION_BF16_AUTOCAST, "bfloat16-autocast",
     "bf16 weights under autocast: the Trainer's bf16=True on a checkpoint loaded in bf16."},
    {"bf16-mixed", PRECISION_BF16_MIXED, "bfloat16-mixed",
     "fp32 weights under bf16 autocast; under DeepSpeed bf16 weights with an fp32 master."},
    {"fp16", PRECISION_FP16, "float16|half", "Weights, gradients and states in fp16."},
    {"fp16-autocast", PRECISION_FP16_AUTOCAST, "float16-autocast", "fp16 weights under autocast with a GradScaler: adapters only."},
    {"fp16-mixed", PRECISION_FP16_MIXED, "float16-mixed", "fp32 weights under fp16 autocast with a GradScaler."},
    {"fp32", PRECISION_FP32, "float32|float", "Everything in fp32."},
    {0},
};

const struct word float8_words[] = {
    {"none", 0, NULL, "No float8 products."},
    {"tensorwise", FLOAT8_TENSORWISE, NULL, "torchao float8 linear layers, one scale a tensor."},
    {"rowwise", FLOAT8_ROWWISE, NULL, "torchao float8 linear layers, one scale a row."},
    {"rowwise_with_gw_hp", FLOAT8_ROWWISE_GW_HP, NULL, "rowwise, with the weight's gradient in high precision."},
    LATER("mxfp8", "Microscaling float8: one scale a block of 32."),
    {0},
};

const struct word checkpointing_words[] = {
    {"false", TRI_FALSE, "none|off|no", "Activations are kept for backward."},
    {"true", TRI_TRUE, "full|on|yes", "Each layer keeps its input and is recomputed in backward."},
    {"selective_op", CHECKPOINT_SELECTIVE, "selective", "Attention and every other product are kept, the rest is recomputed."},
    {"every_2nd_layer", CHECKPOINT_SECOND, NULL, "Every other layer is recomputed, the first of each two."},
    {0},
};

const struct word attention_words[] = {
    {"sdpa", ATTENTION_SDPA, NULL, "torch's scaled_dot_product_attention, which picks its kernel."},
    {"eager", ATTENTION_EAGER, NULL, "Written out: scores of length x length are kept."},
    {"flash_attention_2", ATTENTION_FLASH_2, "flash_attn_2|flash_attention|flash_attn|flash|fa2", "The flash-attn package."},
    {"flash_attention_3", ATTENTION_FLASH_3, "flash_attn_3|fa3", "The flash-attn-3 package: the kernels for Hopper."},
    {"flex_attention", ATTENTION_FLEX, "flex_attn|flex", "torch's flex_attention: a kernel that Inductor compiles, its mask by blocks of 128."},
    {0},
};

const struct word loss_words[] = {
    {"hf", LOSS_HF, NULL, "The cross-entropy of the transformers release, over all logits."},
    {"liger", LOSS_LIGER, NULL, "Liger's fused linear cross-entropy: logits a chunk at a time."},
    {"chunked", LOSS_CHUNKED, NULL, "Logits and loss a chunk of the sequence at a time, as torchtune: eight chunks."},
    {"cut_cross_entropy", LOSS_CUT_CROSS_ENTROPY, "cce", "Apple's cut cross-entropy: no logits in memory."},
    {"chunked_nll", LOSS_CHUNKED_NLL, NULL, "trl's own loss: head and log-probabilities a tile of tokens and vocabulary at a time."},
    {0},
};

const struct word liger_words[] = {
    {"rope", LIGER_ROPE, NULL, "Liger's rotary kernel."},
    {"rms_norm", LIGER_RMS_NORM, NULL, "Liger's RMSNorm."},
    {"swiglu", LIGER_SWIGLU, NULL, "Liger's SwiGLU."},
    {"geglu", LIGER_GEGLU, NULL, "Liger's GeGLU."},
    {"layer_norm", LIGER_LAYER_NORM, NULL, "Liger's LayerNorm."},
    {"cross_entropy", LIGER_CROSS_ENTROPY, NULL, "Liger's cross-entropy over all logits."},
    {"fused_linear_cross_entropy", LIGER_FUSED_LINEAR, NULL, "Head and cross-entropy in one, a chunk at a time."},
    {0},
};

const struct word reduce_words[] = {
    {"fp32", REDUCE_FP32, "float32", "Gradients are reduced in fp32."},
    {"bf16", REDUCE_BF16, "bfloat16", "Gradients are reduced in bf16."},
    {0},
};

const struct word wrap_words[] = {
    {"layers", FSDP_WRAP_LAYERS, NULL, "One FSDP unit a decoder layer, and the rest."},
    {"titan", FSDP_WRAP_TITAN, NULL, "As torchtitan: embedding, each layer, and norm with head."},
    {"accelerate", FSDP_WRAP_ACCELERATE, NULL, "As accelerate's auto wrap policy."},
    {0},
};

const struct word prefetch_words[] = {
    {"pre", FSDP_PREFETCH_PRE, "BACKWARD_PRE", "The next unit is gathered before this one's backward."},
    {"post", FSDP_PREFETCH_POST, "BACKWARD_POST", "The next unit is gathered after this one's backward."},
    {"none", FSDP_PREFETCH_NONE, "NO_PREFETCH", "Units are gathered when needed."},
    {0},
};

const struct word offload_words[] = {
    {"none", OFFLOAD_NONE, NULL, "Everything stays on the GPU."},
    {"optimizer", OFFLOAD_OPTIMIZER, NULL, "Optimizer states and the step live on the host."},
    {"optimizer+params", OFFLOAD_OPTIMIZER_PARAMS, NULL, "Parameters too come from the host, a layer at a time."},
    {"activations", OFFLOAD_ACTIVATIONS, NULL, "Kept activations wait for backward on the host."},
    LATER("optimizer+params+activations", "All three."),
    {0},
};

const struct word lora_bias_words[] = {
    {"none", LORA_BIAS_NONE, NULL, "No bias is trained."},
    {"all", LORA_BIAS_ALL, NULL, "All biases of the model are trained, those of norms too."},
    {"lora_only", LORA_BIAS_ADAPTED, NULL, "The biases of adapted modules are trained."},
    {0},
};

const struct word lora_kernel_words[] = {
    {"qkv", LORA_KERNEL_QKV, "lora_qkv_kernel", "Query, key and value in one function (axolotl)."},
    {"o", LORA_KERNEL_O, "lora_o_kernel", "Attention's projection out in a function of its own (axolotl)."},
    {"mlp", LORA_KERNEL_MLP, "lora_mlp_kernel", "A gated MLP in one function, gradients written over its factors (axolotl)."},
    {0},
};

const struct word lora_dtype_words[] = {
    {"fp32", LORA_DTYPE_FP32, "float32", "Adapters in fp32, as peft casts them."},
    {"bf16", LORA_DTYPE_BF16, "bfloat16", "Adapters in bf16."},
    {"fp16", LORA_DTYPE_FP16, "float16|half", "Adapters in fp16."},
    {0},
};
const struct word target_words[] = {{"all-linear", 0, "all", "Every linear layer but the head."}, {0}};

const struct word weights_words[] = {
    {"bf16", WEIGHTS_BF16, "bfloat16", "Weights in bf16."},
    {"fp16", WEIGHTS_FP16, "float16|half", "Weights in fp16."},
    {"fp32", WEIGHTS_FP32, "float32", "Weights in fp32."},
    {"int8", WEIGHTS_INT8, "8bit|llm.int8", "bitsandbytes LLM.int8()."},
    {"nf4", WEIGHTS_NF4, "4bit", "bitsandbytes 4-bit NormalFloat."},
    {"nf4-dq", WEIGHTS_NF4_DQ, NULL, "nf4 with quantised scales."},
    {"fp4", WEIGHTS_FP4, NULL, "bitsandbytes 4-bit float."},
    {"gptq4", WEIGHTS_GPTQ4, "gptq-int4", "A GPTQ checkpoint, 4 bits."},
    {"gptq8", WEIGHTS_GPTQ8, "gptq-int8", "A GPTQ checkpoint, 8 bits."},
    {"awq4", WEIGHTS_AWQ4, "awq", "An AWQ checkpoint, 4 bits."},
    {"fp8", WEIGHTS_FP8, NULL, "A checkpoint in float8 with scales of 128 x 128 blocks."},
    {"mxfp4", WEIGHTS_MXFP4, NULL, "Experts in 4-bit floats with a byte of scale for 32, as gpt-oss is saved."},
    {0},
};

const struct word compute_words[] = {
    {"bf16", 0, "bfloat16", "16 bits, 8 of them exponent."},
    {"fp16", 0, "float16|half", "16 bits, 5 of them exponent."},
    {"fp32", 0, "float32", "32 bits."},
    {0},
};

const struct word kv_cache_words[] = {
    {"auto", KV_CACHE_AUTO, NULL, "Keys and values in the dtype of what is not quantised."},
    {"bf16", KV_CACHE_HALF, "bfloat16|fp16|float16", "Keys and values in half. generate() keeps them as the weights are: under fp32 weights vLLM's alone."},
    {"fp8", KV_CACHE_FP8, "float8_e4m3fn|fp8_e4m3|fp8_e5m2", "Keys and values in float8: vLLM's, and QuantizedCache(backend=\"fp8\") of generate() from transformers 5.21 on."},
    LATER_TOO("int8", "8bit", "QuantizedCache in 8 bits."),
    LATER_TOO("int4", "4bit", "QuantizedCache in 4 bits."),
    LATER_TOO("int2", "2bit", "QuantizedCache in 2 bits."),
    {0},
};

const struct word cache_words[] = {
    {"dynamic", CACHE_DYNAMIC, NULL, "Keys and values that grow with each token: generate()'s own."},
    {"static", CACHE_STATIC, NULL, "Room for prompt and answer from the start, without torch.compile (disable_compile=True)."},
    LATER_TOO("quantized", "quanto|hqq", "Keys and values in 2, 4 or 8 bits, the last 128 tokens in half."),
    LATER_TOO("offloaded", "offloaded_static", "Keys and values of all layers but two on the host."),
    {0},
};

const struct word device_map_words[] = {
    {"auto", DEVICE_MAP_AUTO, "balanced", "Over a node's GPUs in equal shares, then the host, as transformers and accelerate lay it out."},
    {"cuda", DEVICE_MAP_ONE, "cuda:0|none|single", "All on one GPU."},
    {"cpu", DEVICE_MAP_HOST, NULL, "All on the host, whose processors compute."},
    {"sequential", DEVICE_MAP_SEQUENTIAL, NULL, "One GPU full after the other."},
    {"balanced_low_0", DEVICE_MAP_LOW_0, NULL, "As auto, with what the others have no room for on the first GPU."},
    {0},
};

const struct word engine_words[] = {
    {"transformers", 0, "hf", "generate() of transformers."},
    {"vllm", ENGINE_OF_VLLM, NULL, "vLLM: a pool of KV blocks."},
    {0},
};

const struct word framework_words[] = {
    {"transformers", FRAMEWORK_TRANSFORMERS, "hf|trainer", "The HF Trainer."},
    {"torch", FRAMEWORK_TORCH, "pytorch", "A plain loop over the same model."},
    {"deepspeed", FRAMEWORK_ENGINE, NULL,
     "A loop over DeepSpeed's engine: plain where it keeps its outputs, the Trainer's where it drops them."},
    LATER("torchtitan", "torchtitan's trainer."),
    LATER("torchtune", "torchtune's recipes."),
    LATER("litgpt", "LitGPT's scripts."),
    {"colossalai", FRAMEWORK_COLOSSAL, "colossal-ai", "Colossal-AI 0.3.0 with Gemini, as LLMem ran it: methods llmem_*."},
    LATER("megatron", "Megatron-LM."),
    LATER("composer", "MosaicML's Composer."),
    LATER("unsloth", "Unsloth's trainer and kernels."),
    LATER("trl", "trl's trainers, whose SFTTrainer has a loss of its own."),
    LATER("axolotl", "axolotl's trainers and plugins."),
    LATER_TOO("llama-factory", "llamafactory|llama_factory", "LLaMA-Factory's trainers."),
    LATER_TOO("ms-swift", "swift", "ms-swift's trainers."),
    {0},
};

const struct word stage_words[] = {
    {"sft", TASK_SFT, NULL, "Supervised fine-tuning: next-token loss on sequences with a mask of their own."},
    {"pretrain", TASK_SFT, "pt|pretraining", "Next-token loss on rows of concatenated text."},
    {"dpo", TASK_DPO, NULL, "Two sequences a pair and a reference model."},
    {"kto", TASK_KTO, NULL, "Sequences with a verdict and a reference model."},
    {"orpo", TASK_ORPO, NULL, "Pairs without a reference model."},
    {"simpo", TASK_SIMPO, NULL, "Pairs without a reference model, normalised by length."},
    {"cpo", TASK_CPO, NULL, "Pairs without a reference model."},
    {"reward", TASK_REWARD, "rm", "A head of one output, on pairs."},
    {"classification", TASK_CLASSIFICATION, "sequence_classification", "A label a row."},
    {"token_classification", TASK_TOKEN_CLASSIFICATION, "ner", "A label a token."},
    {"question_answering", TASK_QUESTION_ANSWERING, "qa", "Where each row's answer begins and ends."},
    {"masked_lm", TASK_MASKED_LM, "mlm", "Masked tokens of an encoder."},
    {"masked_lm_nsp", TASK_PRETRAINING, "mlm_nsp", "Masked tokens and the next sentence, as BERT was pretrained."},
    {"embedding", TASK_EMBEDDING, NULL, "Vectors of sequences, contrasted within the batch."},
    {"distillation", TASK_DISTILLATION, NULL, "A teacher's logits beside the student's."},
    LATER("grpo", "Generated groups, scored, and a policy's loss on them."),
    LATER("ppo", "Policy, value, reward and reference models."),
    {0},
};

const struct word trainer_words[] = {
    {"trl", TRAINER_TRL, NULL, "trl's trainer of the stage, sentence-transformers' or the Trainer, as the stage says."},
    {"axolotl", TRAINER_AXOLOTL, NULL, "axolotl's trainers of dpo, orpo, simpo and kto, over the trl that it pins."},
    {"llama-factory", TRAINER_LLAMA_FACTORY, "llamafactory|llama_factory", "LLaMA-Factory's own trainer of dpo, orpo, simpo, kto and reward; of sft how it trains a part and packs."},
    {"open-instruct", TRAINER_OPEN_INSTRUCT, "open_instruct", "open-instruct's dpo_tune_cache.py: dpo and simpo."},
    {"ms-swift", TRAINER_MS_SWIFT, "ms_swift|swift", "ms-swift's own trainers of dpo, orpo, cpo, simpo and kto."},
    {0},
};

const struct word reference_words[] = {
    {"none", REFERENCE_NONE, NULL, "No reference model."},
    {"copy", REFERENCE_COPY, NULL, "A frozen copy of the model."},
    {"adapter", REFERENCE_ADAPTER, NULL, "The model without its adapters."},
    {"precomputed", REFERENCE_PRECOMPUTED, NULL, "Its log-probabilities, from before training."},
    {0},
};

const struct word tool_words[] = {
    {"axolotl", TOOL_AXOLOTL, NULL, "axolotl's YAML."},
    {"llama-factory", TOOL_LLAMA_FACTORY, "llamafactory|llama_factory", "LLaMA-Factory's YAML."},
    {"ms-swift", TOOL_MS_SWIFT, "swift|ms_swift", "ms-swift's YAML, or its command: swift sft --model .."},
    {"trl", TOOL_TRL, NULL, "The YAML of `trl sft --config`."},
    {"oumi", TOOL_OUMI, NULL, "oumi's YAML."},
    {"open-instruct", TOOL_OPEN_INSTRUCT, "open_instruct", "The YAML or command of open-instruct's finetune.py."},
    LATER("torchtune", "torchtune's YAML."),
    LATER("unsloth", "unsloth's YAML."),
    LATER("litgpt", "LitGPT's YAML."),
    {0},
};

const struct word objective_words[] = {
    {"fastest", OBJECTIVE_FASTEST, NULL, "Most tokens a second first."},
    {"least_memory", OBJECTIVE_LEAST_MEMORY, NULL, "Lowest peak first."},
    {"fewest_gpus", OBJECTIVE_FEWEST_GPUS, NULL, "Fewest GPUs first."},
    {"longest_sequence", OBJECTIVE_LONGEST_SEQUENCE, NULL, "Longest sequence first."},
    {0},
};

/* Whose text the model's program is, where there is a choice. */
const struct word program_words[] = {
    {"builtin", PROGRAM_BUILTIN, NULL, "The one that llmemd carries."},
    {"installed", PROGRAM_INSTALLED, NULL, "The files of a transformers that the service was started with."},
    {"hub", PROGRAM_HUB, NULL, "The code of the model's own repository, as trust_remote_code=True runs it."},
    {0},
};

const struct word llmem_words[] = {
    {"paper", 0, NULL, "The formulas as the paper prints them."},
    {"repository", 1, "repo", "The formulas as the authors' code computes them."},
    {0},
};

/* Links within and between nodes. Not modelled: one GPU sends nothing. */
#define L(name) LATER(name, NULL)
const struct word link_words[] = {
    L("pcie3"),
    L("pcie4"),
    L("pcie4-x8"),
    L("pcie4-noP2P"),
    L("pcie5"),
    L("pcie6"),
    L("nvlink"),
    L("nvlink1"),
    L("nvlink2"),
    L("nvlink2-bridge"),
    L("nvlink3"),
    L("nvlink3-pair"),
    L("nvlink3-bridge"),
    L("nvlink4"),
    L("nvlink4-sharp"),
    L("nvlink4-bridge"),
    L("nvlink4-h800"),
    L("nvlink5"),
    L("nvlink5-sharp"),
    L("nvlink5-nvl72"),
    L("nvlink-c2c"),
    L("xgmi-mi250x"),
    L("xgmi-mi300x"),
    L("xgmi-mi355x"),
    L("ib-edr"),
    L("ib-hdr100"),
    L("ib-hdr"),
    L("ib-ndr"),
    L("ib-ndr200"),
    L("ib-xdr"),
    L("roce-100"),
    L("roce-200"),
    L("roce-400"),
    L("ethernet-1g"),
    L("ethernet-10g"),
    L("ethernet-25g"),
    L("ethernet-100g"),
    L("slingshot-11"),
    L("slingshot-11-gh200-2n"),
    L("slingshot-11-fallback"),
    L("slingshot-11-mi250x"),
    L("efa-v1"),
    L("efa-v2"),
    L("efa-v3"),
    L("efa-v4"),
    L("tcpx"),
    L("tcpxo"),
    L("omnipath-100"),
    L("generic-4-node"),
    {0},
};

const char *word_named(const struct word *words, int value)
{
    for (; words->name; words++)
        if (words->value == value)
            return words->name;
    return NULL;
}
