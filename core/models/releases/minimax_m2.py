"""minimax_m2 by earlier releases: all of a head is turned, whatever rotary_dim says."""
from transformers.releases import of, quirks

if not quirks.minimax_reads_rotary_dim:
    of_config = MiniMaxM2Config.__post_init__

    @of(MiniMaxM2Config)
    def __post_init__(self, **kwargs):
        kwargs.pop("rotary_dim", None)
        of_config(self, **kwargs)
