from transformers import PretrainedConfig


class StrangerConfig(PretrainedConfig):
    model_type = "stranger_lm"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, vocab_size=1000, hidden_size=256, num_hidden_layers=3, num_attention_heads=8, num_groups=2, max_position_embeddings=512, bf16=False,
                 **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_groups = num_groups
        self.max_position_embeddings = max_position_embeddings
        self.bf16 = bf16
        super().__init__(**kwargs)
