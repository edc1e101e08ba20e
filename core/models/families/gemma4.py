"""gemma4: gemma4_text under a model that sees: of text alone its tower and its projector are held, and do nothing."""
import torch

from transformers.configuration_utils import CompositeConfig
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_composite import CompositeForConditionalGeneration, CompositePreTrainedModel
from transformers.modeling_decoder import positions
from transformers.modeling_vision_gemma4 import Gemma4MultimodalEmbedder, Gemma4VisionConfig, Gemma4VisionModel
from transformers.models.gemma2.modeling_gemma2 import Gemma2ForCausalLM
from transformers.models.gemma4_text.modeling_gemma4_text import Gemma4TextConfig, Gemma4TextModel
from transformers.releases import refuse
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults


class Gemma4Config(CompositeConfig):
    model_type, sub_configs = "gemma4", {"text_config": Gemma4TextConfig, "vision_config": Gemma4VisionConfig}
    text_config: dict | None = None
    vision_config: dict | None = None
    audio_config: dict | None = None
    tie_word_embeddings: bool = True
    image_token_id: int | None = 258880
    video_token_id: int | None = 258884
    audio_token_id: int | None = 258881

    def __post_init__(self, **kwargs):
        if self.audio_config is not None:
            refuse("/config/audio_config", "the tower of sound is not modelled")
        if self.vision_config is None:
            self.sub_configs = {"text_config": Gemma4TextConfig}
        super().__post_init__(**kwargs)


class Gemma4Model(CompositePreTrainedModel):
    config_class = Gemma4Config

    def __init__(self, config):
        super().__init__(config)
        if config.vision_config is not None:
            self.vision_tower = Gemma4VisionModel(config.vision_config)
        self.language_model = Gemma4TextModel(config.text_config)
        if config.vision_config is not None:
            self.embed_vision = Gemma4MultimodalEmbedder(config.vision_config, config.text_config)
        self.post_init()

    def get_input_embeddings(self):
        return self.language_model.embed_tokens

    @merge_with_config_defaults
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None,
                per_layer_inputs=None, **kwargs):
        text = self.config.text_config
        image_mask = input_ids == self.config.image_token_id
        video_mask = input_ids == self.config.video_token_id
        audio_mask = input_ids == self.config.audio_token_id
        multimodal_mask = image_mask | video_mask | audio_mask
        ids = input_ids.clone()
        ids = torch.where(multimodal_mask, text.pad_token_id, ids)
        inputs_embeds = self.get_input_embeddings()(ids)
        if text.hidden_size_per_layer_input:
            pad_embedding = self.language_model.embed_tokens.weight[text.pad_token_id, :]
            embeds = torch.where(multimodal_mask[..., None], pad_embedding.view(1, 1, -1), inputs_embeds)
            per_layer_inputs = self.language_model.get_per_layer_inputs(ids)
        if position_ids is None:
            position_ids = positions(inputs_embeds, past_key_values.get_seq_length() if past_key_values is not None else 0)
        of = dict(config=text, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values, position_ids=position_ids)
        masks = {"full_attention": create_causal_mask(**of), "sliding_attention": create_sliding_window_causal_mask(**of)}
        return self.language_model(per_layer_inputs=per_layer_inputs, attention_mask=masks, position_ids=position_ids, past_key_values=past_key_values,
                                   inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)


class Gemma4ForConditionalGeneration(CompositeForConditionalGeneration):
    config_class, composed, logits = Gemma4Config, Gemma4Model, Gemma2ForCausalLM.logits
    _no_split_modules = ["Gemma4TextDecoderLayer", "Gemma4VisionEncoderLayer", "Gemma4VisionPatchEmbedder", "Gemma4AudioLayer"]


causal_lm = Gemma4ForConditionalGeneration
