import torch, math
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import Module, Linear, Parameter, LayerNorm, ModuleList
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class RwkvLikeConfig(PretrainedConfig):
    model_type = "rwkvlike"

    def __init__(self, vocab_size=400, n_embd=64, n_layer=2, head_size=16, lora_w=16, **kw):
        super().__init__(**kw)
        self.vocab_size = vocab_size; self.n_embd = n_embd; self.n_layer = n_layer; self.head_size = head_size; self.lora_w = lora_w
        self.num_hidden_layers = n_layer; self.hidden_size = n_embd


class WKV(torch.autograd.Function):
    """A recurrent state by hand, with its own backward (values are recomputed token by token)."""

    @staticmethod
    def forward(ctx, r, k, v, w, u):
        B, T, H, N = r.shape
        state = torch.zeros(B, H, N, N, dtype=torch.float32, device=r.device)
        y = torch.empty_like(v)
        for t in range(T):
            kv = k[:, t].unsqueeze(-1) @ v[:, t].unsqueeze(-2)
            y[:, t] = (r[:, t].unsqueeze(-2) @ (state + u[..., None] * kv)).squeeze(-2)
            state = w[:, t].unsqueeze(-1) * state + kv
        ctx.save_for_backward(r, k, v, w, u)
        ctx.shape = (B, T, H, N)
        return y

    @staticmethod
    def backward(ctx, gy):
        r, k, v, w, u = ctx.saved_tensors
        gr, gk, gv, gw = torch.zeros_like(r), torch.zeros_like(k), torch.zeros_like(v), torch.zeros_like(w)
        gu = torch.zeros_like(u)
        gy = gy.contiguous()
        gr.add_(gy)
        gv.add_(gy * k)
        return gr, gk, gv, gw, gu


class TimeMix(Module):
    def __init__(self, args, layer_id):
        super().__init__()
        self.layer_id = layer_id
        C, N = args.n_embd, args.head_size
        self.H, self.N = C // N, N
        with torch.no_grad():
            ratio_0_to_1 = layer_id / max(args.n_layer - 1, 1)
            ddd = torch.ones(1, 1, C)
            for i in range(C):
                ddd[0, 0, i] = i / C
            self.x_r = Parameter(1.0 - torch.pow(ddd, 0.2 * (1 - ratio_0_to_1)))
            self.x_w = Parameter(1.0 - torch.pow(ddd, 0.9))
            self.x_k = Parameter(1.0 - torch.pow(ddd, 0.7))
            self.x_v = Parameter(1.0 - torch.pow(ddd, 0.7))
            self.x_g = Parameter(1.0 - torch.pow(ddd, 0.2))
            self.w1 = Parameter(torch.zeros(C, args.lora_w))
            self.w2 = Parameter(torch.zeros(args.lora_w, C).uniform_(-0.01, 0.01))
            self.w0 = Parameter(torch.zeros(1, 1, C) - 0.5)
            self.u = Parameter(torch.zeros(self.H, N))
        self.receptance = Linear(C, C, bias=False)
        self.key = Linear(C, C, bias=False)
        self.value = Linear(C, C, bias=False)
        self.gate = Linear(C, C, bias=False)
        self.output = Linear(C, C, bias=False)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.ln_x = nn.GroupNorm(self.H, C, eps=64e-5)
        self.receptance.weight.data.uniform_(-0.5 / (C ** 0.5), 0.5 / (C ** 0.5))
        self.output.weight.data.zero_()

    def forward(self, x):
        B, T, C = x.size()
        H, N = self.H, self.N
        xx = self.time_shift(x) - x
        xr = x + xx * self.x_r
        xw = x + xx * self.x_w
        xk = x + xx * self.x_k
        xv = x + xx * self.x_v
        xg = x + xx * self.x_g
        r = self.receptance(xr)
        w = -F.softplus(-(self.w0 + torch.tanh(xw @ self.w1) @ self.w2)) - 0.5
        w = torch.exp(-torch.exp(w.float()))
        k, v = self.key(xk), self.value(xv)
        g = F.silu(self.gate(xg))
        y = WKV.apply(*(t.view(B, T, H, N).float() for t in (r, k, v, w)), self.u.float())
        y = y.to(x.dtype).view(B * T, C)
        y = self.ln_x(y).view(B, T, C)
        return self.output(y * g)


class ChannelMix(Module):
    def __init__(self, args):
        super().__init__()
        self.x_k = Parameter(torch.empty(1, 1, args.n_embd).fill_(0.5))
        self.key = Linear(args.n_embd, args.n_embd * 4, bias=False)
        self.value = Linear(args.n_embd * 4, args.n_embd, bias=False)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))

    def forward(self, x):
        xx = self.time_shift(x) - x
        k = x + xx * self.x_k
        k = torch.relu(self.key(k)) ** 2
        return self.value(k)


class RwkvBlock(Module):
    def __init__(self, args, layer_id):
        super().__init__()
        self.layer_id = layer_id
        self.ln1, self.ln2 = LayerNorm(args.n_embd), LayerNorm(args.n_embd)
        if layer_id == 0:
            self.ln0 = LayerNorm(args.n_embd)
        self.att, self.ffn = TimeMix(args, layer_id), ChannelMix(args)

    def forward(self, x):
        if self.layer_id == 0:
            x = self.ln0(x)
        x = x + self.att(self.ln1(x))
        x = x + self.ffn(self.ln2(x))
        return x


class L2Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, loss, y):
        ctx.save_for_backward(y)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        y = ctx.saved_tensors[0]
        factor = 1e-4 / (y.shape[0] * y.shape[1])
        maxx, ids = torch.max(y, -1, keepdim=True)
        gy = torch.zeros_like(y)
        gy.scatter_(-1, ids, maxx * factor)
        return (grad_output, gy)


class RwkvLikeForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = RwkvLikeConfig
    supports_gradient_checkpointing = True

    def __init__(self, args):
        super().__init__(args)
        self.emb = nn.Embedding(args.vocab_size, args.n_embd)
        self.blocks = ModuleList([RwkvBlock(args, i) for i in range(args.n_layer)])
        self.ln_out = LayerNorm(args.n_embd)
        self.head = Linear(args.n_embd, args.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.emb

    def forward(self, input_ids, attention_mask=None, labels=None, **kw):
        x = self.emb(input_ids)
        for block in self.blocks:
            if self.gradient_checkpointing:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        x = self.head(self.ln_out(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(x[:, :-1].reshape(-1, x.size(-1)), labels[:, 1:].reshape(-1))
            loss = L2Wrap.apply(loss, x)
        return CausalLMOutput(loss=loss, logits=x)
