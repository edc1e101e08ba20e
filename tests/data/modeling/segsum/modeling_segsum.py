import torch
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.configuration_utils import PretrainedConfig
from transformers.modeling_outputs import CausalLMOutputWithPast


class SegsumConfig(PretrainedConfig):
    model_type = "segsum"

    def __init__(self, vocab_size=1024, hidden_size=128, num_hidden_layers=2, num_heads=4, state=16, chunk=16, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_heads = num_heads
        self.state = state
        self.chunk = chunk
        super().__init__(**kwargs)


def segment_sum(x):
    n = x.size(-1)
    x = x[..., None].expand(*x.size(), n)
    mask = torch.tril(torch.ones(n, n, device=x.device, dtype=torch.bool), diagonal=-1)
    x = x.masked_fill(~mask, 0)
    total = torch.cumsum(x, dim=-2)
    mask = torch.tril(torch.ones(n, n, device=x.device, dtype=torch.bool), diagonal=0)
    return total.masked_fill(~mask, -torch.inf)


class Mixer(nn.Module):
    """A state-space layer in chunks: within a chunk by decays, between chunks by a short scan."""

    def __init__(self, config):
        super().__init__()
        self.heads, self.state, self.chunk = config.num_heads, config.state, config.chunk
        self.wide = config.hidden_size // config.num_heads
        self.x_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.bc_proj = nn.Linear(config.hidden_size, 2 * self.heads * self.state, bias=False)
        self.dt_proj = nn.Linear(config.hidden_size, self.heads)
        self.a_log = nn.Parameter(torch.zeros(self.heads))
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden):
        b, n, _ = hidden.shape
        x = self.x_proj(hidden).view(b, n // self.chunk, self.chunk, self.heads, self.wide)
        keys, queries = self.bc_proj(hidden).chunk(2, dim=-1)
        keys = keys.view(b, -1, self.chunk, self.heads, self.state).float()
        queries = queries.view(b, -1, self.chunk, self.heads, self.state).float()
        dt = nn.functional.softplus(self.dt_proj(hidden).float())
        a = (-torch.exp(self.a_log.float()) * dt).view(b, -1, self.chunk, self.heads).permute(0, 3, 1, 2)
        x = x.float() * dt.view(b, -1, self.chunk, self.heads, 1)
        a_cumsum = torch.cumsum(a, dim=-1)
        decay = torch.exp(segment_sum(a)).permute(0, 2, 3, 4, 1)
        scores = torch.einsum("bclhn,bcshn->bclsh", queries, keys)
        y = torch.einsum("bclsh,bcshp->bclhp", scores * decay, x)
        rest = torch.exp(a_cumsum[:, :, :, -1:] - a_cumsum).permute(0, 2, 3, 1)[..., None]
        states = torch.einsum("bclhn,bclhp->bchpn", keys * rest, x)
        between = torch.exp(segment_sum(a_cumsum[..., -1])).transpose(1, 3)
        states = torch.einsum("bzch,bzhpn->bchpn", between, states)
        y = y + torch.einsum("bclhn,bchpn,bhcl->bclhp", queries, states, torch.exp(a_cumsum))
        return self.o_proj(y.reshape(b, n, -1).to(hidden.dtype))


class SegsumForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = SegsumConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.mixers = nn.ModuleList([Mixer(config) for _ in range(config.num_hidden_layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        h = self.embed(input_ids)
        for norm, mixer in zip(self.norms, self.mixers):
            if self.gradient_checkpointing and self.training:
                h = h + self._gradient_checkpointing_func(mixer.__call__, norm(h))
            else:
                h = h + mixer(norm(h))
        logits = self.head(h)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits)
