/*
 * chunks.h - how Gemini packs parameters into chunks.
 *
 * Purpose   the chunk size that search_chunk_configuration() picks, and the chunks that register_tensor() then fills.
 * Source    Colossal-AI 0.3.0 as patched in taehokim20/LLMem 3d289b4: colossalai/zero/gemini/chunk/search_utils.py and manager.py;
 *           what 1-D tensor parallelism splits: nn/parallel/layers/{linear,embedding}.py, the last dimension of each weight.
 * Models    one group of chunks. With tensor parallelism the code keeps tensors that are not split (biases, norms) in a group of
 *           their own, of another degree; here they stand among the others.
 */
#ifndef LLMEM_CHUNKS_H
#define LLMEM_CHUNKS_H

#include "llmem/llmem.h"

struct chunks {
    uint64_t cs_elems;
    uint64_t fp16_bytes, fp32_bytes; /* of one GPU, each chunk in steps of cu_p */
    uint32_t n;
};

/* Weights split over `tp` GPUs, chunks sharded over `dp`. */
struct chunks chunks_of(const struct llmem_model *m, uint32_t tp, uint32_t dp);

#endif
