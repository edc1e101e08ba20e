"""The gated delta rule by earlier releases."""
from transformers.releases import of, quirks, refuse

if not quirks.heads_repeated_in_rule:

    def in_full(query, key, value, beta, decay):
        """The layer repeats the heads."""
        if quirks.delta_rule_by_triangles:
            query, key, value, beta, decay = [
                x.transpose(1, 2).to(torch.float32, memory_format=torch.contiguous_format) for x in (query, key, value, beta, decay)]
            query = l2norm(query)
            key = l2norm(key)
            return query, key, value, beta, decay
        query = l2norm(query)
        key = l2norm(key)
        query, key, value, beta, decay = [x.transpose(1, 2).contiguous().to(torch.float32) for x in (query, key, value, beta, decay)]
        return query, key, value, beta, decay


if not quirks.delta_rule_by_triangles:

    def chunk_gated_delta_rule(query, key, value, g, beta, initial_state, output_final_state, chunk_size=64):
        """The system of a chunk is solved row by row, in place."""
        dtype = query.dtype
        query, key, value, beta, g = in_full(query, key, value, beta, g)
        batch_size, num_heads, sequence_length, k_head_dim = key.shape
        v_head_dim = value.shape[-1]
        pad_size = (chunk_size - sequence_length % chunk_size) % chunk_size
        query = F.pad(query, (0, 0, 0, pad_size))
        key = F.pad(key, (0, 0, 0, pad_size))
        value = F.pad(value, (0, 0, 0, pad_size))
        beta = F.pad(beta, (0, pad_size))
        g = F.pad(g, (0, pad_size))
        scale = 1 / (query.shape[-1] ** 0.5)
        query = query * scale
        v_beta = value * beta.unsqueeze(-1)
        k_beta = key * beta.unsqueeze(-1)
        query, key, value, k_beta, v_beta = [x.reshape(x.shape[0], x.shape[1], -1, chunk_size, x.shape[-1]) for x in (query, key, value, k_beta, v_beta)]
        g = g.reshape(g.shape[0], g.shape[1], -1, chunk_size)
        mask = torch.triu(torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device), diagonal=0)
        g = g.cumsum(dim=-1)
        decay_mask = ((g.unsqueeze(-1) - g.unsqueeze(-2)).tril().exp().float()).tril()
        attn = -((k_beta @ key.transpose(-1, -2)) * decay_mask).masked_fill(mask, 0)
        for i in range(1, chunk_size):
            row = attn[..., i, :i].clone()
            sub = attn[..., :i, :i].clone()
            attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)
        attn = attn + torch.eye(chunk_size, dtype=attn.dtype, device=attn.device)
        value = attn @ v_beta
        k_cumdecay = attn @ (k_beta * g.exp().unsqueeze(-1))
        if initial_state is not None:
            state = initial_state.to(value)
        else:
            state = torch.zeros(batch_size, num_heads, k_head_dim, v_head_dim, dtype=value.dtype, device=value.device)
        out = torch.zeros_like(value)
        mask = torch.triu(torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device), diagonal=1)
        for i in range((sequence_length + pad_size) // chunk_size):
            q_i, k_i, v_i = query[:, :, i], key[:, :, i], value[:, :, i]
            attn = q_i @ k_i.transpose(-1, -2) * decay_mask[:, :, i]
            if quirks.delta_rule_masks_twice:
                attn = attn.masked_fill_(mask, 0)
            v_prime = k_cumdecay[:, :, i] @ state
            v_new = v_i - v_prime
            attn_inter = (q_i * g[:, :, i, :, None].exp()) @ state
            out[:, :, i] = attn_inter + attn @ v_new
            state = state * g[:, :, i, -1, None, None].exp() + (k_i * (g[:, :, i, -1, None] - g[:, :, i]).exp()[..., None]).transpose(-1, -2) @ v_new
        state = None if not output_final_state else state
        out = out.reshape(out.shape[0], out.shape[1], -1, out.shape[-1])
        out = out[:, :, :sequence_length]
        out = out.transpose(1, 2).contiguous().to(dtype)
        return out, state


if not quirks.heads_repeated_in_rule:

    @of(GatedDeltaNet)
    def ruled(self, query, key, g):
        groups = self.num_v_heads // self.num_k_heads
        if groups > 1:
            query = query.repeat_interleave(groups, dim=2)
            key = key.repeat_interleave(groups, dim=2)
        return query, key, g


if quirks.fla_installed:
    if not quirks.mixer_of_functions:
        refuse("/stack/fla", "its kernels are modelled from transformers 5.15 on")
    from transformers.scans.delta_rule import chunk_gated_delta_rule

    def recurrent_gated_delta_rule(*args):
        refuse("/stack/fla", "what flash-linear-attention keeps for the next token is not modelled: left out, PyTorch's own operators run")
