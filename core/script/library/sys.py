from _script import modules as _modules

modules = _modules()
version_info = (3, 11, 7, "final", 0)
version = "3.11.7"
maxsize = 9223372036854775807
platform = "linux"
byteorder = "little"
argv = [""]
path = []


def getrecursionlimit():
    return 1000
