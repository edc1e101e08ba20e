"""Mixers of Mamba 2 by earlier releases."""
from transformers.releases import of, quirks, refuse

if not quirks.gated_norm_by_groups:

    def forward(self, hidden_states, gate=None):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        if gate is not None:
            hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(dtype)

    RMSNormGated.forward = forward


def stepped(self, dt):
    if self.masks_before:
        return torch.clamp(dt, self.time_step_limit[0], self.time_step_limit[1])
    return torch.clamp(dt, self.time_step_limit[0])


def chunk_scan_by_sums(hidden_states, dt, A, B, C, chunk_size, D, dt_bias, initial_states, dt_limit, return_final_states):
    batch_size, sequence_length, num_heads, head_dim = hidden_states.shape
    num_groups = B.shape[2]
    dt = dt + dt_bias.to(dt.dtype)
    dt = F.softplus(dt)
    dt = torch.clamp(dt, min=dt_limit[0], max=dt_limit[1])
    hidden_states = hidden_states.float()
    B = B.float().repeat_interleave(num_heads // num_groups, dim=2, output_size=num_heads)
    C = C.float().repeat_interleave(num_heads // num_groups, dim=2, output_size=num_heads)
    pad_size = (chunk_size - sequence_length % chunk_size) % chunk_size
    D_residual = D[..., None] * pad_tensor_by_size(hidden_states, pad_size)
    hidden_states = hidden_states * dt[..., None].float()
    A = A.to(hidden_states.dtype) * dt.float()
    hidden_states, A, B, C = [reshape_into_chunks(t, pad_size, chunk_size) for t in (hidden_states, A, B, C)]
    A = A.permute(0, 3, 1, 2)
    A_cumsum = torch.cumsum(A, dim=-1)
    L = torch.exp(segment_sum(A))
    G = (C[:, :, :, None, :, :] * B[:, :, None, :, :, :]).sum(dim=-1)
    M = (G[..., None] * L.permute(0, 2, 3, 4, 1)[..., None]).sum(dim=-1)
    Y_diag = (M[..., None] * hidden_states[:, :, None]).sum(dim=3)
    decay_states = torch.exp(A_cumsum[:, :, :, -1:] - A_cumsum)
    B_decay = B * decay_states.permute(0, -2, -1, 1)[..., None]
    states = (B_decay[..., None, :] * hidden_states[..., None]).sum(dim=2)
    if initial_states is not None:
        previous_states = initial_states[:, None].to(dtype=states.dtype, device=states.device)
    else:
        previous_states = torch.zeros_like(states[:, :1])
    states = torch.cat([previous_states, states], dim=1)
    decay_chunk = torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0)))).transpose(1, 3)
    new_states = (decay_chunk[..., None, None] * states[:, :, None, ...]).sum(dim=1)
    states, final_state = new_states[:, :-1], new_states[:, -1]
    state_decay_out = torch.exp(A_cumsum)
    C_times_states = C[..., None, :] * states[:, :, None, ...]
    Y_off = C_times_states.sum(-1) * state_decay_out.permute(0, 2, 3, 1)[..., None]
    output = Y_diag + Y_off
    output = output.reshape(batch_size, -1, num_heads, head_dim)
    output = output + D_residual
    if pad_size > 0:
        output = output[:, :sequence_length]
    return (output, final_state) if return_final_states else output


if not quirks.scan_by_products:
    mamba2_chunk_scan = chunk_scan_by_sums

if not quirks.mixer_of_functions:
    Mamba2Mixer.rebinds_input, Mamba2Mixer.masks_before, Mamba2Mixer.begins_at_zeros = False, True, False

    def torch_forward(self, input_states, cache_params=None, attention_mask=None, **kwargs):
        """One function, whose names hold what they hold to its end."""
        if cache_params is not None:
            refuse("/stack/transformers", "states of a convolution and of a scan are modelled from transformers 5.15 on")
        batch_size, seq_len, _ = input_states.shape
        dtype = input_states.dtype
        input_states = apply_mask_to_padding_states(input_states, attention_mask)
        input_states = self.before(input_states)
        projected_states = self.in_proj(input_states)
        projected_states = self.after(projected_states)
        gate, mixed, dt = projected_states.split([self.intermediate_size, self.conv_dim, self.num_heads], dim=-1)
        _state = None
        if self.begins_at_zeros:
            _state = torch.zeros((batch_size, self.num_heads, self.head_dim, self.ssm_state_size), device=mixed.device, dtype=dtype)
        mixed = mixed.transpose(1, 2)
        mixed = ACT2FN[self.activation](self.conv1d(mixed)[..., :seq_len].transpose(1, 2))
        if not self.begins_at_zeros:
            mixed = apply_mask_to_padding_states(mixed, attention_mask)
        wide = self.n_groups * self.ssm_state_size
        hidden_states, B, C = torch.split(mixed, [self.intermediate_size, wide, wide], dim=-1)
        if self.rebinds_input:
            input_states = None
        if not self.masks_before:
            dtype = dtype if attention_mask is None or self.begins_at_zeros else mixed.dtype
            mixed = None
        A = -torch.exp(self.A_log.float())
        dt = F.softplus(dt + self.dt_bias)
        dt = stepped(self, dt)
        hidden_states = hidden_states.reshape(batch_size, seq_len, -1, self.head_dim).float()
        B = B.reshape(batch_size, seq_len, -1, self.ssm_state_size).float()
        C = C.reshape(batch_size, seq_len, -1, self.ssm_state_size).float()
        B = B.repeat_interleave(self.num_heads // self.n_groups, dim=2, output_size=self.num_heads)
        C = C.repeat_interleave(self.num_heads // self.n_groups, dim=2, output_size=self.num_heads)
        pad_size = (self.chunk_size - seq_len % self.chunk_size) % self.chunk_size
        D_residual = self.D[..., None] * pad_tensor_by_size(hidden_states, pad_size)
        hidden_states = hidden_states * dt[..., None]
        A = A.to(hidden_states.dtype) * dt
        hidden_states, A, B, C = [reshape_into_chunks(t, pad_size, self.chunk_size) for t in (hidden_states, A, B, C)]
        A = A.permute(0, 3, 1, 2)
        A_cumsum = torch.cumsum(A, dim=-1)
        L = torch.exp(segment_sum(A))
        G_intermediate = C[:, :, :, None, :, :] * B[:, :, None, :, :, :]
        G = G_intermediate.sum(dim=-1)
        M_intermediate = G[..., None] * L.permute(0, 2, 3, 4, 1)[..., None]
        M = M_intermediate.sum(dim=-1)
        Y_diag = (M[..., None] * hidden_states[:, :, None]).sum(dim=3)
        decay_states = torch.exp(A_cumsum[:, :, :, -1:] - A_cumsum)
        B_decay = B * decay_states.permute(0, -2, -1, 1)[..., None]
        states = self.left(B_decay, hidden_states)
        previous_states = torch.zeros_like(states[:, :1])
        states = torch.cat([previous_states, states], dim=1)
        _permuted = None if self.masks_before else states
        decay_chunk = torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0))))
        decay_chunk = decay_chunk.transpose(1, 3)
        new_states = (decay_chunk[..., None, None] * states[:, :, None, ...]).sum(dim=1)
        states, _state = new_states[:, :-1], new_states[:, -1]
        state_decay_out = torch.exp(A_cumsum)
        C_times_states = C[..., None, :] * states[:, :, None, ...]
        state_decay_out_permuted = state_decay_out.permute(0, 2, 3, 1)
        Y_off = C_times_states.sum(-1) * state_decay_out_permuted[..., None]
        y = Y_diag + Y_off
        y = y.reshape(batch_size, -1, self.num_heads, self.head_dim)
        y = y + D_residual
        if pad_size > 0:
            y = y[:, :seq_len, :, :]
        y = y.reshape(batch_size, seq_len, -1)
        scan_output = self.gated(y, gate)
        contextualized_states = self.out_proj(scan_output.to(dtype))
        return contextualized_states

    def left(self, B_decay, hidden_states):
        """What a chunk leaves to the next."""
        return (B_decay[..., None, :] * hidden_states[..., None]).sum(dim=2)

    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        if self.masks_before and not self.rebinds_input:
            hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        return torch_forward(self, hidden_states, cache_params, attention_mask)

    Mamba2Mixer.forward, Mamba2Mixer.left = forward, left


if quirks.mamba_ssm_installed:
    if not quirks.mixer_of_functions:
        refuse("/stack/mamba_ssm", "its kernels are modelled from transformers 5.15 on")
    from transformers.scans.chunk_scan import chunk_scan_combined, split_conv1d_scan_combined

    def mamba2_chunk_scan(hidden_states, dt, A, B, C, chunk_size, D, dt_bias, initial_states, dt_limit, return_final_states):
        return chunk_scan_combined(hidden_states, dt, A, B, C, chunk_size, D, dt_bias, initial_states, dt_limit, return_final_states)

    def mamba2_selective_state_update(*args, **kwargs):
        refuse("/stack/mamba_ssm", "what mamba-ssm keeps for the next token is not modelled: left out, PyTorch's own operators run")

    @of(Mamba2Mixer)
    def fused(self, projected_states, A):
        if not quirks.causal_conv1d_installed:
            refuse("/stack/mamba_ssm", "mamba_split_conv1d_scan_combined raises without causal-conv1d: name stack.causal_conv1d too")
        return split_conv1d_scan_combined(projected_states, self.conv1d.weight.squeeze(1), self.conv1d.bias, self.dt_bias, A, self.D, self.chunk_size,
                                          self.activation, getattr(self.norm, "weight", None), self.out_proj.weight, self.out_proj.bias, self.head_dim,
                                          self.n_groups)
