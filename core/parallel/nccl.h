/*
 * nccl.h - what NCCL holds on a GPU beside PyTorch's allocator.
 *
 * Purpose   bytes of one communicator after its first collective: buffers of its channels, which the driver counts and torch.cuda does not.
 * Source    empirical: NVIDIA/nccl issue 964, 4 A100 with NVLink, one 4 MiB all-reduce: 544 MiB for two ranks, 688 MiB for more. The
 *           number of channels decides (issue 986); with PCIe alone there are fewer, so these stand on the safe side there.
 * Not modelled: several communicators, NCCL_MAX_NCHANNELS, NCCL_BUFFSIZE, registration of user buffers.
 */
#ifndef PARALLEL_NCCL_H
#define PARALLEL_NCCL_H

#include <stdint.h>

enum { NCCL_MIB_PAIR = 544, NCCL_MIB_MORE = 688 };

/* Of a communicator of so many ranks; a single one sends nothing. */
static inline uint64_t nccl_bytes(uint32_t ranks)
{
    return ranks < 2 ? 0 : (uint64_t)(ranks == 2 ? NCCL_MIB_PAIR : NCCL_MIB_MORE) << 20;
}

/* A communicator for each direction in which the ranks are laid out. Those of a pipeline's neighbours count as any other: the safe side. */
static inline uint64_t nccl_bytes_of(uint32_t data_parallel, uint32_t tensor_parallel, uint32_t pipeline_parallel)
{
    return nccl_bytes(data_parallel) + nccl_bytes(tensor_parallel) + nccl_bytes(pipeline_parallel);
}

#endif
