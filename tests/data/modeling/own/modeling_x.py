"""A model of nobody's: autograd.Function in three shapes, and operators that no family has."""
import torch
from torch import nn
from torch.autograd import Function
from transformers.activations import ACT2FN
from transformers.modeling_utils import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast
from .configuration_x import XConfig


class Scale(Function):
    @staticmethod
    def forward(ctx, x, weight, factor):
        ctx.save_for_backward(x, weight)
        ctx.factor = factor
        y = x * weight * factor
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = grad * weight * ctx.factor
        if ctx.needs_input_grad[1]:
            grad_w = grad * x * ctx.factor
        return grad_x, grad_w, None


class Two(Function):
    @staticmethod
    def forward(ctx, x, y):
        out = torch.sigmoid(x)
        other = x + y
        ctx.save_for_backward(out)
        return out, other

    @staticmethod
    def backward(ctx, grad, grad_other):
        (out,) = ctx.saved_tensors
        g = grad * out * (1 - out)
        return g + grad_other, grad_other


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class XLayer(GradientCheckpointingLayer):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.hidden_size, 512)
        self.down = nn.Linear(512, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.weight = nn.Parameter(torch.ones(config.hidden_size))
        names = ("gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_python_tanh", "gelu", "hardswish", "laplace", "leaky_relu", "mish",
                 "quick_gelu", "relu2", "relu6", "sigmoid", "tanh")
        self.activations = nn.ModuleList([ACT2FN[name] for name in names])

    def forward(self, x, **kwargs):
        residual = x
        x = self.norm(x)
        x = Scale.apply(x, self.weight, 0.5)
        x = self.up(x)
        a = torch.exp(x * -1.0)
        b = torch.erf(x)
        c = torch.sqrt(a)
        d = nn.functional.relu6(c) + torch.square(b)
        x, y = Two.apply(d, a)
        x = x * torch.log(y)
        x = Straight.apply(x)
        x = torch.sigmoid(x) + nn.functional.silu(x)
        for activation in self.activations:
            x = x + activation(x)
        x = nn.functional.elu(x) + nn.functional.softplus(x)
        x = self.down(x)
        return residual + x


class XPreTrainedModel(PreTrainedModel):
    config_class = XConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["XLayer"]
    _supports_sdpa = True
    _supports_flash_attn = True


class XModel(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([XLayer(config) for _ in range(config.num_hidden_layers)])
        self.table = nn.Buffer(torch.tril(torch.ones(512, 512)), persistent=False)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        x = self.embed_tokens(input_ids)
        ids = torch.arange(x.shape[1], device=x.device).unsqueeze(0).repeat(x.shape[0], 1)
        rows = torch.gather(self.table.to(x.device).unsqueeze(0).repeat(x.shape[0], 1, 1), 1, ids.unsqueeze(-1).repeat(1, 1, 256))
        x = x + torch.repeat_interleave(rows[:, :, ::2], 2, 2).to(x.dtype)
        for layer in self.layers:
            x = layer(x)
        return x


class XForCausalLM(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        x = self.model(input_ids, attention_mask=attention_mask)
        logits = self.lm_head(x)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits)


causal_lm = XForCausalLM
