"""The encoder that nomic_bert, gte and jina_embeddings_v3 have, each as classes of its own: norms behind each part, queries and keys that are rotated."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_decoder import capture_outputs, merge_with_config_defaults
from transformers.modeling_encoder import BertConfig, BertModel, BertPooler, BertPreTrainedModel, eager_attention_forward
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.modeling_rope_utils import RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaAttention


class RotatedConfig(BertConfig):
    rope_parameters: dict | None = None
    head_dim: int | None = None

    def __post_init__(self, **others):
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        super().__post_init__(**others)


class RotatedEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)), persistent=False)
        self.register_buffer("token_type_ids", torch.zeros(self.position_ids.size(), dtype=torch.long), persistent=False)

    def forward(self, input_ids, token_type_ids=None):
        embeddings = self.word_embeddings(input_ids)
        if token_type_ids is None:
            token_type_ids = torch.zeros(embeddings.shape[:-1], dtype=torch.long, device=embeddings.device)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = embeddings + token_type_embeddings
        embeddings = self.LayerNorm(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings


class RotatedAttention(LlamaAttention):
    eager, bias = staticmethod(eager_attention_forward), True

    def __init__(self, config):
        config.attention_dropout, config.num_key_value_heads = config.attention_probs_dropout_prob, config.num_attention_heads
        super().__init__(config, 0)
        self.is_causal = False

    def biases(self, config):
        return self.bias, self.bias


class RotatedMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.activation_fn = ACT2FN[config.hidden_act]
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states):
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation_fn(hidden_states)
        hidden_states = self.fc2(hidden_states)
        return hidden_states


class RotatedLayer(GradientCheckpointingLayer):
    attention, feed_forward = RotatedAttention, RotatedMLP

    def __init__(self, config):
        super().__init__()
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_dropout = nn.Dropout(config.hidden_dropout_prob)
        self.post_mlp_dropout = nn.Dropout(config.hidden_dropout_prob)
        self.mlp = self.feed_forward(config)
        self.self_attn = self.attention(config)
        self.post_mlp_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask=None, position_embeddings=None, **kwargs):
        residual = hidden_states
        attention_output, _ = self.self_attn(hidden_states, attention_mask=attention_mask, position_embeddings=position_embeddings, **kwargs)
        hidden_states = residual + self.post_attention_dropout(attention_output)
        hidden_states = self.post_attention_layernorm(hidden_states)
        residual = hidden_states
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + self.post_mlp_dropout(hidden_states)
        hidden_states = self.post_mlp_layernorm(hidden_states)
        return hidden_states


class RotatedModel(BertModel):
    embedded, layer_class, tells_places = RotatedEmbeddings, RotatedLayer, False

    def __init__(self, config, add_pooling_layer=True):
        BertPreTrainedModel.__init__(self, config)
        self.gradient_checkpointing = False
        self.embeddings = self.embedded(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.rotary_emb = RotaryEmbedding(config)
        self.layers = nn.ModuleList([self.layer_class(config) for _ in range(config.num_hidden_layers)])

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, **kwargs):
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], dtype=torch.long, device=input_ids.device)[None, :]
        embedding_output = self.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        attention_mask = create_bidirectional_mask(config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask)
        hidden_states = embedding_output
        position_embeddings = self.rotary_emb(embedding_output, position_ids)
        if self.tells_places:
            kwargs["position_ids"] = position_ids
        for encoder_layer in self.layers:
            hidden_states = encoder_layer(hidden_states, attention_mask=attention_mask, position_embeddings=position_embeddings, **kwargs)
        sequence_output = hidden_states
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)
