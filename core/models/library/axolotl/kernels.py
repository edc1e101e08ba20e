"""axolotl 0.19.0 kernels/lora.py, swiglu.py, geglu.py, put onto a model as monkeypatch/lora_kernels.py does: one autograd.Function for all adapted
linears of an input, in the place of peft's forwards. Factors are left out: they take no memory where addmm() multiplies by them.
"""
import torch

from _adapters import dropped, is_adapted, is_packed, parts, weight
from transformers.liger import bind
from transformers.models.cohere.modeling_cohere import CohereAttention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention
from transformers.releases import refuse
from torch._switches import addmm_into
from triton import launch

POINTER = "/training/lora/kernels"


def product(X, linear, turned, A, B, bias=None, X_drop=None):
    """matmul_lora(); turned: by the weight's transpose"""
    dtype, shape = X.dtype, X.shape
    W = weight(linear)
    if turned:
        W = W.t()
    if X.dim() == 3:
        X = X.view(-1, X.shape[-1])
        if X_drop is not None:
            X_drop = X_drop.view(-1, X_drop.shape[-1])
    out = torch.matmul(X, W)
    if is_packed(linear):
        del W
    if A is not None:
        A, B = A.t().to(dtype), B.t().to(dtype)
        inner = (X_drop if X_drop is not None else X) @ A
        if inner.dtype != B.dtype or out.dtype != B.dtype:
            raise RuntimeError("expected m1 and m2 to have the same dtype: these kernels multiply by adapters in the dtype of what comes in, and autocast has "
                               "cast that (weights in half under autocast, or none)")
        addmm_into(out, inner, B)
        del inner
    if bias is not None:
        out += bias
    return out.view(shape[0], shape[1], -1) if len(shape) == 3 else out


def gradients_of(A, B, X_t, grad, inner):
    """Of A and B, both transposed; X_t: the input, transposed"""
    d_A = torch.empty_like(A.t())
    d_B = torch.empty_like(B.t())
    addmm_into(d_A, X_t, inner)
    product = A @ X_t
    addmm_into(d_B, product, grad)
    return d_A, d_B


def cast(dtype, *factors):
    return [x.to(dtype) if x is not None else None for x in factors]


class LoRA_QKV(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, X_drop, q_A, q_B, k_A, k_B, v_A, v_B, q, k, v, biases):
        Q = product(X, q, True, q_A, q_B, biases[0], X_drop)
        K = product(X, k, True, k_A, k_B, biases[1], X_drop)
        V = product(X, v, True, v_A, v_B, biases[2], X_drop)
        ctx.save_for_backward(X, X_drop if X_drop is not None else X, *cast(X.dtype, q_A, q_B, k_A, k_B, v_A, v_B))
        ctx.linears = q, k, v
        ctx.has_dropout = X_drop is not None
        return Q, K, V

    @staticmethod
    def backward(ctx, q_grad, k_grad, v_grad):
        X, X_lora, *factors = ctx.saved_tensors
        batch, seq_len = X.shape[:2]
        grads = [q_grad.view(-1, q_grad.shape[-1]), k_grad.reshape(-1, k_grad.shape[-1]), v_grad.view(-1, v_grad.shape[-1])]
        X_lora = X_lora.view(-1, X_lora.shape[-1])
        X_lora_t = X_lora.t()
        pairs, inner, made = list(zip(factors[::2], factors[1::2])), [None] * 3, []
        for i, (A, B) in enumerate(pairs):
            if A is None:
                made += [None, None]
                continue
            inner[i] = grads[i] @ B
            made += gradients_of(A, B, X_lora_t, grads[i], inner[i])
        grad_X = None
        for grad, linear in zip(grads, ctx.linears):
            W = weight(linear)
            if grad_X is None:
                grad_X = torch.mm(grad, W)
            else:
                addmm_into(grad_X, grad, W)
            del W
        grad_X_drop = torch.zeros_like(X_lora) if ctx.has_dropout else None
        for i, (A, _) in enumerate(pairs):
            if A is not None:
                addmm_into(grad_X_drop if ctx.has_dropout else grad_X, inner[i], A)
        made = [x.t() if x is not None else None for x in made]
        grad_X = grad_X.view(batch, seq_len, -1)
        if grad_X_drop is not None:
            grad_X_drop = grad_X_drop.view(batch, seq_len, -1)
        return grad_X, grad_X_drop, *made, None, None, None, None


class LoRA_O(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, X_drop, A, B, linear, bias):
        XW = product(X, linear, True, A, B, bias, X_drop)
        ctx.save_for_backward(*cast(X.dtype, A, B), X, X_drop if X_drop is not None else X)
        ctx.linear = linear
        ctx.has_dropout = X_drop is not None
        return XW

    @staticmethod
    def backward(ctx, dY):
        A, B, X, X_lora = ctx.saved_tensors
        batch, seq_len, hd = X.shape
        dY = dY.reshape(-1, dY.shape[-1])
        X_lora = X_lora.reshape(-1, X_lora.shape[-1])
        d_A = d_B = inner = dX_drop = None
        if A is not None:
            inner = dY @ B
            d_A, d_B = gradients_of(A, B, X_lora.t(), dY, inner)
        W = weight(ctx.linear)
        dX = dY @ W
        del W
        if inner is not None and ctx.has_dropout:
            dX_drop = (inner @ A * 2.0).view(batch, seq_len, hd)
        elif inner is not None:
            addmm_into(dX, inner, A)
        return dX.view(batch, seq_len, hd), dX_drop, d_A.t() if d_A is not None else None, d_B.t() if d_B is not None else None, None, None


class LoRA_MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, X_drop, gate_A, gate_B, up_A, up_B, down_A, down_B, gate_proj, up_proj, down_proj, biases):
        gate = product(X, gate_proj, True, gate_A, gate_B, biases[0], X_drop)
        up = product(X, up_proj, True, up_A, up_B, biases[1], X_drop)
        hidden = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
        launch((gate, up), (hidden,))
        output = product(hidden, down_proj, True, down_A, down_B, biases[2])
        ctx.save_for_backward(X, X_drop if X_drop is not None else X, gate, up, *cast(X.dtype, gate_A, gate_B, up_A, up_B, down_A, down_B))
        ctx.linears = gate_proj, up_proj, down_proj
        ctx.has_dropout = X_drop is not None
        return output

    @staticmethod
    def backward(ctx, grad_output):
        gate_proj, up_proj, down_proj = ctx.linears
        X, X_lora, gate, up, gate_A, gate_B, up_A, up_B, down_A, down_B = ctx.saved_tensors
        batch, seq_len, hd = X.shape
        grad_output = grad_output.view(-1, grad_output.shape[-1])
        X_lora = X_lora.view(-1, X_lora.shape[-1])
        grad_gate = gate.view(-1, gate.shape[-1])
        grad_up = up.view(-1, up.shape[-1])
        h = product(grad_output, down_proj, False, down_B.t() if down_B is not None else None, down_A.t() if down_A is not None else None)
        launch((h, grad_gate, grad_up), (h, grad_gate, grad_up))
        made, inner_up, inner_gate, dX, dX_drop = [None] * 6, None, None, None, None
        if down_A is not None:
            inner_down = grad_output @ down_B
            made[4:] = gradients_of(down_A, down_B, h.t(), grad_output, inner_down)
        if up_A is not None:
            inner_up = grad_up @ up_B
            made[2:4] = gradients_of(up_A, up_B, X_lora.t(), grad_up, inner_up)
        if gate_A is not None:
            inner_gate = grad_gate @ gate_B
            made[:2] = gradients_of(gate_A, gate_B, X_lora.t(), grad_gate, inner_gate)
        if ctx.needs_input_grad[0]:
            W = weight(up_proj)
            dX = torch.matmul(grad_up, W)
            del W
            W = weight(gate_proj)
            addmm_into(dX, grad_gate, W)
            del W
            if ctx.has_dropout:
                dX_drop = torch.zeros_like(X_lora)
            for inner, A in (inner_up, up_A), (inner_gate, gate_A):
                if inner is not None:
                    addmm_into(dX_drop if ctx.has_dropout else dX, inner, A)
            if dX_drop is not None:
                dX_drop = dX_drop.view(batch, seq_len, hd)
            dX = dX.view(batch, seq_len, hd)
        return dX, dX_drop, *[x.t() if x is not None else None for x in made], None, None, None, None


def apply_qkv(self, X):
    q, k, v = self.q_proj, self.k_proj, self.v_proj
    if not (self.fuses_qkv and is_adapted(q) and is_adapted(k) and is_adapted(v)):
        query_states = q(X)
        key_states = k(X)
        value_states = v(X)
        return query_states, key_states, value_states
    q_A, q_B, q_b = parts(q)
    k_A, k_B, k_b = parts(k)
    v_A, v_B, v_b = parts(v)
    X_drop = dropped(q, X)
    Q, K, V = LoRA_QKV.apply(X, X_drop, q_A, q_B, k_A, k_B, v_A, v_B, q, k, v, (q_b, k_b, v_b))
    return Q, K, V


def apply_o(self, X):
    if not (self.fuses_o and is_adapted(self.o_proj)):
        return self.o_proj(X)
    A, B, bias = parts(self.o_proj)
    X_drop = dropped(self.o_proj, X)
    output = LoRA_O.apply(X, X_drop, A, B, self.o_proj, bias)
    return output


def mlp_forward(self, X):
    gate, up, down = self.gate_proj, self.up_proj, self.down_proj
    if not (is_adapted(gate) and is_adapted(up) and is_adapted(down)):
        return self.as_it_was(X)
    gate_A, gate_B, gate_b = parts(gate)
    up_A, up_B, up_b = parts(up)
    down_A, down_B, down_b = parts(down)
    X_drop = dropped(gate, X)
    out = LoRA_MLP.apply(X, X_drop, gate_A, gate_B, up_A, up_B, down_A, down_B, gate, up, down, (gate_b, up_b, down_b))
    return out


# What the rewritten forwards have in the place of their projections: all three, before what follows of each.
def project(self, x):
    query_states, key_states, value_states = self.apply_qkv(x)
    shape = (*x.shape[:-1], -1, self.head_dim)
    query_states = query_states.view(shape).transpose(1, 2)
    key_states = key_states.view(shape).transpose(1, 2)
    value_states = value_states.view(shape).transpose(1, 2)
    return query_states, key_states, value_states


def project_normed(self, x):
    query_states, key_states, value_states = self.apply_qkv(x)
    shape = (*x.shape[:-1], -1, self.head_dim)
    query_states = self.q_norm(query_states.view(shape)).transpose(1, 2)
    key_states = self.k_norm(key_states.view(shape)).transpose(1, 2)
    value_states = value_states.view(shape).transpose(1, 2)
    return query_states, key_states, value_states


def project_gated(self, x):
    rows = x.shape[:-1]
    query_states, key_states, value_states = self.apply_qkv(x)
    shape = (*rows, -1, self.head_dim)
    query_states, gate = torch.chunk(query_states.view(*rows, -1, self.head_dim * 2), 2, dim=-1)
    gate = gate.reshape(*rows, -1)
    query_states = self.q_norm(query_states.view(shape)).transpose(1, 2)
    key_states = self.k_norm(key_states.view(shape)).transpose(1, 2)
    value_states = value_states.view(shape).transpose(1, 2)
    return query_states, key_states, value_states, gate


def activation_of(config):
    """The first of these that the config has."""
    for name in "hidden_act", "hidden_activation", "mlp_hidden_act":
        if hasattr(config, name):
            activation = getattr(config, name)
            return "gelu" if activation and "gelu" in activation else activation


def patch_attention(attention, qkv, o):
    if not all(hasattr(attention, name) for name in ("q_proj", "k_proj", "v_proj", "o_proj")):
        return
    attention.fuses_qkv, attention.fuses_o = qkv, o
    attention.apply_qkv, attention.apply_o = apply_qkv.__get__(attention), apply_o.__get__(attention)
    attention.out = "apply_o"
    if isinstance(attention, Qwen3NextAttention):
        attention.project = project_gated.__get__(attention)
    elif isinstance(attention, Qwen3Attention):
        attention.project = project_normed.__get__(attention)
    elif isinstance(attention, CohereAttention):
        attention.project = project.__get__(attention)
    else:
        LlamaAttention.project = project  # whose classes may go on from it


def patch_mlp(mlp, activation):
    if not all(hasattr(mlp, name) for name in ("gate_proj", "up_proj", "down_proj")):
        return
    if activation not in ("silu", "gelu"):
        refuse(POINTER, f"axolotl raises NotImplementedError for the activation {activation} in lora_mlp_kernel: qkv and o alone")
    mlp.as_it_was = mlp.forward
    bind(mlp, mlp_forward)


def apply(model, qkv, o, mlp):
    if not hasattr(model.base_model, "layers"):
        refuse(POINTER, f"axolotl raises NotImplementedError for {model.config.model_type}: lora_mlp_kernel false")
    for layer in model.base_model.layers:
        if (qkv or o) and hasattr(layer, "self_attn"):
            patch_attention(layer.self_attn, qkv, o)
        if mlp and hasattr(layer, "mlp"):
            patch_mlp(layer.mlp, activation_of(model.config))
