"""Configs of earlier releases: some classes took two kinds of rope alone, in the words of their time."""
from transformers.releases import of, quirks, refuse

if quirks.rope_of_two_fields:
    of_rope = PreTrainedConfig._rope

    @of(PreTrainedConfig)
    def _rope(self, others):
        scaling = others.get("rope_scaling")
        if scaling and (len(scaling) != 2 or scaling.get("type") not in ("linear", "dynamic")):
            refuse("/config/rope_scaling", f"{type(self).__name__} of this release takes type, linear or dynamic, and factor, and raises ValueError on all else")
        of_rope(self, others)
