"""Beside Conv1D, a native: the norms whose weights older Trainers keep from decay."""
from torch import nn

ALL_LAYERNORM_LAYERS = [nn.LayerNorm]
