"""codegen by earlier releases."""
from transformers.modeling_gpt import keeps_causal_buffer
from transformers.releases import of, quirks

if quirks.codegen_masks_in_place or not quirks.gptj_cache_class:

    @of(CodeGenAttention)
    def causal_buffers(self, length):
        keeps_causal_buffer(self, "causal_mask", length)

    @of(CodeGenAttention)
    def _attn(self, query, key, value, attention_mask=None):
        length, buffered = query.size(-2), not quirks.gptj_cache_class
        causal = self.causal_mask[:, :, :length, :length] if buffered else None
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        weights = torch.matmul(query, key.transpose(-1, -2))
        if buffered:
            weights = self.scaled(weights)
            least = torch.tensor(torch.finfo(weights.dtype).min, dtype=weights.dtype, device=weights.device)
            weights = torch.where(causal, weights, least)
        if attention_mask is not None:
            if quirks.codegen_masks_in_place:
                weights += attention_mask
            else:
                weights = weights + attention_mask
        if not buffered:
            weights = self.scaled(weights)
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.to(value.dtype)
        weights = self.attn_dropout(weights)
        return torch.matmul(weights, value), weights


if not quirks.gptj_cache_class:
    CodeGenAttention.cached = GPTJAttention.cached
