"""What files of releases/ are written with, beside `quirks` and `refuse`, which are natives."""


def of(*classes):
    """Makes a function or property a member of the classes in the place of theirs."""

    def put(member, name=None):
        for cls in classes:
            setattr(cls, name or member.__name__, member)
            if (name or member.__name__) == "forward" and hasattr(cls, "checkpoint_forward"):
                cls.checkpoint_forward()
        return member

    return put
