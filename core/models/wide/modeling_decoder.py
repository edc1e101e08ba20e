"""Classes of families are GenerationMixins in transformers: peft asks them for it."""


def _prepare_inputs_for_generation(self, *args, **kwargs):
    raise NotImplementedError("a training step generates nothing")


CausalLM.prepare_inputs_for_generation = _prepare_inputs_for_generation
