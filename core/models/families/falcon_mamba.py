"""falcon_mamba: mamba whose steps and matrices are normed, without weights."""
import torch
from torch import nn

from transformers.modeling_mamba import MambaMixer
from transformers.modeling_norm import L2Norm
from transformers.models.mamba.modeling_mamba import MambaBlock, MambaConfig, MambaForCausalLM, MambaModel


class FalconMambaConfig(MambaConfig):
    model_type = "falcon_mamba"
    pad_token_id: int | None = 0
    mixer_rms_eps: float = 1e-6


class FalconMambaWeightlessRMSNorm(L2Norm):
    """A weight of ones for the kernels' sake."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__(eps)
        self.register_buffer("weight", torch.ones(hidden_size), persistent=False)


class FalconMambaMixer(MambaMixer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.config = config
        for name, width in ("dt", self.intermediate_size), ("b", self.ssm_state_size), ("c", self.ssm_state_size):
            setattr(self, name + "_layernorm", FalconMambaWeightlessRMSNorm(width, eps=config.mixer_rms_eps))

    def normed(self, time_step, B, C):
        time_step = self.dt_layernorm(time_step)
        B = self.b_layernorm(B)
        C = self.c_layernorm(C)
        return time_step, B, C

    def stepped(self, time_step):
        if hasattr(self.config, "_is_quantized"):  # packed weights are no factor
            return (self.dt_proj(time_step) - self.dt_proj.bias).transpose(1, 2)
        return super().stepped(time_step)


class FalconMambaBlock(MambaBlock):
    scanner = FalconMambaMixer


class FalconMambaModel(MambaModel):
    layer = FalconMambaBlock


class FalconMambaForCausalLM(MambaForCausalLM):
    config_class, decoder, _no_split_modules = FalconMambaConfig, FalconMambaModel, ["FalconMambaBlock", "FalconMambaMixer"]


causal_lm = FalconMambaForCausalLM
