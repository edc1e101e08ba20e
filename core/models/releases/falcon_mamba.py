"""falcon_mamba before 5.15: weights of ones for matrices and for steps are the mixer's own."""
from transformers.releases import of, quirks

if not quirks.mixer_of_functions:

    @of(FalconMambaMixer)
    def __init__(self, config, layer_idx):
        MambaMixer.__init__(self, config, layer_idx)
        self.config = config
        self.register_buffer("b_c_rms", torch.ones(self.ssm_state_size), persistent=False)
        self.register_buffer("dt_rms", torch.ones(self.intermediate_size), persistent=False)

    def rms_forward(x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return x.to(dtype)

    @of(FalconMambaMixer)
    def normed(self, time_step, B, C):
        B = rms_forward(B)
        C = rms_forward(C)
        time_step = rms_forward(time_step)
        return time_step, B, C
