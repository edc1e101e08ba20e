"""The tower of qwen2_vl and, of other norms and layers, of qwen2_5_vl: its modules."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_composite import Tower


class PatchEmbed(nn.Module):
    def __init__(self, config):
        super().__init__()
        patch = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.width, kernel_size=patch, stride=patch, bias=False)


class PatchMerger(nn.Module):
    norm = nn.LayerNorm

    def __init__(self, config):
        super().__init__()
        inner = config.width * config.spatial_merge_size**2
        self.ln_q = self.norm(config.width, eps=1e-6)
        self.mlp = nn.ModuleList([nn.Linear(inner, inner), nn.GELU(), nn.Linear(inner, config.out)])


class VisionMlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.width, int(config.width * config.mlp_ratio))
        self.act = ACT2FN[config.hidden_act]
        self.fc2 = nn.Linear(int(config.width * config.mlp_ratio), config.width)


class VisionAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.qkv = nn.Linear(config.width, config.width * 3)
        self.proj = nn.Linear(config.width, config.width)


class Qwen2VLVisionRotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.register_buffer("inv_freq", torch.arange(0, config.width // config.num_heads // 2, 2, dtype=torch.float), persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)


class Qwen2VLVisionBlock(nn.Module):
    norm, feed_forward = nn.LayerNorm, VisionMlp

    def __init__(self, config):
        super().__init__()
        self.norm1 = self.norm(config.width, eps=1e-6)
        self.norm2 = self.norm(config.width, eps=1e-6)
        self.attn = VisionAttention(config)
        self.mlp = self.feed_forward(config)


class Qwen2VisionTransformerPretrainedModel(Tower):
    block, last = Qwen2VLVisionBlock, PatchMerger

    def __init__(self, config):
        super().__init__()
        self.patch_embed = PatchEmbed(config)
        self.rotary_pos_emb = Qwen2VLVisionRotaryEmbedding(config)
        self.blocks = nn.ModuleList([self.block(config) for _ in range(config.depth)])
        self.merger = self.last(config)
