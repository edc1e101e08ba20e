#!/usr/bin/env python3
"""Measures what single operators of PyTorch allocate, forward and backward, and prints the table of this directory.

    PYTHONPATH=TRACER python make_ops.py > torch-VERSION.csv
    PYTHONPATH=TRACER python make_ops.py attention > torch-VERSION-sm_CC.csv     attention's kernels go by the GPU
    PYTHONPATH=TRACER python make_ops.py products > torch-VERSION-products-sm_CC.csv     grouped products, by the GPU too

Runs in a Python that has the torch of that version. TRACER holds the recorder of CUDA allocations that the tapes of this tree
were made with: environment.ensure(), one_gpu.tape.Tape with lib.tape_events(), events and names.

    op,what,dtype,shape,pass,events
    events   +BYTES:OP is a birth, -K the death of the K-th birth of the row; what was born before does not count
"""
import sys

import environment
environment.ensure()

import torch
import torch.nn.functional as F
from one_gpu import tape as tapes

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32", torch.int64: "int64", torch.bool: "bool"}
tape = tapes.Tape()
rows = []


def record(row, run):
    first = tape.lib.tape_events()
    kept = run()
    rows.append((row, first, tape.lib.tape_events()))
    return kept


def new(shape, dtype, grad=True):
    return torch.empty(shape, dtype=dtype, device="cuda", requires_grad=grad and dtype.is_floating_point)


def both(op, what, dtype, shape, run, backward=True):
    row = (op, what, NAMES[dtype], "x".join(map(str, shape)))
    out = record(row + ("forward",), run)
    if backward:
        gradient = torch.empty_like(out)
        record(row + ("backward",), lambda: out.backward(gradient))


def attention(what, dtype, batch, seq, heads, kv, width):
    q, k, v = (new((batch, seq, h, width), dtype).transpose(1, 2) for h in (heads, kv, kv))
    options = {"is_causal": True}
    if "mask" in what:
        options = {"attn_mask": new((batch, 1, seq, seq), torch.bool if "bool" in what else dtype, False)}
    if "dropout" in what:
        options["dropout_p"] = 0.1
    if heads != kv:
        options["enable_gqa"] = True
    both("attention", what, dtype, (batch, seq, heads, kv, width), lambda: F.scaled_dot_product_attention(q, k, v, **options))


def embedding(dtype, ids, vocabulary, width):
    weight, index = new((vocabulary, width), dtype), new((1, ids), torch.int64)
    both("embedding", "", dtype, (ids, vocabulary, width), lambda: F.embedding(index, weight))


def layer_norm(what, dtype, tokens, width):
    x = new((tokens, width), dtype)
    weight = new((width,), dtype) if what != "plain" else None
    bias = new((width,), dtype) if what == "bias" else None
    both("layer_norm", what, dtype, (tokens, width), lambda: F.layer_norm(x, (width,), weight, bias))


def measure():
    new_torch = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)
    for dtype in (BF16, FP32):
        for seq in (512, 777):
            for width in (32, 40, 64, 80, 96, 112, 120, 128, 160, 192, 256):
                for what in ("causal", "mask"):
                    attention(what, dtype, 2, seq, 4, 4, width)
        for width in (64, 128):
            for what in ("causal dropout", "mask dropout", "bool mask"):
                attention(what, dtype, 2, 512, 4, 4, width)
        for batch, seq, heads in ((1, 128, 4), (1, 2048, 12), (1, 4096, 2), (1, 8192, 2), (3, 1000, 8), (16, 512, 32), (1, 1, 8)):
            for width in (64, 128, 256):
                attention("causal", dtype, batch, seq, heads, heads, width)
    for seq in (500, 501, 504, 505, 1001):
        attention("mask", BF16, 2, seq, 4, 4, 64)
        attention("bool mask", BF16, 2, seq, 4, 4, 64)
    if new_torch:
        for heads, kv in ((32, 4), (8, 1), (12, 4)):
            for width in (64, 128):
                attention("causal", BF16, 2, 512, heads, kv, width)
    for dtype in (BF16, FP32):
        for ids in (512, 3072, 3073, 3108, 3584, 4096, 8192, 16384, 32704, 65536):
            for vocabulary, width in ((32000, 1024), (50272, 768)):
                embedding(dtype, ids, vocabulary, width)
        embedding(dtype, 8192, 2048, 768)
        embedding(dtype, 262144, 8192, 64)
        for tokens in (512, 2048, 8192):
            for width in (768, 2048, 4096):
                layer_norm("bias", dtype, tokens, width)
        layer_norm("weight", dtype, 1024, 768)
        layer_norm("plain", dtype, 1024, 768)
        # expand's backward is the sum that biases and broadcast factors get
        for shape in ((1024, 768), (1024, 2048), (1000, 4096), (2331, 1024), (8192, 1024), (4096, 11008), (512, 51200), (16384, 16), (100, 64)):
            x = new((1, shape[1]), dtype)
            both("expand", "rows", dtype, shape, lambda: x.expand(shape))
            y = new((shape[0], 1), dtype)
            both("expand", "columns", dtype, shape, lambda: y.expand(shape))
            z = new(shape, dtype)
            both("sum", "last", dtype, shape, lambda: z.sum(-1, keepdim=True), False)
            both("sum", "all", dtype, shape, lambda: z.sum())
            m = new(shape, dtype)
            both("mean", "last", dtype, shape, lambda: m.mean(-1, keepdim=True))
        for shape in ((2, 4, 512, 512), (8, 12, 1024, 1024), (1, 71, 640, 640)):
            w = new((shape[0], 1, shape[2], shape[3]), dtype)
            both("expand", "heads", dtype, shape, lambda: w.expand(shape))
            s = new(shape, dtype)
            both("softmax", "", dtype, shape, lambda: torch.softmax(s, -1))
        for shape in ((1000, 32000), (4096, 50257)):
            logits, target = new(shape, dtype), new((shape[0],), torch.int64)
            both("cross_entropy", "", dtype, shape, lambda: F.cross_entropy(logits, target))
    for n in (100, 1022, 2048, 8176, 32704, 65408, 262144):
        for dtype in (torch.int64, torch.bool):
            x = new((n,), dtype)
            both("sum", "all", dtype, (n,), lambda: x.sum(), False)
        i = new((2, n), torch.int64)
        both("cumsum", "", torch.int64, (2, n), lambda: i.cumsum(1), False)
        j = new((1, n), torch.int64)
        both("cumsum", "", torch.int64, (1, n), lambda: j.cumsum(1), False)



def measure_attention():
    if torch.cuda.get_device_capability()[0] >= 9:
        environment.without_cudnn_attention()
    for dtype in (BF16, FP32):
        for width in (32, 64, 80, 96, 128, 160, 192, 208, 256):
            for what in ("causal", "mask", "causal dropout", "mask dropout"):
                attention(what, dtype, 2, 512, 4, 4, width)
        attention("mask", dtype, 2, 777, 4, 4, 128)
    for batch, seq, heads in ((1, 2048, 12), (3, 1000, 8), (16, 512, 32), (1, 1, 8), (64, 128, 8)):
        for width in (64, 128, 256):
            for what in ("causal", "mask"):
                attention(what, BF16, batch, seq, heads, heads, width)


def grouped_mm(what, dtype, tokens, inner, columns, experts):
    x, offsets = new((tokens, inner), dtype), torch.empty((experts,), dtype=torch.int32, device="cuda")
    weight = new((experts, columns, inner) if what == "turned" else (experts, inner, columns), dtype)
    right = weight.transpose(1, 2) if what == "turned" else weight
    both("grouped_mm", what, dtype, (tokens, inner, columns, experts), lambda: torch._grouped_mm(x, right, offs=offsets))


def measure_products():
    for what in ("plain", "turned"):
        for shape in ((2048, 512, 1024, 8), (520, 256, 384, 16), (4096, 1024, 96, 4), (1000, 64, 2048, 5)):
            grouped_mm(what, BF16, *shape)


measure_products() if "products" in sys.argv else measure_attention() if "attention" in sys.argv else measure()
tape.stop()
print("op,what,dtype,shape,pass,events")
for row, first, last in rows:
    born, events = {}, []
    for e in tape.events[first:last]:
        if e["kind"] == tapes.ALLOC:
            born[int(e["id"])] = len(born)
            events.append("+%d:%s" % (e["size"], tape.names[e["op"]].replace("aten::", "")))
        elif e["kind"] == tapes.FREE_COMPLETED and int(e["id"]) in born:
            events.append("-%d" % born[int(e["id"])])
    print(",".join(row + (" ".join(events),)))
