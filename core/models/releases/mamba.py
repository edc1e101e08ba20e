"""mamba where mamba-ssm is installed: its kernels leave no loop over tokens."""
from transformers.releases import quirks

if quirks.mamba_ssm_installed:
    MambaForCausalLM.turn = None
