"""How files write a tensor parallel plan of their layers down; transformers has no such file."""


def tp_plan(**parts):
    """colwise="self_attn.q_proj mlp.up_proj": by style, the parts of each layer that are cut so."""
    return {"layers.*." + part: style for style, names in parts.items() for part in names.split()}
