"""Models as accelerate's prepare_model leaves them, and what TRL's trainers share: trl 1.16.0 trainer/utils.py, models/utils.py."""
import torch

from transformers.trl.loop import adapters, enter, leave, outputs


def _convert(value, half):
    return value.float() if half and value.dtype in (torch.float16, torch.bfloat16) else value


class Prepared:
    """accelerator.prepare_model(), prepare_deepspeed(), prepare_fsdp(): autocast around forward, what it returns in fp32; the method's wrapper."""

    def __init__(self, model, policy=True):
        self.model, self.policy = model, policy

    def __call__(self, **inputs):
        enter(self.policy)
        result = self.model(**inputs)
        half = leave(self.policy)
        names = [name for name, value in result.items() if torch.is_tensor(value)]
        made = [_convert(result[name], half) for name in names]
        made = outputs(made, self.policy)
        fields = dict(result.items())
        fields.update(zip(names, made))
        return type(result)(**fields)


class disable_gradient_checkpointing:
    def __init__(self, model):
        self.model, self.flags = model, []

    def __enter__(self):
        for module in self.model.modules():
            if getattr(module, "gradient_checkpointing", False):
                self.flags.append(module)
                module.gradient_checkpointing = False

    def __exit__(self, *exception):
        for module in self.flags:
            module.gradient_checkpointing = True


class use_adapter:
    """PeftModel.disable_adapter()"""

    def __enter__(self):
        adapters(False)

    def __exit__(self, *exception):
        adapters(True)
