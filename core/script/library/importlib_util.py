# importlib.util: which packages are there; nobody loads a file
from _script import leave

_absent = ("xformers", "triton", "apex", "deepspeed", "bitsandbytes", "causal_conv1d", "mamba_ssm", "fla")


def find_spec(name, package=None):
    return None if name.split(".")[0] in _absent else name


def spec_from_file_location(name, location=None, *args, **kwargs):
    leave("importlib.util.spec_from_file_location()")


def module_from_spec(spec):
    leave("importlib.util.module_from_spec()")
