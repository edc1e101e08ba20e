"""Files of a request that mean harm, or are broken: what they end in, and that they end soon. (name, code of the problem or the reason, what the file says)"""

L = "\n        "
CONF = """
from transformers import PretrainedConfig


class C(PretrainedConfig):
    model_type = "h"

    def __init__(self, vocab_size=100, hidden_size=64, **kw):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        super().__init__(**kw)
"""
MODEL = """
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from .configuration_h import C
%s
class M(PreTrainedModel):
    config_class = C
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        %s
    def forward(self, input_ids, labels=None, **kwargs):
        x = self.embed_tokens(input_ids)
        %s
        logits = self.lm_head(x)
        loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
"""
CLASSES = {"AutoConfig": "configuration_h.C", "AutoModelForCausalLM": "modeling_h.M"}


def request(top="", init="pass", fwd="pass", files=None, auto=None):
    return {"config": {"model_type": "h", "auto_map": auto or CLASSES}, "cluster": {"gpu": "A100-80GB"}, "training": {"seq_len": 64, "methods": "single"},
            "modeling": files or {"configuration_h.py": CONF, "modeling_h.py": MODEL % (top, init, fwd)}}


CASES = [
    ("fine", "fits", dict()),
    ("loop at import", "modeling-too-long", dict(top="while True: pass")),
    ("loop in init", "modeling-too-long", dict(init="while True: pass")),
    ("loop in forward", "modeling-too-long", dict(fwd="while True: pass")),
    ("long loop body fwd", "modeling-too-long", dict(fwd="while True:"+L+"    "+(L+"    ").join(["a = 1"]*5000))),
    ("for range filter", "modeling-too-long", dict(fwd="y = [i for i in range(1 << 60) if False]")),
    ("for range", "modeling-too-long", dict(fwd="for i in range(1 << 60): pass")),
    ("sum range", "modeling-too-long", dict(fwd="sum(range(1 << 60))")),
    ("list range", "modeling-too-long", dict(fwd="list(range(1 << 60))")),
    ("recursion", "modeling-raised", dict(top="def f(n):\n    return f(n + 1)", fwd="f(0)")),
    ("mutual recursion getattr", "modeling-raised", dict(top="class A:\n    def __getattr__(self, n):\n        return getattr(self, n + 'x')", fwd="A().y")),
    ("list times", "modeling-too-long", dict(fwd="y = [0] * (1 << 40)")),
    ("list times loop", "modeling-too-long", dict(fwd="y = [0]"+L+"while True:"+L+"    y = y * 2")),
    ("str times", "modeling-too-long", dict(fwd="y = 'x' * (1 << 40)")),
    ("str grow", "modeling-too-long", dict(fwd="y = 'x'"+L+"while True:"+L+"    y = y + y")),
    ("pow", "leaves-the-language", dict(fwd="y = 10 ** 10 ** 8")),
    ("shift", "leaves-the-language", dict(fwd="y = 1 << (1 << 40)")),
    ("1MB parens", "leaves-the-language", dict(top="x = "+"("*400000+")"*400000)),
    ("1MB open", "leaves-the-language", dict(top="x = "+"("*900000)),
    ("nested lists", "leaves-the-language", dict(top="x = "+"["*300000+"]"*300000)),
    ("nested fstrings", "leaves-the-language", dict(top="x = "+"f'{"*2000+"1"+"}'"*2000)),
    ("nested comprehensions", "leaves-the-language", dict(top="x = "+"["*90+"1"+" for a in range(9)]"*90)),
    ("comprehension product", "modeling-too-long", dict(fwd="y = [1 "+"for a in range(1000) "*8+"]")),
    ("import os", "leaves-the-language", dict(top="import os", fwd="os.system('ls')")),
    ("import os unused", "fits", dict(top="import os")),
    ("open", "leaves-the-language", dict(fwd="open('/etc/passwd')")),
    ("eval", "leaves-the-language", dict(fwd="eval('1')")),
    ("__import__", "leaves-the-language", dict(fwd="__import__('os').system('ls')")),
    ("subclasses", "fits", dict(fwd="y = ().__class__.__bases__[0].__subclasses__()")),
    ("globals walk", "modeling-raised", dict(fwd="y = (lambda: 0).__globals__['__builtins__']")),
    ("with of many", "leaves-the-language", dict(top="with "+",".join("a as b%d"%i for i in range(60000))+": pass")),
    ("closures of many names", "leaves-the-language", dict(top="def f():\n"+"".join(" v%d=1\n"%i for i in range(20000))+" def g():\n  return ("+",".join("v%d"%i for i in range(20000))+")")),
    ("modules within one another", "modeling-raised", dict(init="m = nn.Identity()"+L+"for i in range(60000):"+L+"    m = nn.Sequential(m)"+L+"self.m = m")),
    ("huge class", "fits", dict(top="class A:\n"+"\n".join("    a%d = %d"%(i,i) for i in range(40000)))),
    ("many functions", "fits", dict(top="\n".join("def f%d(): pass"%i for i in range(40000)))),
    ("exceptions in loop", "modeling-too-long", dict(fwd="while True:"+L+"    try:"+L+"        raise ValueError"+L+"    except ValueError:"+L+"        pass")),
    ("exception swallow all", "modeling-too-long", dict(fwd="while True:"+L+"    try:"+L+"        while True: pass"+L+"    except BaseException:"+L+"        pass")),
    ("finally swallow", "modeling-too-long", dict(fwd="try:"+L+"    while True: pass"+L+"finally:"+L+"    while True: pass")),
    ("generator endless", "modeling-too-long", dict(top="def g():\n    while True:\n        yield 1", fwd="for i in g(): pass")),
    ("list generator", "modeling-too-long", dict(top="def g():\n    while True:\n        yield 1", fwd="list(g())")),
    ("count", "modeling-too-long", dict(top="import itertools", fwd="for i in itertools.count(): pass")),
    ("cycle", "modeling-too-long", dict(top="import itertools", fwd="list(itertools.cycle([1]))")),
    ("product", "modeling-too-long", dict(top="import itertools", fwd="list(itertools.product(range(1000), repeat=9))")),
    ("percent", "fits", dict(fwd="y = '%1000000000d' % 1")),
    ("format width", "modeling-raised", dict(fwd="y = f'{1:1000000000d}'")),
    ("format prec", "modeling-raised", dict(fwd="y = f'{1.5:.1000000000f}'")),
    ("zfill", "modeling-too-long", dict(fwd="y = '1'.zfill(1 << 40)")),
    ("ljust", "modeling-too-long", dict(fwd="y = '1'.ljust(1 << 40)")),
    ("join", "modeling-too-long", dict(fwd="y = ','.join('x' for _ in range(1 << 60))")),
    ("replace", "modeling-too-long", dict(fwd="y = ('a' * 100000).replace('a', 'b' * 100000)")),
    ("split", "budget", dict(fwd="y = ('a ' * 1000000).split()")),
    ("find quad", "modeling-too-long", dict(fwd="y = ('a' * 500000 + 'b').find('a' * 250000 + 'c')")),
    ("expandtabs", "modeling-raised", dict(fwd="y = ('\\t' * 1000).expandtabs(1 << 30)")),
    ("sorted", "modeling-too-long", dict(fwd="y = sorted(range(1 << 22), key=lambda v: -v)")),
    ("dict grow", "modeling-too-long", dict(fwd="d = {}"+L+"i = 0"+L+"while True:"+L+"    d[i] = i"+L+"    i += 1")),
    ("hash collide", "modeling-too-long", dict(top="class K:\n    def __hash__(self): return 1\n    def __eq__(self, o): return False", fwd="d = {K(): i for i in range(100000)}")),
    ("eq recursion", "modeling-raised", dict(fwd="a = []"+L+"b = []"+L+"a.append(b)"+L+"b.append(a)"+L+"c = []"+L+"e = []"+L+"c.append(e)"+L+"e.append(c)"+L+"a == c")),
    ("repr recursion", "modeling-raised", dict(fwd="a = []"+L+"a.append(a)"+L+"y = repr(a)")),
    ("deep list", "fits", dict(fwd="a = []"+L+"for i in range(100000): a = [a]")),
    ("deep list repr", "modeling-raised", dict(fwd="a = []"+L+"for i in range(100000): a = [a]"+L+"repr(a)")),
    ("many layers", "modeling-too-long", dict(init="self.l = nn.ModuleList([nn.Linear(8, 8) for _ in range(1 << 30)])")),
    ("100k layers", "arch-invalid", dict(init="self.l = nn.ModuleList([nn.Linear(8, 8) for _ in range(30000)])")),
    ("big linear", "tensor-too-large", dict(init="self.l = nn.Linear(1 << 40, 1 << 40)")),
    ("big tensor", "does-not-fit", dict(fwd="y = torch.zeros(1 << 62)")),
    ("big tensor 2", "does-not-fit", dict(fwd="y = torch.zeros(1 << 31, 1 << 31)")),
    ("big outer", "does-not-fit", dict(fwd="y = torch.zeros(1 << 40)"+L+"y = y[:, None] * y[None, :]")),
    ("big product", "does-not-fit", dict(fwd="y = torch.zeros(1 << 40, 1)"+L+"y = y @ y.t()")),
    ("big padding", "modeling-raised", dict(fwd="y = nn.functional.pad(x, (1 << 62, 1 << 62))")),
    ("tensor loop", "budget", dict(fwd="while True: x = x + 1")),
    ("tensor list", "budget", dict(fwd="y = []"+L+"while True: y.append(x + 1)")),
    ("tensor dims", "leaves-the-language", dict(fwd="for i in range(100): x = x.unsqueeze(0)")),
    ("split many", "budget", dict(fwd="y = torch.zeros(100000).split(1)")),
    ("self import", "modeling-raised", dict(top="from .modeling_h import M as N")),
    ("self import 2", "modeling-raised", dict(top="import transformers_modules.request.modeling_h as z\nz.M")),
    ("decorator loop", "modeling-raised", dict(top="def d(f):\n    return d(f)\n@d\ndef g(): pass")),
    ("many decorators", "modeling-raised", dict(top="def d(f):\n    return lambda: f()\n"+"@d\n"*5000+"def g(): pass", fwd="g()")),
    ("deep blocks", "leaves-the-language", dict(top="\n".join("    "*i+"if 1:" for i in range(500))+"\n"+"    "*500+"pass")),
    ("deep lambda", "leaves-the-language", dict(top="f = "+"lambda: "*5000+"1")),
    ("deep attr", "leaves-the-language", dict(top="f = nn"+".a"*100000)),
    ("long expr", "leaves-the-language", dict(top="f = 1"+"+1"*100000)),
    ("long and", "fits", dict(top="f = 1"+" and 1"*100000)),
    ("long string", "fits", dict(top="f = '"+"a"*900000+"'")),
    ("many names", "fits", dict(top="\n".join("n%d = 1"%i for i in range(60000)))),
    ("metaclass", "modeling-raised", dict(top="class X(type):\n    def __call__(c, *a): return c(*a)\nclass Y(metaclass=X): pass\nY()")),
    ("descriptor", "modeling-raised", dict(top="class D:\n    def __get__(s, o, t): return o.x\nclass Y:\n    x = D()\nY().x")),
    ("del loop", "fits", dict(top="class D:\n    def __del__(s): D()\nD()")),
    ("mro", "leaves-the-language", dict(top="\n".join("class A%d(%s): pass"%(i,",".join("A%d"%j for j in range(i-1,-1,-1)) or "object") for i in range(200)))),
    ("product of two dtypes", "modeling-raised", dict(fwd="y = x.double() @ x.half().transpose(-1, -2)")),
    ("an operator of two numbers", "modeling-raised", dict(fwd="y = torch.bitwise_xor(16, 3)")),
    ("cat at a dimension that is none", "modeling-raised", dict(fwd="y = torch.cat([x, x], 1 << 30)")),
    ("stack below all dimensions", "modeling-raised", dict(fwd="y = torch.stack((x, x), -9)")),
    ("stack of eight dimensions", "leaves-the-language", dict(fwd="y = torch.stack((torch.zeros(1, 1, 1, 1, 1, 1, 1, 1),) * 2)")),
    ("cat of different dimensions", "modeling-raised", dict(fwd="y = torch.cat([x, x[0]], -1)")),
    ("an operator of letters", "modeling-raised", dict(fwd="y = torch.add(x, 'a')")),
    ("indices that there are no dimensions for", "modeling-raised", dict(fwd="for i in range(4): x = x[..., 0]")),
    ("a mask beside dots", "modeling-raised", dict(fwd="y = x[(x > 0), ..., 0]")),
    ("norm of two dtypes", "modeling-raised", dict(fwd="y = nn.functional.layer_norm(x.double(), x.shape[-1:], x.half()[0, 0], x.half()[0, 0])")),
    ("attention of two dtypes", "modeling-raised", dict(fwd="y = nn.functional.scaled_dot_product_attention(x[:, None].double(), x[:, None].half(), x[:, None].half())")),
    ("a product of vectors", "modeling-raised", dict(fwd="y = torch.addmm(x[0, 0], x[0, 0], x[0, 0])")),
    ("a product of batches that are none", "modeling-raised", dict(fwd="y = torch.baddbmm(x, x[0], x[0, 0])")),
    ("batches of a product that differ", "modeling-raised", dict(fwd="y = torch.baddbmm(x, x, torch.zeros(3, 64, 64, device=x.device, dtype=x.dtype))")),
    ("what is added to a product is larger", "modeling-raised", dict(fwd="y = torch.addmm(x, x[0], x[0])")),
    ("a product is written into another shape", "modeling-raised", dict(fwd="y = x[0].detach()[:3].addmm_(x[0].detach(), x[0].detach())")),
    ("broadcast batches of a product differ", "modeling-raised", dict(fwd="y = torch.zeros(3, 4, 5) @ torch.zeros(2, 5, 4)")),
    ("a linear layer of a vector and a bias", "modeling-raised", dict(fwd="y = nn.functional.linear(x, x[0, 0], x[0, 0])")),
    ("t() of three dimensions", "modeling-raised", dict(fwd="y = x.t()")),
    ("a sum over nothing of much", "fits", dict(fwd="y = torch.zeros(0, 1 << 24, device=x.device).sum(1)")),
    ("a norm over nothing", "fits", dict(fwd="y = nn.functional.layer_norm(x[..., :0], (0,))")),
    ("a norm of another width", "modeling-raised", dict(fwd="y = nn.functional.layer_norm(x, (7,))")),
    ("filters of no groups", "modeling-raised", dict(fwd="y = nn.functional.conv1d(x, x[:, :, :3], groups=0)")),
    ("products of no experts", "modeling-raised", dict(fwd="y = torch._grouped_mm(x[0], x[:0], offs=torch.zeros(0, dtype=torch.int32, device=x.device))")),
    ("a dimension far below", "modeling-raised", dict(fwd="y = x.unsqueeze(-(1 << 24))")),
    ("a dimension beyond 32 bits", "modeling-raised", dict(fwd="y = x.unsqueeze(1 << 32)")),
    ("no dimension is squeezed", "fits", dict(fwd="y = x.sum().squeeze(0) + x.sum().squeeze(-1)")),
    ("a dimension of a number", "modeling-raised", dict(fwd="y = x.sum().size(0)")),
    ("dots twice", "modeling-raised", dict(fwd="y = x[..., ..., None]")),
    ("sizes of an expansion that are unknown", "modeling-raised", dict(fwd="y = x.expand(-1, -1, -1, -1)")),
    ("fewer dimensions by expansion", "modeling-raised", dict(fwd="y = x.expand(64, 64)")),
    ("an expansion of expansions", "does-not-fit", dict(fwd="y = x.sum().expand(1 << 50).unsqueeze(0).expand(1 << 50, -1)")),
    ("a view of more elements", "modeling-raised", dict(fwd="y = x[:0].view(5)")),
    ("a view of a number", "modeling-raised", dict(fwd="y = x.sum().view(5)")),
    ("a view of two unknown sizes", "modeling-raised", dict(fwd="y = x.view(-1, -1)")),
    ("parts of a split beyond it", "modeling-raised", dict(fwd="y = x.split([-1, 2])")),
    ("zeros of a negative size", "modeling-raised", dict(fwd="y = torch.zeros(-1)")),
    ("padding that leaves less than nothing", "modeling-raised", dict(fwd="y = nn.functional.pad(x, (-100, 0))")),
    ("an embedding of eight dimensions", "leaves-the-language", dict(fwd="y = nn.functional.embedding(input_ids.view(1, 1, 1, 1, 1, 1, 1, -1), self.lm_head.weight)")),
    ("rows at eight dimensions", "leaves-the-language", dict(fwd="y = self.lm_head.weight.detach()[input_ids.view(1, 1, 1, 1, 1, 1, 1, -1)]")),
    ("rows padded in eight dimensions", "modeling-raised", dict(top="from flash_attn.bert_padding import pad_input", fwd="y = pad_input(x.view(1, 1, 1, 1, 1, 1, 1, -1), input_ids, 1, 1)")),
    ("flash attention of rows of none", "modeling-raised", dict(top="from flash_attn import flash_attn_varlen_func", fwd="y = flash_attn_varlen_func(x, x, x, torch.zeros(1, dtype=torch.int32, device=x.device), None, 1, 1)")),
    ("a tensor of the host beside the device's", "modeling-raised", dict(fwd="k = [torch.zeros(1) for i in range(3000)]" + L + "y = torch.bmm(x, k[-1])")),
    ("a tensor of the host beside a weight", "modeling-raised", dict(fwd="y = self.lm_head.weight + torch.zeros(self.lm_head.weight.shape)")),
    ("a list of tensors of both", "modeling-raised", dict(fwd="y = torch.cat([x, torch.zeros(x.shape)])")),
    ("indices of the host", "fits", dict(fwd="k = [torch.tensor([0]) for i in range(3000)]" + L + "y = x[k[-1]]")),
    ("a mask of another shape", "modeling-raised", dict(fwd="y = x[torch.ones(3, dtype=torch.bool, device=x.device)]")),
    ("targets of other rows", "modeling-raised", dict(fwd="y = nn.functional.cross_entropy(x[0], labels.view(-1)[:3])")),
    ("assert", "modeling-raised", dict(fwd="assert x.shape[0] == 77, 'seventy-seven'")),
    ("raise init", "modeling-raised", dict(init="raise ValueError('no ' * 1000)")),
    ("raise base", "modeling-raised", dict(fwd="raise KeyboardInterrupt")),
    ("sys exit", "modeling-raised", dict(top="import sys", fwd="sys.exit(1)")),
    ("loss none", "modeling-raised", dict(fwd="return None")),
    ("int forward", "modeling-raised", dict(fwd="return 7")),
    ("data decides", "leaves-the-language", dict(fwd="if x.sum() > 0: pass")),
    ("print flood", "modeling-too-long", dict(fwd="while True: print('x' * 1000)")),
    ("logging flood", "modeling-too-long", dict(top="import logging", fwd="while True: logging.warning('x')")),
    ("checkpoint rec", "modeling-raised", dict(top="from torch.utils.checkpoint import checkpoint\ndef f(x):\n    return checkpoint(f, x, use_reentrant=False)", fwd="f(x)")),
    ("apply rec", "modeling-raised", dict(top="class F(torch.autograd.Function):\n    @staticmethod\n    def forward(c, x): return F.apply(x)\n    @staticmethod\n    def backward(c, g): return g", fwd="x = F.apply(x)")),
    ("backward loop", "modeling-too-long", dict(top="class F(torch.autograd.Function):\n    @staticmethod\n    def forward(c, x): return x * 2\n    @staticmethod\n    def backward(c, g):\n        while True: pass", fwd="x = F.apply(x)")),
    ("backward none", "fits", dict(top="class F(torch.autograd.Function):\n    @staticmethod\n    def forward(c, x): return x * 2\n    @staticmethod\n    def backward(c, g):\n        return None", fwd="x = F.apply(x)")),
    ("forward is module self", "fits", dict(init="self.me = self")),
    ("modules of itself", "fits", dict(init="self.me = self" + L + "self.n = len([*self.modules(), *self.parameters()])")),
    ("apply to itself", "modeling-raised", dict(init="self.me = self" + L + "self.apply(lambda m: None)")),
    ("modules within modules", "modeling-raised", dict(init="m = nn.Linear(1, 1)" + L + "for i in range(20000):" + L + "    m = nn.Sequential(m)" + L + "m.modules()")),
    ("cyc imports", "fits", dict(files={"configuration_h.py":CONF+"\nfrom .modeling_h import M\n","modeling_h.py":MODEL%("","pass","pass")})),
    ("10000 files", "field-range", dict(files={"f%d.py"%i:"x = 1" for i in range(10000)})),
    ("nul", "malformed-json", dict(files={"configuration_h.py":CONF,"modeling_h.py":"x = '\0'"})),
    ("bad name", "field-value", dict(files={"../x.py":"x"})),
    ("no text", "field-type", dict(files={"a.py":7})),
    ("no class", "leaves-the-language", dict(auto={"AutoConfig":"configuration_h.C","AutoModelForCausalLM":"modeling_h.N"})),
    ("no file", "field-value", dict(auto={"AutoConfig":"configuration_h.C","AutoModelForCausalLM":"modeling_y.M"})),
    ("class is function", "leaves-the-language", dict(top="def N(c): return c",auto={"AutoConfig":"configuration_h.C","AutoModelForCausalLM":"modeling_h.N"})),
    ("class is int", "leaves-the-language", dict(top="N = 7",auto={"AutoConfig":"configuration_h.C","AutoModelForCausalLM":"modeling_h.N"})),
    ("config is int", "leaves-the-language", dict(top="N = 7",auto={"AutoConfig":"modeling_h.N","AutoModelForCausalLM":"modeling_h.M"})),
    ("syntax", "leaves-the-language", dict(top="x = = 1")),
    ("tabs", "fits", dict(top="if 1:\n\tx = 1\n        y = 2")),
    ("class of keywords", "modeling-raised", dict(top="class X(type): pass\nclass Y(metaclYss=X): pass")),
    ("a pattern of a thousand brackets", "leaves-the-language", dict(top="match 1:\n    case " + "[" * 1000 + "]" * 1000 + ": pass")),
    ("a pattern of a thousand names", "leaves-the-language", dict(top="match 1:\n    case [" + ", ".join(f"a{i}" for i in range(1000)) + "]: pass")),
    ("async", "leaves-the-language", dict(top="async def f(): pass\nf()")),
    ("star", "leaves-the-language", dict(top="*a, *b = 1")),
    ("no gradient", "modeling-raised", dict(fwd="labels = labels"+L+"self.lm_head.requires_grad_(False)"+L+"x = x.detach()")),
    ("deepcopy of itself", "fits", dict(top="import copy", init="m = nn.ModuleList([nn.Linear(2, 2)])"+L+"m.append(m)"+L+"y = copy.deepcopy(m)")),
    ("deepcopies", "modeling-too-long", dict(top="import copy", init="m = nn.Linear(2, 2)"+L+"while True: m = nn.Sequential(copy.deepcopy(m), copy.deepcopy(m))")),
    ("encoder of many", "modeling-too-long", dict(init="y = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1 << 40)")),
    ("einops parens", "modeling-too-long", dict(top="import einops", fwd="y = einops.rearrange(x, '(' * 500000 + 'b' + ')' * 500000 + ' -> b')")),
    ("einops axes", "modeling-raised", dict(top="import einops", fwd="y = einops.einsum(x, ' '.join('a%d' % i for i in range(60)) + ' ->')")),
    ("einops repeat", "does-not-fit", dict(top="import einops", fwd="y = einops.repeat(x, 'b n d -> b (n 1000000000000) d')")),
    ("tensordot", "modeling-too-long", dict(fwd="y = torch.tensordot(x, x, dims=1 << 40)")),
    ("segments", "modeling-raised", dict(top="from torch.utils.checkpoint import checkpoint_sequential", fwd="x = checkpoint_sequential([nn.Identity()], 0, x)")),
    ("optimizer made", "leaves-the-language", dict(top="import torch.optim as optim\nclass O(optim.Optimizer): pass", init="O([], {})")),
    ("backends switched", "leaves-the-language", dict(init="torch.backends.cuda.enable_flash_sdp(False)")),
    ("unpack", "leaves-the-language", dict(top="import einops", fwd="y = einops.unpack(x, [[1 << 62], [1 << 62]], 'b * d')")),
]
