class Version:
    def __init__(self, text):
        self.public = self.base_version = text
        self.release = tuple(int(part) for part in text.split("+")[0].split(".") if part.isdigit())

    def __lt__(self, other):
        return self.release < other.release

    def __le__(self, other):
        return self.release <= other.release

    def __gt__(self, other):
        return self.release > other.release

    def __ge__(self, other):
        return self.release >= other.release

    def __eq__(self, other):
        return self.release == other.release


def parse(text):
    return Version(text)
