"""Names that files of before 5 take from here."""

from torch import nn

if "ALL_LAYERNORM_LAYERS" not in globals():
    ALL_LAYERNORM_LAYERS = [nn.LayerNorm]

is_torch_greater_or_equal_than_1_13 = is_torch_greater_or_equal_than_2_0 = is_torch_greater_or_equal_than_2_1 = True
is_torch_greater_or_equal_than_2_2 = is_torch_greater_or_equal_than_2_3 = is_torch_greater_or_equal_than_2_4 = True


def find_pruneable_heads_and_indices(heads, n_heads, head_size, already_pruned_heads):
    raise NotImplementedError("heads are pruned outside of a training step")


def prune_linear_layer(layer, index, dim=0):
    raise NotImplementedError("layers are pruned outside of a training step")


def apply_chunking_to_forward(forward_fn, chunk_size, chunk_dim, *input_tensors):
    if chunk_size > 0:
        chunks = tuple(tensor.chunk(input_tensors[0].shape[chunk_dim] // chunk_size, dim=chunk_dim) for tensor in input_tensors)
        return torch.cat(tuple(forward_fn(*chunk) for chunk in zip(*chunks)), dim=chunk_dim)
    return forward_fn(*input_tensors)
