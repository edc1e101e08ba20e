"""starcoder2 by earlier releases."""
from transformers.releases import of, quirks

if quirks.starcoder2_never_checkpoints:
    Starcoder2Model.checkpoints = False

if quirks.rope_tables_kept:
    from transformers.models.llama.modeling_llama import reads_tables

    reads_tables(Starcoder2Attention)

if not quirks.interface_attention:
    Starcoder2Attention.repeats = True

    if quirks.scores_masked_in_place:
        from transformers.models.llama.modeling_llama import masked_in_place

        Starcoder2Attention.masked = masked_in_place
