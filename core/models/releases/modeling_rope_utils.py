"""Rotary embeddings by earlier releases."""
from transformers.releases import of, quirks

if not quirks.inv_freq_kept_twice:

    @of(RotaryEmbedding)
    def keep(self, inv_freq):
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.original_inv_freq = self.inv_freq


if not quirks.longrope_on_device:

    def choose_long(self, position_ids, device, prefix="", kind=None):
        longest, reached = torch.max(position_ids) + 1, getattr(self, "reached", None)
        if (longest if reached is None else reached) > self.config.rope_parameters["original_max_position_embeddings"]:
            if not hasattr(self, f"{prefix}long_inv_freq"):
                setattr(self, f"{prefix}long_inv_freq", ROPE_INIT_FUNCTIONS[kind](self.config, device)[0])
            self.register_buffer(f"{prefix}inv_freq", getattr(self, f"{prefix}long_inv_freq"), persistent=False)
        else:
            setattr(self, f"{prefix}original_inv_freq", getattr(self, f"{prefix}original_inv_freq").to(device))
            self.register_buffer(f"{prefix}inv_freq", getattr(self, f"{prefix}original_inv_freq"), persistent=False)

elif not quirks.longrope_copied:

    def use_chosen(self, name, inv_freq):
        self.register_buffer(name, inv_freq, persistent=False)


if not quirks.rope_by_product:

    @of(RotaryEmbeddingOfKinds)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids, layer_type):
        wide = getattr(self, f"{layer_type}_inv_freq")[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        positions = position_ids[:, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(1, 2)
            angles = torch.cat((freqs, freqs), dim=-1)
            cos = angles.cos() * getattr(self, f"{layer_type}_attention_scaling")
            sin = angles.sin() * getattr(self, f"{layer_type}_attention_scaling")
        return self.tables(cos, sin, x.dtype)

    @of(HalfRotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        positions = position_ids[:, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(1, 2)
            cos = freqs.cos() * self.attention_scaling
            sin = freqs.sin() * self.attention_scaling
        return cos.to(x.dtype), sin.to(x.dtype)

    @of(RotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        positions = position_ids[:, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(1, 2)
            angles = self.angles(freqs)
            at_once = self.attention_scaling if quirks.rope_once and quirks.rope_scales_at_once else None
            cos = angles.cos() if at_once is None else angles.cos() * at_once
            sin = angles.sin() if at_once is None else angles.sin() * at_once
        if quirks.rope_once and not quirks.rope_scales_at_once:
            cos = cos * self.attention_scaling
            sin = sin * self.attention_scaling
        return self.tables(cos, sin, x.dtype)
