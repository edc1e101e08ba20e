/*
 * Arguments of natives of torch 2.15: what changes memory is modelled or leaves the language, nothing is read over. Signatures:
 * torch/nn/functional.py, torch/_torch_docs.py, torch/nn/modules; flash_attn_interface.py 2.7.4.
 */
#include "models/program.h"
#include "natives/natives.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_ROOM = 16 << 20, ROOM = 64 << 20 };

static const char before[] = "import torch\n"
                             "import torch.nn.functional as F\n"
                             "from torch import nn\n"
                             "from torch.utils.checkpoint import checkpoint\n"
                             "from flash_attn import flash_attn_func, flash_attn_varlen_func\n"
                             "x = torch.zeros(4, 8, device='cuda')\n"
                             "g = torch.zeros(4, 8, device='cuda', requires_grad=True)\n"
                             "i = torch.zeros(4, dtype=torch.long, device='cuda')\n"
                             "w = torch.zeros(8, 8, device='cuda')\n"
                             "q = torch.zeros(1, 4, 2, 64, dtype=torch.bfloat16, device='cuda')\n"
                             "b = torch.zeros(1, 4, 8, device='cuda')\n"
                             "def f(x): return x\n"
                             "def raises(text, call):\n"
                             "    try:\n"
                             "        call()\n"
                             "    except RuntimeError as e:\n"
                             "        assert text in str(e), str(e)\n"
                             "    else:\n"
                             "        assert False, text\n";

static const struct row {
    const char *code, *leaves; /* NULL: it runs */
} rows[] = {
    /* no effect on memory, or what stands for nothing */
    {"F.cross_entropy(x, i, ignore_index=-1)", NULL},
    {"F.cross_entropy(x, i, weight=None, reduction='sum', label_smoothing=0.0)", NULL},
    {"nn.CrossEntropyLoss(reduction='mean', ignore_index=-100)", NULL},
    {"F.pad(x, (0, 1), mode='constant', value=0.0)", NULL},
    {"F.pad(g, (0, 1))", NULL},
    {"x.to(torch.bfloat16, memory_format=torch.contiguous_format)", NULL},
    {"x.contiguous(memory_format=torch.contiguous_format)", NULL},
    {"x[0] = g[0]", NULL},
    {"F.dropout(x, p=0.1, training=True, inplace=False)", NULL},
    {"nn.Dropout(0.1)", NULL},
    {"nn.ReLU(False)", NULL},
    {"nn.Embedding(4, 8, padding_idx=0, max_norm=None, sparse=False)", NULL},
    {"F.embedding(i, w, scale_grad_by_freq=False)", NULL},
    {"x.to(torch.bfloat16, non_blocking=True, copy=False)", NULL},
    {"x.to('cuda', torch.bfloat16, True, False)", NULL},
    {"x.clone(memory_format=None)", NULL},
    {"x.sum(dim=-1, keepdim=True, dtype=torch.float32)", NULL},
    {"x[0:2] = 1.0", NULL},
    {"x[:, 1] = i[0:4]", NULL},
    {"flash_attn_func(q, q, q, dropout_p=0.0, causal=True, window_size=(-1, -1), softcap=0.0, return_attn_probs=False)", NULL},
    {"torch.addmm(x, x, w, beta=1, alpha=1.0)", NULL},
    {"list(nn.Linear(8, 8).parameters(recurse=True))", NULL},
    {"assert len(list(nn.Sequential(nn.Linear(8, 8)).parameters(recurse=False))) == 0 and len(list(nn.Linear(8, 8).parameters(recurse=False))) == 2", NULL},
    {"assert torch.tensor([1, 2.5, 3]).dtype == torch.tensor([[1], [True], [0.5]]).dtype == torch.tensor([]).dtype == torch.get_default_dtype()", NULL},
    {"assert torch.tensor([True, 2]).dtype == torch.int64 and torch.tensor([[True], [False]]).dtype == torch.bool", NULL},
    {"assert torch.ones(2, 3, 4).stride() == (12, 4, 1) and torch.ones(2, 3).t().stride(0) == 1", NULL},
    {"torch.ones(3, device='cuda') @ torch.ones(2, 4, 3, device='cuda').transpose(1, 2)", NULL},
    {"assert torch.ones(4, 6)[[slice(None), slice(0, 2)]].shape == (4, 2) and torch.ones(4, 6)[[None, ...]].shape == (1, 4, 6)", NULL},
    {"nn.Linear(8, 8, device='cpu', dtype=torch.float32)", NULL},
    {"def put(): x[x > 0] = q[0, 0, 0]\nraises('got Float for the destination and BFloat16 for the source', put)", NULL},
    {"assert x.sum(axis=-1, keepdims=True).shape == torch.cat([x, x], axis=1).std(axis=1, keepdims=True).shape == (4, 1)", NULL},
    {"assert x.is_leaf and not x.is_inference() and not x.is_sparse and x.is_same_size(x) and torch.amax(x, axis=0).shape == (8,)", NULL},
    {"def mm(n, m): return torch._grouped_mm(torch.ones(6, n, device='cuda'), torch.ones(2, n, m, device='cuda'), offs=torch.ones(2, dtype=torch.int32, device='cuda'))\n"
     "assert mm(8, 12).shape == (6, 12)\n"
     "raises('multiple of 16 bytes', lambda: mm(6, 8))\nraises('multiple of 16 bytes', lambda: mm(8, 6))",
     NULL},
    {"x.cholesky()", "Tensor.cholesky"},
    {"x.stft(2)", "Tensor.stft"},
    {"nn.Linear(8, 8).to('cuda')", NULL},
    {"nn.LeakyReLU(0.1)", NULL},
    /* modelled */
    {"assert torch.ones(2, 3, requires_grad=True, device='cuda').requires_grad", NULL},
    {"assert torch.tensor(1.0, requires_grad=True, device='cuda').requires_grad", NULL},
    {"assert x.new_zeros((2,), device='cpu').device.type == 'cpu'", NULL},
    {"torch.nn.functional.softmax(x, -1, dtype=torch.float32)", NULL},
    {"torch.abs(x)", NULL},
    {"assert torch.multiply(x, x).shape == torch.subtract(x, x).shape == torch.divide(x, 2).shape == torch.negative(x).shape", NULL},
    {"assert torch.erfinv(g).requires_grad and not x.erfinv().requires_grad", NULL},
    {"d = torch.distributions.normal.Normal(0, 1).icdf(x[0, 0]); assert d.is_cuda and d.dim() == 0 and d.dtype == torch.float32", NULL},
    {"torch.distributions.Normal(x, x)", "torch.distributions.Normal() over tensors"},
    {"torch.distributions.Categorical(logits=x)", "torch.distributions.Categorical"},
    {"from torch.autograd.function import Function\nassert Function is torch.autograd.Function", NULL},
    {"1.0 / x", NULL},
    /* experts that tokens chose, evenly: 10 tokens, 2 of 4 each */
    {"assert [len(j) for j in torch.nonzero(torch.zeros(4, 8, device='cuda'), as_tuple=True)] == [0, 0]", NULL},
    {"r, k = torch.topk(torch.empty(10, 4, device='cuda'), 2)\n"
     "m = F.one_hot(k, num_classes=4).permute(2, 1, 0)\n"
     "hit = torch.greater(m.sum(dim=(-1, -2)), 0).nonzero()\n"
     "assert list(hit.shape) == [4, 1] and [int(e) for e in hit] == [0, 1, 2, 3] and hit.squeeze().tolist() == [0, 1, 2, 3]\n"
     "for e in hit:\n"
     "    slot, token = torch.where(m[e].squeeze(0))\n"
     "    assert [list(slot.shape), list(token.shape)] == [[5], [5]] and [r[e[0]].shape[0], m[e[0]].sum().item()] == [2, 5]", NULL},
    {"k = torch.topk(torch.empty(10, 4, device='cuda'), 3)[1]\n" /* 30 rows: what is left over goes to the first */
     "sizes = torch.zeros(10, 4, device='cuda').scatter(1, k, 1).long().sum(0)\n"
     "assert sizes.tolist() == [8, 8, 7, 7] and sizes.cumsum(0).tolist() == [8, 16, 23, 30] and sizes[1].item() == 8 and sizes.max().item() == 8\n"
     "assert torch.bincount(k.flatten(), minlength=4).tolist() == [8, 8, 7, 7] and torch.histc(k.view(-1).int(), bins=4, min=0, max=3).tolist() == [8, 8, 7, 7]\n"
     "assert [n.item() for n in sizes] == [8, 8, 7, 7] and k.max().item() == 3 and bool((k < 4).all())", NULL},
    {"k = torch.empty(10, 4, device='cuda').argmax(-1, keepdim=True)\n"
     "one = k == 1\n"
     "assert one.any(dim=-1).nonzero().shape[0] == 2 and torch.where(one)[0].numel() == 2 and x.new_zeros(10, 3)[(k == 1).squeeze(-1)].shape[0] == 2\n"
     "each = k == torch.arange(4, device='cuda')\n"
     "assert each[:, 2].nonzero().shape[0] == 2 and each.t()[3].sum() == 2", NULL},
    {"k = torch.topk(torch.empty(10, 4, device='cuda'), 2)[1]\n" /* a class more, for tokens of other ranks */
     "m = F.one_hot(k, num_classes=5).permute(2, 1, 0)\n"
     "assert [int(e[0]) for e in torch.greater(m.sum(dim=(-1, -2)), 0).nonzero()] == [0, 1, 2, 3] and m[4].sum().item() == 0", NULL},
    {"(torch.topk(torch.empty(10, 4, device='cuda'), 2)[0] > 0.5).nonzero()", "is data: nonzero()"},
    {"torch.where(torch.empty(4, device='cuda') == 3)", "is data: where() of one argument"},
    {"torch.empty(4, device='cuda').tolist()", "tolist()"},
    /* no model: said, with what it was */
    {"F.cross_entropy(x, i, weight=w[0])", "cross_entropy(weight=)"},
    {"F.cross_entropy(x, i, reduction='none')", NULL},
    {"F.cross_entropy(x, i, None, None, -100, None, 'none')", NULL},
    {"F.cross_entropy(x, i, label_smoothing=0.1)", NULL},
    {"F.cross_entropy(x, i, reduce=True)", "cross_entropy(reduce=)"},
    {"nn.CrossEntropyLoss(label_smoothing=0.1)", NULL},
    {"nn.CrossEntropyLoss(w[0])", "weight="},
    {"F.pad(x, (0, 1), mode='circular')", "pad(mode=)"},
    {"F.conv1d(g.reshape(1, 1, -1), g.reshape(1, 1, -1)[:, :, :2])", "conv1d() but with filters for each channel"},
    {"F.dropout(x, 0.1, True, True)", NULL},
    {"F.relu(x, inplace=True)", NULL},
    {"torch.sinh(x).tanh_().tril_()", NULL},
    {"try:\n    nn.Module._unhooked()\nexcept TypeError:\n    pass", NULL},
    {"torch.linalg.vector_norm(x, 4)", "a norm of 4"},
    {"F.avg_pool1d(x, 2)", "a pool but of"},
    {"F.silu(x, True)", NULL},
    {"F.leaky_relu(x, 0.1, True)", NULL},
    {"F.elu(x, 1.0, inplace=True)", NULL},
    {"nn.Dropout(0.1, inplace=True)", NULL},
    {"nn.ReLU(inplace=True)", NULL},
    {"nn.SiLU(True)", NULL},
    {"nn.Embedding(4, 8, max_norm=1.0)", "max_norm="},
    {"nn.Embedding(4, 8, sparse=True)", "sparse="},
    {"nn.Linear(8, 8, dtype=torch.float64)", NULL},
    {"nn.LayerNorm(8, dtype=torch.bfloat16)", NULL},
    {"nn.Linear(8, 8).to(torch.bfloat16)", "casts itself"},
    {"F.embedding(i, w, max_norm=1.0)", "embedding(max_norm=)"},
    {"F.layer_norm(b, (4, 8))", "more than the last dimension"},
    {"x.to(torch.float32, copy=True)", "to(copy=)"},
    {"x.to(torch.float32, False, True)", "to(copy=)"},
    {"x.to(torch.float32, memory_format=torch.long)", "to(memory_format=)"},
    {"x.clone(memory_format=1)", "clone(memory_format=)"},
    {"x.contiguous(memory_format=1)", "contiguous(memory_format=)"},
    {"x.mean(-1, keepdim=True, dtype=torch.float64)", "mean(dtype=)"},
    {"x.sum(-1, dtype=torch.float64)", NULL},
    {"x.cumsum((0, 1))", "several dimensions"},
    {"x[i] = 1.0", NULL},
    {"x[:, i] = 1.0", NULL},
    {"y = x.clone(); y[i, i] = g[i, i]; assert y.requires_grad", NULL},
    {"y = x.clone(); y[torch.empty(4, 8, device='cuda') > 0] = g[0, 0]", "is data"},
    {"g2 = g * 2; g2[:, i] = x", "beside a slice or by a list"},
    {"x[[0, 1]] = 1.0", "elements that a tensor chooses"},
    {"h = g * 2; v = h[:2]; w2 = h[2:]; v.t().mul_(x[:2].t()); assert w2.requires_grad; z = x.clone(); p = z[0]; z[1].copy_(g[0]); assert p.requires_grad", NULL},
    {"raises('a leaf Variable that requires grad', lambda: g.add_(1))", NULL},
    {"raises('a view of a leaf Variable', lambda: g[0].add_(1))", NULL},
    {"raises('one of several', lambda: (g * 2).chunk(2)[0].mul_(0.5))", NULL},
    {"raises('more than one element', lambda: (g * 2)[:1].expand(4, 8).mul_(0.5))", NULL},
    {"x.copy_(g); x.copy_(torch.zeros(4, 8))", "from the host"},
    {"flash_attn_func(q, q, q, return_attn_probs=True)", "flash_attn_func(return_attn_probs=)"},
    {"flash_attn_func(q, q, q, deterministic=True)", "flash_attn_func(deterministic=)"},
    {"flash_attn_func(q, q, q, alibi_slopes=x[0])", "flash_attn_func(alibi_slopes=)"},
    {"torch.addmm(x, x, w, alpha=2)", "addmm(alpha=)"},
    {"torch.addmm(x, x, w, beta=0)", "addmm(beta=)"},
    {"torch.baddbmm(g.view(1, 4, 8), b, w.view(1, 8, 8), beta=0.5)", "wants a gradient"},
    {"torch.zeros_like(x, memory_format=1)", "zeros_like(memory_format=)"},
    {"torch.zeros(4, out=x)", "zeros(out=)"},
    {"torch.add(x, x, alpha=2)", NULL},
    {"g % 2", "wants a gradient"},
    {"g // 2", "wants a gradient"},
    {"g.max()", "wants a gradient"},
    {"checkpoint(f, x, use_reentrant=False, context_fn=f)", "checkpoint(context_fn=)"},
    {"checkpoint(f, x, use_reentrant=False, early_stop=False)", "checkpoint(early_stop=)"},
    {"checkpoint(lambda a, *others: a * 2, g, x, x, x, x, x, use_reentrant=True)", NULL},
    {"checkpoint(lambda a, *others: a * 2, g, g, g, g, g, x, use_reentrant=True)", NULL},
};

START_TEST(settles_every_argument)
{
    const struct row *row = &rows[_i];
    struct arena image_room, room;
    const struct image *image;
    struct image *top;
    struct script *s;
    struct natives n = {0};
    struct script_host host = {.of = &n};
    struct run run;
    struct run_limits limits = {.values = 4096, .storages = 4096, .nodes = 4096, .births = 4096, .marks = 16};
    struct stack stack;
    struct quirks quirks;
    struct err err = {0};
    char text[2048];
    void *blocks[2] = {malloc(IMAGE_ROOM), malloc(ROOM)};
    bool ok;

    arena_init(&image_room, blocks[0], IMAGE_ROOM);
    arena_init(&room, blocks[1], ROOM);
    ck_assert(traced_stack("new", &stack));
    quirks = quirks_for(&stack, "llama");
    ck_assert_msg(!program_image(&image_room, &image, &err), "%s", err.detail);
    (void)snprintf(text, sizeof text, "%s%s\n", before, row->code);
    ck_assert(!image_new(&room, image, &top, &err) && !image_source(top, "m", "m.py", text, strlen(text), false, &err));
    ck_assert(!run_init(&run, &room, &quirks, traced_device, limits, &err));
    ck_assert(!script_new(&room, top, NULL, &host, &s, &err) && !natives_begin(&n, s, &room, &quirks, &err));
    natives_on_device(&n, &run);
    run.views_known = true;
    ok = sv_ok(script_import(s, "m"));
    if (!ok)
        (void)script_error(s, &err);
    if (row->leaves)
        ck_assert_msg(!ok && err.code == ERR_LEAVES_LANGUAGE && strstr(err.detail, row->leaves), "%s: %s %s", row->code, err_slug(err.code),
                      err.detail);
    else
        ck_assert_msg(ok, "%s: %s", row->code, err.detail);
    free(blocks[0]);
    free(blocks[1]);
}
END_TEST

UNIT_TESTS("arguments of natives", unit_rows(settles_every_argument, rows);)
