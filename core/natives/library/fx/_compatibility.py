def compatibility(*args, **kwargs):
    return lambda thing: thing
