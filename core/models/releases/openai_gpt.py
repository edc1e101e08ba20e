"""openai-gpt by earlier releases."""
from transformers.releases import of, quirks

if not quirks.gpt_slices_logits:
    OpenAIGPTLMHeadModel.asks_ids_alone = not quirks.openai_gpt_asks_with_mask
    of_last = OpenAIGPTLMHeadModel.forward

    @of(OpenAIGPTLMHeadModel)
    def forward(self, *args, logits_to_keep=0, **kwargs):
        """Logits of all places, whatever generate() wants."""
        return of_last(self, *args, **kwargs)
