"""A cache in checkpointed layers, buffers that forward puts others in the place of, numpy's names of parameters, a head below the top."""
import torch
from torch import nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class ReplacedConfig(PretrainedConfig):
    model_type = "replaced_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=2, use_cache=True, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.use_cache = vocab_size, hidden_size, num_hidden_layers, use_cache
        super().__init__(tie_word_embeddings=False, **kwargs)


class Rotary(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("table", torch.ones(300, d), persistent=False)
        self.known = 0

    def forward(self, x):
        if x.shape[1] > self.known:
            self.known = x.shape[1]
            self.table = torch.arange(2 * self.known, device=x.device).float()[:, None].expand(-1, x.shape[-1]).cos()
        return self.table[: x.shape[1]].to(x.dtype)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.rotary = Rotary(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, use_cache):
        if x.is_inference() or x.is_sparse or x.is_meta:
            raise ValueError("not in training")
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        table = self.rotary(x)
        q, k = q * table, k * table
        scores = torch.softmax(q @ k.transpose(1, 2), dim=-1)
        scores = scores / scores.sum(axis=-1, keepdims=True)
        out = self.out(torch.cat([scores @ v, x.mean(axis=-1, keepdims=True)], axis=-1)[..., :-1])
        return (x + out, (k, v)) if use_cache else (x + out,)


class Scores(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size)
        self.linear = nn.Linear(config.hidden_size, config.vocab_size)
        self.register_buffer("unused", torch.ones(1), persistent=False)

    def forward(self, x):
        return self.linear(self.norm(x))


class ReplacedForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = ReplacedConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)] + [Scores(config)])
        self.gradient_checkpointing = False
        self.post_init()

    def _init_weights(self, module):
        pass

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.layers[-1].linear

    def forward(self, input_ids=None, attention_mask=None, labels=None, use_cache=None, **kwargs):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        x, presents = self.embed(input_ids), ()
        for layer in self.layers[:-1]:
            if self.gradient_checkpointing and self.training:
                out = self._gradient_checkpointing_func(layer.__call__, x, use_cache)
            else:
                out = layer(x, use_cache)
            x = out[0]
            if use_cache:
                presents = presents + (out[1],)
        logits = self.layers[-1](x)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=presents if use_cache else None)
