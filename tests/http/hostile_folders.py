"""An installed transformers whose files are broken or mean harm: (name, code of the problem or `fits`, files beside or instead of the test's own, what is done to
the folder, members of the config). MODELING and so on are places in it."""
import os
import shutil
import socket

MODELING, CONFIG = "models/tiny/modeling_tiny.py", "models/tiny/configuration_tiny.py"
AUTO, MAPS = "models/auto/modeling_auto.py", "models/auto/auto_mappings.py"
SPECIAL = "SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict(\n    [\n"


def link(to):
    def put(folder):
        os.unlink(os.path.join(folder, MODELING))
        os.symlink(to, os.path.join(folder, MODELING))
    return put


def moved(to):
    """The file lies elsewhere in the folder and a link stands for it."""
    def put(folder):
        os.rename(os.path.join(folder, MODELING), os.path.join(folder, "models/tiny/real.py"))
        os.symlink(to.format(folder), os.path.join(folder, MODELING))
    return put


def outside(folder):
    os.rename(os.path.join(folder, "models/tiny"), folder + ".out")
    os.symlink(folder + ".out", os.path.join(folder, "models/tiny"))


def ring(folder):
    link("b.py")(folder)
    os.symlink("modeling_tiny.py", os.path.join(folder, "models/tiny/b.py"))


def a_socket(folder):
    path = os.path.join(folder, MODELING)
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as s:
        here = os.open(os.path.dirname(path), os.O_RDONLY)
        s.bind("/proc/self/fd/%d/modeling_tiny.py" % here)
        os.close(here)


def a_pipe(name):
    def put(folder):
        os.unlink(os.path.join(folder, name))
        os.mkfifo(os.path.join(folder, name))
    return put


def no_folder(folder):
    shutil.rmtree(os.path.join(folder, "models"))
    open(os.path.join(folder, "models"), "w").close()


def cases(files):
    model, config, auto, maps = (files[name] for name in (MODELING, CONFIG, AUTO, MAPS))
    after = lambda text: {MODELING: model + "\n" + text}
    return (
        ("imports in a circle", "modeling-raised", {MODELING: "from .other import H\n" + model, "models/tiny/other.py": "from .modeling_tiny import TinyLayer\n"}),
        ("500 modules in a circle", "modeling-raised",
         {MODELING: "from .m0 import x\n" + model, **{"models/tiny/m%d.py" % i: "from .m%d import x\n" % ((i + 1) % 500) for i in range(500)}}),
        ("imports itself", "fits", after("from .modeling_tiny import TinyForCausalLM as Same")),
        ("blocks in blocks", "leaves-the-language", after("\n".join(" " * i + "if 1:" for i in range(900)) + "\n" + " " * 900 + "pass\n")),
        ("parentheses", "leaves-the-language", after("x = " + "(" * 400000 + ")" * 400000)),
        ("4,000 classes", "fits", after("\n".join("class A%d(TinyLayer): pass" % i for i in range(4000)))),
        ("a class of 4,000 ancestors", "leaves-the-language", after("class A0: pass\n" + "\n".join("class A%d(A%d): pass" % (i + 1, i) for i in range(4000)))),
        ("a class twice", "fits", after(model)),
        ("files named like packages", "fits", {"torch.py": "raise ValueError", "models/tiny/torch.py": "raise ValueError", "models/tiny/math.py": "raise ValueError"}),
        ("turns at import", "modeling-too-long", after("while True: pass")),
        ("turns in a config", "modeling-too-long", {CONFIG: config + "\n    def __post_init__(self, **kw):\n        while True: pass\n"}),
        ("turns in a file beside", "modeling-too-long", {"loss/loss_utils.py": "while True: pass\n"}),
        ("a config that raises", "modeling-raised", {CONFIG: "raise KeyboardInterrupt\n"}),
        ("no class", "leaves-the-language", {MODELING: "x = 1\n"}),
        ("a class that is a number", "leaves-the-language", {MODELING: "TinyForCausalLM = 7\n"}),
        ("a class that is a module", "leaves-the-language", {MODELING: "import torch as TinyForCausalLM\n"}),
        ("a config that is a number", "leaves-the-language", {CONFIG: "TinyConfig = 7\n"}),
        ("a config that is a module of torch", "modeling-raised", {CONFIG: "from torch import nn\nclass TinyConfig(nn.Module): pass\n"}),
        ("2^40 layers", "modeling-too-long", {}, None, {"num_hidden_layers": 1 << 40}),
        ("2^50 wide", "modeling-raised", {}, None, {"hidden_size": 1 << 50}),
        ("a float for a width", "modeling-raised", {}, None, {"hidden_size": 64.0}),
        ("a config's members named like methods", "leaves-the-language", {}, None, {"__class__": "x", "__dict__": {}, "to_dict": 1}),
        ("a type that is a path", "field-missing", {}, None, {"model_type": "../../../etc/passwd"}),
        ("a table that names a path for a class", "leaves-the-language", {AUTO: auto.replace("TinyForCausalLM", "../../etc/passwd")}),
        ("a table that ends", "field-missing", {AUTO: auto[:60]}),
        ("a table of 50,000 rows", "fits", {AUTO: auto.replace('        ("tiny",', "".join('        ("t%d", "T"),\n' % i for i in range(50000)) + '        ("tiny",')}),
        ("a table for a pipe", "not taken", {}, a_pipe(AUTO)),
        ("a byte order mark", "fits", {MODELING: b"\xef\xbb\xbf" + model.encode()}),
        ("lines of CRLF", "fits", {MODELING: model.replace("\n", "\r\n")}),
        ("UTF-16", "leaves-the-language", {MODELING: model.encode("utf-16")}),
        ("Latin-1 that says so", "leaves-the-language", {MODELING: b"# -*- coding: latin-1 -*-\n# \xe9\n" + model.encode()}),
        ("nothing", "leaves-the-language", {MODELING: ""}),
        ("a line of 1.9 MB", "fits", after("x = '" + "y" * 1900000 + "'")),
        ("100,000 decorators", "leaves-the-language", after("@staticmethod\n" * 100000 + "def f(): pass")),
        ("70 MB in files", "leaves-the-language",
         {MODELING: "\n".join("from .b%d import *" % i for i in range(40)) + "\n" + model,
          **{"models/tiny/b%d.py" % i: "x%d = '" % i + "y" * 1900000 + "'\n" for i in range(40)}}),
        ("a link to a device", "leaves-the-language", {}, link("/dev/zero")),
        ("a link to a process's memory", "leaves-the-language", {}, link("/proc/self/mem")),
        ("a link to itself", "leaves-the-language", {}, link("modeling_tiny.py")),
        ("links in a ring", "leaves-the-language", {}, ring),
        ("a link out and back", "leaves-the-language", {}, moved("../../../transformers/models/tiny/real.py")),
        ("an absolute link", "leaves-the-language", {}, moved("{}/models/tiny/real.py")),
        ("a link up and down again", "fits", {}, moved("../../models/tiny/real.py")),
        ("a folder that is a link out", "leaves-the-language", {}, outside),
        ("a folder within itself", "fits", {}, lambda folder: os.symlink("..", os.path.join(folder, "models/tiny/up"))),
        ("a file of a tebibyte", "leaves-the-language", {}, lambda folder: os.truncate(os.path.join(folder, MODELING), 1 << 40)),
        ("a socket", "leaves-the-language", {}, a_socket),
        ("a file where a folder was", "not taken", {}, no_folder),
    )
