"""Biases that fall with distance, by earlier releases: slopes in the same function."""
from transformers.releases import quirks

if not quirks.bloom_alibi_of_length:

    def powers_of(heads, count, step, device):
        base = torch.tensor(2 ** (-(2 ** -(math.log2(heads) - 3))), device=device, dtype=torch.float32)
        powers = torch.arange(1, 1 + count, step, device=device, dtype=torch.int32)
        return base, powers, torch.pow(base, powers)

    def build_alibi_tensor(attention_mask, heads, dtype):
        batch, seq = attention_mask.shape
        power, device = 2 ** math.floor(math.log2(heads)), attention_mask.device
        base, powers, slopes = powers_of(power, power, 1, device)
        if power != heads:
            extra_base, extra_powers, extra = powers_of(2 * power, 2 * min(power, heads - power), 2, device)
            slopes = torch.cat([slopes, extra], dim=0)
            del extra
        positions = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
        alibi = slopes[..., None] * positions
        return alibi.reshape(batch * heads, 1, seq).to(dtype)
