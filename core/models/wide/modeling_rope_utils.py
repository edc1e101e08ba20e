"""What config classes of files that were posted ask of rope."""


class RotaryEmbeddingConfigMixin:
    """What a config says of its rope, in rope_parameters: older files say rope_theta and rope_scaling."""

    default_theta = 10_000.0
    default_rope_type = "default"

    def nested_rope_parameter_keys(self, rope_parameters):
        labels = getattr(self, "_rope_type_labels", None) or getattr(self, "layer_types", None) or ()
        return [key for key in rope_parameters if key in labels]

    def convert_rope_params_to_dict(self, **kwargs):
        rope_scaling = kwargs.pop("rope_scaling", None)
        self.rope_parameters = rope_scaling or self.rope_parameters or {}
        theta = kwargs.pop("rope_theta", getattr(self, "rope_theta", self.default_theta))
        partial = kwargs.pop("partial_rotary_factor", getattr(self, "partial_rotary_factor", None))
        kinds = self.nested_rope_parameter_keys(self.rope_parameters)
        for one in [self.rope_parameters[kind] for kind in kinds] or [self.rope_parameters]:
            if one is not None:
                one.setdefault("rope_theta", theta)
                if partial is not None:
                    one.setdefault("partial_rotary_factor", partial)
        self.standardize_rope_params()
        return kwargs

    def standardize_rope_params(self):
        theta = getattr(self, "rope_theta", None)
        partial = getattr(self, "partial_rotary_factor", None)
        parameters = getattr(self, "rope_parameters", None) or {}
        kinds = self.nested_rope_parameter_keys(parameters)
        if not (parameters or theta):
            return
        for one in [parameters[kind] for kind in kinds] or [parameters]:
            if one is None:
                continue
            one.setdefault("rope_type", one.get("type", "default"))
            one.setdefault("rope_theta", theta)
            if partial is not None:
                one.setdefault("partial_rotary_factor", partial)
            if self.default_rope_type != "default" and one["rope_type"] == "default":
                one["rope_type"] = self.default_rope_type
            if one["rope_type"] in ("llama3", "yarn", "longrope"):
                if not kinds and hasattr(self, "original_max_position_embeddings"):
                    one["original_max_position_embeddings"] = self.original_max_position_embeddings
                else:
                    one.setdefault("original_max_position_embeddings", self.max_position_embeddings)
        self.rope_parameters = parameters

    def validate_rope(self):
        pass


def rope_config_validation(config, ignore_keys=None):
    pass
