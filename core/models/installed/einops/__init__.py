"""rearrange and repeat as einops 0.8.2 einops.py does them: a reshape where axes are split, a permutation, an expansion, a reshape where they are joined."""
from _script import leave


def _groups(side, dots):
    """[["b"], ["h", "d"]] of "b (h d)"."""
    groups, within = [], None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            within = []
        elif word == ")":
            groups.append(within)
            within = None
        else:
            axes = dots if word == "..." else [] if word == "1" else [word]
            if within is not None:
                within.extend(axes)
            elif word == "...":
                groups.extend([axis] for axis in axes)
            else:
                groups.append(axes)
    return groups


def _lengths(groups, shape, known):
    lengths = dict(known)
    for group, length in zip(groups, shape):
        product, free = 1, []
        for axis in group:
            if axis in lengths:
                product *= lengths[axis]
            else:
                free.append(axis)
        if len(free) > 1 or length % product or (not free and length != product):
            raise ValueError(f"Shape mismatch, can't divide axis of length {length} in chunks of {product}")
        for axis in free:
            lengths[axis] = length // product
    return lengths


def _apply(input, pattern, known):
    tensor = input
    before, after = pattern.split("->")
    named = len(_groups(before, []))
    dots = [f"_{i}" for i in range(len(tensor.shape) - named)] if "..." in before else []
    left, right = _groups(before, dots), _groups(after, dots)
    if len(left) != len(tensor.shape):
        raise ValueError(f"Wrong shape: expected {len(left)} dims. Received {len(tensor.shape)}-dim tensor.")
    lengths = _lengths(left, tensor.shape, known)
    have = [axis for group in left for axis in group]
    want = [axis for group in right for axis in group]
    if [axis for axis in have if axis not in want]:
        leave(f"einops.reduce('{pattern}')")
    if any(len(group) != 1 for group in left):
        tensor = tensor.reshape([lengths[axis] for axis in have])
    kept = [axis for axis in want if axis in have]
    if kept != have:
        tensor = tensor.permute([have.index(axis) for axis in kept])
    if len(want) > len(kept):
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
    return _apply(tensor, pattern, axes_lengths)


def repeat(tensor, pattern, **axes_lengths):
    return _apply(tensor, pattern, axes_lengths)


def reduce(tensor, pattern, reduction, **axes_lengths):
    leave(f"einops.reduce('{pattern}')")
