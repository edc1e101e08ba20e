"""Classes whose modules are known and whose forward is not written: they have parameters, adapters, and no step."""
from transformers.releases import refuse


class InventoryOnly:
    """First among the bases of a model's class."""

    inventory_only = True

    def forward(self, *args, **kwargs):
        refuse("/config/model_type", f"the parameters of {self.config.model_type} are known, a step of it is not modelled yet")
