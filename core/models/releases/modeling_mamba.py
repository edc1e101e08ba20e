"""The mixer of Mamba by earlier releases: one function, which scans."""
from transformers.releases import of, quirks, refuse

if not quirks.mixer_of_functions:

    @of(MambaMixer)
    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        return slow_forward(self, hidden_states, cache_params, attention_mask)

    def slow_forward(self, input_states, cache_params=None, attention_mask=None):
        if cache_params is not None:
            refuse("/stack/transformers", "states of a convolution and of a scan are modelled from transformers 5.15 on")
        batch_size, seq_len, _ = input_states.shape
        dtype = input_states.dtype
        projected_states = self.in_proj(input_states).transpose(1, 2)
        hidden_states, gate = projected_states.chunk(2, dim=1)
        if attention_mask is not None:
            hidden_states = hidden_states * attention_mask.unsqueeze(1)
        ssm_state = torch.zeros((batch_size, self.intermediate_size, self.ssm_state_size), device=hidden_states.device, dtype=dtype)
        hidden_states = ACT2FN[self.activation](self.conv1d(hidden_states)[..., :seq_len])
        if attention_mask is not None:
            hidden_states = hidden_states * attention_mask.unsqueeze(1)
        ssm_parameters = self.x_proj(hidden_states.transpose(1, 2))
        time_step, B, C = torch.split(ssm_parameters, [self.time_step_rank, self.ssm_state_size, self.ssm_state_size], dim=-1)
        time_step, B, C = self.normed(time_step, B, C)
        discrete_time_step = self.dt_proj(time_step)
        discrete_time_step = F.softplus(discrete_time_step).transpose(1, 2)
        A = -torch.exp(self.A_log.float())
        discrete_A = torch.exp(A[None, :, None, :] * discrete_time_step[:, :, :, None])
        discrete_B = discrete_time_step[:, :, :, None] * B[:, None, :, :].float()
        deltaB_u = discrete_B * hidden_states[:, :, :, None].float()
        scan_outputs = []
        for i in range(seq_len):
            ssm_state = discrete_A[:, :, i, :] * ssm_state + deltaB_u[:, :, i, :]
            scan_output = torch.matmul(ssm_state.to(dtype), C[:, i, :].unsqueeze(-1))
            scan_outputs.append(scan_output[:, :, 0])
        scan_output = torch.stack(scan_outputs, dim=-1)
        scan_output = scan_output + hidden_states * self.D[None, :, None]
        scan_output = scan_output * ACT2FN[self.activation](gate)
        contextualized_states = self.out_proj(scan_output.transpose(1, 2))
        return contextualized_states


if quirks.mamba_ssm_installed:
    if not quirks.mixer_of_functions:
        refuse("/stack/mamba_ssm", "its kernels are modelled from transformers 5.15 on")
    from transformers.scans.selective_scan import mamba_inner_fn, selective_scan_fn

    def mamba_selective_scan(hidden_states, dt, A, B, C, D, z, delta_bias, return_last_state):
        return selective_scan_fn(hidden_states, dt, A, B, C, D, z, delta_bias, return_last_state)

    def mamba_selective_state_update(*args):
        refuse("/stack/mamba_ssm", "what mamba-ssm keeps for the next token is not modelled: left out, PyTorch's own operators run")

    @of(MambaMixer)
    def fused(self, projected_states, A):
        if not quirks.causal_conv1d_installed:
            refuse("/stack/mamba_ssm", "mamba_inner_fn raises without causal-conv1d: name stack.causal_conv1d too")
        return mamba_inner_fn(projected_states, self.conv1d.weight, self.conv1d.bias if self.use_conv_bias else None, self.x_proj.weight, self.dt_proj.weight,
                              self.out_proj.weight, self.out_proj.bias.float() if self.use_bias else None, A, self.D.float(), self.dt_proj.bias.float())
