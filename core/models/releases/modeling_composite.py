"""Models of several modalities, by earlier releases: losses of their own; before 5.2 text asks for an index of three grids too."""
from transformers.releases import quirks


def loss_of_places(logits, labels, attention_mask, vocab_size):
    """What classes compute in their forward: the loss of what is not padding."""
    shift_logits = logits[..., :-1, :]
    shift_labels = labels[..., 1:]
    if attention_mask is not None:
        shift_mask = attention_mask[:, -shift_logits.shape[1] :].to(logits.device)
        shift_logits = shift_logits[shift_mask != 0].contiguous()
        shift_labels = shift_labels[shift_mask != 0].contiguous()
    else:
        shift_logits = shift_logits.contiguous()
        shift_labels = shift_labels.contiguous()
    flat_logits = shift_logits.view(-1, vocab_size)
    flat_labels = shift_labels.view(-1)
    return nn.functional.cross_entropy(flat_logits, flat_labels)


if quirks.text_asks_rope_index:

    def rope_index(input_ids, mask):
        """get_rope_index() of text alone: positions that skip padding, and how far they end from the row's length. Text's own come before three grids': one row."""
        if mask is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).view(1, 1, -1).expand(4, input_ids.shape[0], -1)
            deltas = torch.zeros([input_ids.shape[0], 1], device=input_ids.device, dtype=input_ids.dtype)
            return position_ids, deltas
        position_ids = mask.long().cumsum(-1) - 1
        position_ids.masked_fill_(mask == 0, 1)
        position_ids = position_ids.unsqueeze(0).expand(4, -1, -1)
        highest = position_ids.max(0, keepdim=False)[0].max(-1, keepdim=True)[0]
        deltas = highest + 1 - mask.shape[-1]
        return position_ids, deltas

    def asks_rope_index(model):
        """Its forward asks once, keeps the deltas for generate(), and holds the positions."""

        @can_return_tuple
        def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
            if use_cache is None and quirks.cache_of_whole_config:
                use_cache = self.config.use_cache
            if inputs_embeds is None:
                inputs_embeds = self.get_input_embeddings()(input_ids)
            if position_ids is None:
                position_ids, deltas = rope_index(input_ids, attention_mask)
                self.rope_deltas = deltas
            return self.language_model(input_ids=None, position_ids=position_ids, attention_mask=attention_mask, past_key_values=past_key_values,
                                       inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)

        model.forward = forward

    def of_text(position_ids):
        return position_ids[0] if position_ids.ndim == 3 else position_ids

    def sees_positions(text):
        """Masks and layers are handed text's own positions."""
        of_base = text.__mro__[1].masks
        text.masks = lambda self, position_ids, **of: of_base(self, position_ids=of_text(position_ids), **of)
        text.handed = lambda self, position_ids: of_text(position_ids)
