"""mamba2: mamba with mixers of Mamba 2."""
from transformers.masking_utils import create_recurrent_attention_mask
from transformers.modeling_mamba2 import Mamba2Mixer
from transformers.models.mamba.modeling_mamba import MambaBlock, MambaConfig, MambaForCausalLM, MambaModel


class Mamba2Config(MambaConfig):
    model_type = "mamba2"
    num_heads: int = 128
    head_dim: int = 64
    vocab_size: int = 32768
    hidden_size: int = 4096
    state_size: int = 128
    num_hidden_layers: int = 64
    n_groups: int = 8
    time_step_limit: list = (0.0, float("inf"))
    chunk_size: int = 256
    tie_word_embeddings: bool = False


class Mamba2MixerOfMamba2(Mamba2Mixer):
    def sizes(self, config):
        self.num_heads, self.head_dim, self.intermediate_size = config.num_heads, config.head_dim, config.intermediate_size
        self.ssm_state_size, self.conv_kernel_size, self.n_groups = config.state_size, config.conv_kernel, config.n_groups
        self.use_bias = self.out_bias = config.use_bias
        self.use_conv_bias, self.activation, self.eps = config.use_conv_bias, config.hidden_act, config.layer_norm_epsilon
        self.chunk_size, self.time_step_limit = config.chunk_size, config.time_step_limit


class Mamba2Block(MambaBlock):
    scanner = Mamba2MixerOfMamba2


class Mamba2Model(MambaModel):
    layer, mask = Mamba2Block, staticmethod(create_recurrent_attention_mask)


class Mamba2ForCausalLM(MambaForCausalLM):
    config_class, decoder, _no_split_modules, turn = Mamba2Config, Mamba2Model, ["Mamba2Block"], None


causal_lm = Mamba2ForCausalLM
