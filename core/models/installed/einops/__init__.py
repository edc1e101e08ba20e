"""rearrange, reduce, repeat, einsum, pack and unpack as einops 0.8.2 einops.py and packing.py do them over torch: a reshape where axes are split, a permutation,
a reduction, an expansion, a reshape where they are joined."""
import torch


class EinopsError(RuntimeError):
    pass


def _groups(side, dots, new=""):
    """[["b"], ["h", "d"]] of "b (h d)"; a number is an axis of its own."""
    groups, within, numbers = [], None, 0
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            within = []
        elif word == ")":
            groups.append(within)
            within = None
        else:
            axes = dots if word == "..." else [] if word == "1" else [word]
            if word.isdigit() and word != "1":
                axes = [f"{word}{new}#{numbers}"]
                numbers += 1
            if within is not None:
                within.extend(axes)
            elif word == "...":
                groups.extend([axis] for axis in axes)
            else:
                groups.append(axes)
    return groups


def _length(axis, lengths):
    if "#" in axis and axis not in lengths:
        lengths[axis] = int(axis.rstrip("0123456789").rstrip("#").rstrip("_"))
    return axis in lengths


def _lengths(groups, shape, known):
    lengths = dict(known)
    for group, length in zip(groups, shape):
        product, free = 1, []
        for axis in group:
            if _length(axis, lengths):
                product *= lengths[axis]
            else:
                free.append(axis)
        if len(free) > 1:
            raise EinopsError(f"Could not infer sizes for {free}")
        if length % product or (not free and length != product):
            raise EinopsError(f"Shape mismatch, can't divide axis of length {length} in chunks of {product}")
        for axis in free:
            lengths[axis] = length // product
    return lengths


def _reduce(tensor, reduction, axes):
    if callable(reduction):
        return reduction(tensor, axes)
    if reduction == "min":
        return tensor.amin(dim=axes)
    if reduction == "max":
        return tensor.amax(dim=axes)
    if reduction == "sum":
        return tensor.sum(dim=axes)
    if reduction == "mean":
        return tensor.mean(dim=axes)
    if reduction not in ("prod", "any", "all"):
        raise EinopsError(f"Unknown reduction {reduction}.")
    for axis in axes[::-1]:
        tensor = getattr(tensor, reduction)(dim=axis)
    return tensor


def _apply(input, pattern, reduction, known):
    tensor = torch.stack(input) if isinstance(input, list) else input
    before, after = pattern.split("->")
    named = len(_groups(before, []))
    dots = [f".{i}" for i in range(len(tensor.shape) - named)] if "..." in before else []
    left, right = _groups(before, dots), _groups(after, dots, "_")
    if len(left) != len(tensor.shape):
        raise EinopsError(f"Wrong shape: expected {len(left)} dims. Received {len(tensor.shape)}-dim tensor.")
    lengths = _lengths(left, tensor.shape, known)
    have = [axis for group in left for axis in group]
    want = [axis for group in right for axis in group]
    gone = [axis for axis in have if axis not in want]
    added = [axis for axis in want if axis not in have]
    if gone and reduction in ("rearrange", "repeat") or added and reduction != "repeat":
        raise EinopsError(f"Identifiers only on one side of expression: {gone + added} in {pattern}")
    if [axis for axis in added if not _length(axis, lengths)]:
        raise EinopsError(f"Specify sizes for new axes in repeat: {added}")
    if any(len(group) != 1 for group in left):
        tensor = tensor.reshape([lengths[axis] for axis in have])
    kept = [axis for axis in want if axis in have]
    if kept + gone != have:
        tensor = tensor.permute([have.index(axis) for axis in kept + gone])
    if gone:
        tensor = _reduce(tensor, reduction, tuple(range(len(kept), len(have))))
    if added:
        for i, axis in enumerate(want):
            if axis not in have:
                tensor = tensor.unsqueeze(i)
        tensor = tensor.expand([-1 if axis in have else lengths[axis] for axis in want])
    if any(len(group) != 1 for group in right):
        sizes = []
        for group in right:
            product = 1
            for axis in group:
                product *= lengths[axis]
            sizes.append(product)
        tensor = tensor.reshape(sizes)
    return tensor


def rearrange(tensor, pattern, **axes_lengths):
    return _apply(tensor, pattern, "rearrange", axes_lengths)


def repeat(tensor, pattern, **axes_lengths):
    return _apply(tensor, pattern, "repeat", axes_lengths)


def reduce(tensor, pattern, reduction, **axes_lengths):
    return _apply(tensor, pattern, reduction, axes_lengths)


def _letters(pattern):
    """Names of axes as the letters that torch.einsum() knows."""
    known = {}
    left, right = pattern.split("->")

    def spelt(side):
        for name in side.split():
            if name != "..." and name not in known:
                known[name] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[len(known)]
        return "".join("..." if name == "..." else known[name] for name in side.split())

    inputs = [spelt(one) for one in left.split(",")]
    new = [name for name in right.split() if name != "..." and name not in known]
    if new:
        raise EinopsError(f"Unknown axis {new[0]} on right side of einsum {pattern}.")
    return ",".join(inputs) + "->" + spelt(right)


def einsum(*tensors_and_pattern):
    pattern = tensors_and_pattern[-1]
    if not isinstance(pattern, str):
        raise ValueError("The last argument passed to `einops.einsum` must be a string, representing the einsum pattern.")
    if "->" not in pattern:
        raise ValueError("Einsum pattern must contain '->'.")
    tensors = tensors_and_pattern[:-1]
    return torch.einsum(_letters(pattern), *tensors)


def _around(pattern, name):
    axes = pattern.split()
    if "*" not in axes:
        raise EinopsError(f'No *-axis in {name}(..., "{pattern}")')
    return axes.index("*"), len(axes) - axes.index("*") - 1


def _product(shape):
    product = 1
    for n in shape:
        product *= n
    return product


def pack(tensors, pattern):
    before, behind = _around(pattern, "pack")
    reshaped, shapes = [], []
    for tensor in tensors:
        shape = tensor.shape
        if len(shape) < before + behind:
            raise EinopsError(f"a packed tensor has shape {shape}, while pattern {pattern} assumes at least {before + behind} axes")
        end = len(shape) - behind
        shapes.append(shape[before:end])
        reshaped.append(tensor.reshape((*shape[:before], -1, *shape[end:])))
    return torch.cat(reshaped, dim=before), shapes


def unpack(tensor, packed_shapes, pattern):
    before, behind = _around(pattern, "unpack")
    shape = tensor.shape
    if len(shape) != before + 1 + behind:
        raise EinopsError(f"unpack(..., {pattern}) received input of wrong dim with shape {shape}")
    lengths = [-1 if -1 in one else _product(one) for one in packed_shapes]
    if lengths.count(-1) > 1:
        raise EinopsError(f"unpack(..., {pattern}) received more than one -1 in {packed_shapes} and can't infer dimensions")
    rest = shape[before] - sum(n for n in lengths if n != -1)
    ends = [0]
    for n in lengths:
        ends.append(ends[-1] + (rest if n == -1 else n))
    if -1 not in lengths:
        ends[-1] = shape[before]
    filler = (slice(None, None),) * before
    try:
        return [
            tensor[(*filler, slice(ends[i], ends[i + 1]))].reshape((*shape[:before], *one, *shape[before + 1 :]))
            for i, one in enumerate(packed_shapes)
        ]
    except Exception:
        raise EinopsError(f'Error during unpack(..., "{pattern}"): could not split axis of size {ends[-1]} into requested {packed_shapes}')


def parse_shape(x, pattern):
    names = pattern.split()
    shape = x.shape
    if "..." in names:
        at = names.index("...")
        names[at : at + 1] = ["_"] * (len(shape) - len(names) + 1)
    if len(names) != len(shape):
        raise RuntimeError(f"Can't parse shape with different number of dimensions: {pattern} {shape}")
    return {name: n for name, n in zip(names, shape) if name != "_"}
