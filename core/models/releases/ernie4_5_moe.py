"""ernie4_5_moe by earlier releases."""
from transformers.releases import of, quirks, refuse

if quirks.ernie_bias_is_a_number:
    of_model = Ernie4_5_MoeModel.__init__

    @of(Ernie4_5_MoeModel)
    def __init__(self, config):
        if isinstance(config.use_bias, bool):
            refuse("/config/use_bias", "transformers 5.4 takes a number alone and raises: configuration_ernie4_5_moe.py")
        of_model(self, config)
