"""A config: the annotated members of its classes with their defaults, config.json's values over them."""

OLDER_KINDS = {"mamba": "linear_attention", "attention": "full_attention"}  # of layers


def windows_but_every(n, layers):
    """Kinds of layers: each n-th attends to all."""
    return ["sliding_attention" if (i + 1) % n else "full_attention" for i in range(layers)]


class PreTrainedConfig:
    model_type = ""
    attribute_map = {}
    base_model_tp_plan = None
    base_model_pp_plan = None
    keys_to_ignore_at_inference = []

    def __init__(self, **values):
        self._attn_implementation = values.pop("attn_implementation", None)
        self.return_dict = True
        self.problem_type = values.pop("problem_type", None)
        labels = values.pop("num_labels", 2)
        self.num_labels = len(values["id2label"]) if values.get("id2label") else labels
        names = {name: None for cls in type(self).__mro__ for name in getattr(cls, "__annotations__", {})}
        for name in names:
            setattr(self, name, values.pop(name, getattr(type(self), name, None)))
        for short, name in self.attribute_map.items():
            if short in values:
                setattr(self, name, values.pop(short))
        self.__post_init__(**values)

    def __getattr__(self, name):
        """The names of attribute_map are others for the same member."""
        if name in type(self).attribute_map:
            return getattr(self, type(self).attribute_map[name])
        raise AttributeError(name)

    def __post_init__(self, **others):
        if hasattr(self, "rope_parameters"):
            self._rope(others)
        for name, value in others.items():
            setattr(self, name, value)
        kinds = getattr(self, "layer_types", None)
        if isinstance(kinds, list) and any(kind in OLDER_KINDS for kind in kinds):
            self.layer_types = [OLDER_KINDS.get(kind, kind) for kind in kinds]

    def _rope(self, others):
        """rope_theta and rope_scaling of older files, as one dict; one a kind of layer where a config has several."""
        parameters = dict(others.pop("rope_scaling", None) or self.rope_parameters or {})
        theta = others.pop("rope_theta", getattr(self, "default_theta", 10000.0))
        partial = others.pop("partial_rotary_factor", getattr(self, "partial_rotary_factor", None))
        kinds = [kind for kind in parameters if kind in (getattr(self, "layer_types", None) or ())]
        for one in [parameters[kind] for kind in kinds] or [parameters]:
            if one is not None:
                self._complete(one, theta, partial)
        self.rope_parameters = parameters

    def _complete(self, one, theta, partial=None):
        one.setdefault("rope_theta", theta)
        one.setdefault("rope_type", one.get("type", "default"))
        if partial is not None:
            one.setdefault("partial_rotary_factor", partial)
        if one["rope_type"] in ("llama3", "yarn", "longrope"):
            one.setdefault("original_max_position_embeddings", self.max_position_embeddings)

    def rope_by_kind(self, others, theta, local_theta):
        """One dict for full attention, whose members of older files are the whole file's, one for sliding."""
        given = self.rope_parameters or {}
        full, sliding = dict(given.get("full_attention") or {}), dict(given.get("sliding_attention") or {})
        full.update(others.pop("rope_scaling", None) or {})
        self._complete(full, others.pop("rope_theta", theta))
        self._complete(sliding, local_theta)
        self.rope_parameters = {"full_attention": full, "sliding_attention": sliding}


class CompositeConfig(PreTrainedConfig):
    """Configs of parts under one: what it does not say itself is its text's. What is set on it stays its own, as transformers' is."""

    sub_configs = {}

    def __post_init__(self, **others):
        layers = others.pop("num_hidden_layers", None)
        super().__post_init__(**others)
        for name, part in self.sub_configs.items():
            given = dict(getattr(self, name) or {})
            if name == "text_config" and layers is not None:
                given["num_hidden_layers"] = layers
            setattr(self, name, part(**given))

    def __getattr__(self, name):
        if name.startswith("__") or name in self.sub_configs:
            raise AttributeError(name)
        return getattr(self.text_config, name)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        for part in self.sub_configs if name in ("_attn_implementation", "_is_quantized", "_experts_packed", "dtype") else ():
            if isinstance(getattr(self, part), PreTrainedConfig):  # they are made
                setattr(getattr(self, part), name, value)

    @property
    def base_model_tp_plan(self):
        plan = self.text_config.base_model_tp_plan
        return plan and {f"language_model.{key}": style for key, style in plan.items()}
