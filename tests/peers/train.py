"""train.py [flags of an answer's command]: one step of a tiny model under the HF Trainer, told by TrainingArguments alone. Prints who was there."""
import os

import torch
from accelerate.state import DistributedType, PartialState
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

if os.environ.get("ACCELERATE_USE_FSDP") == "true" and not torch.cuda.is_available():
    # accelerate shards on accelerators alone (state.py: no FSDP of MULTI_CPU); torch itself does on CPUs.
    torch.distributed.init_process_group("gloo")
    PartialState._prepare_backend = lambda self, *args, **kwargs: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))

args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                                     num_key_value_heads=1, max_position_embeddings=64))
before = model.model.embed_tokens.weight.detach().clone()
rows = [{"input_ids": r, "labels": r} for r in torch.randint(0, 64, (64, 16))]
trainer = Trainer(model=model, args=args, train_dataset=rows)
result = trainer.train()
state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
if trainer.accelerator.is_main_process:
    moved = float((state["model.embed_tokens.weight"].float().cpu() - before).abs().max())
    print("stepped", trainer.state.global_step, "of", trainer.accelerator.num_processes, type(trainer.model_wrapped).__name__,
          "loss %.3f" % result.training_loss, "moved" if moved > 0 else "still", flush=True)
