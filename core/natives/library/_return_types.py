"""torch.return_types: tuples of two that have names."""


class pair(tuple):
    @property
    def values(self):
        return self[0]

    @property
    def indices(self):
        return self[1]
