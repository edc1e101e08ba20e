"""What files of releases/ are written with, beside `quirks` and `refuse`, which are natives."""


def of(*classes):
    """Makes a function or property a member of the classes in the place of theirs."""

    def put(member, name=None):
        for cls in classes:
            setattr(cls, name or member.__name__, member)
        return member

    return put
