class TransformGetItemToIndex:
    """Within it vmapped indices of no dimension index tensors."""

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass
