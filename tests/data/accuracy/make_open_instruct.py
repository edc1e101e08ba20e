#!/usr/bin/env python3
"""Makes open_instruct.jsonl of this folder: preference training by open-instruct's own functions (dpo_utils.py) on the oracle's loop.

    make_open_instruct.py ORACLE CONFIGS PYTHON CHECKOUT [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); CHECKOUT is allenai/open-instruct e6c3044a, of whose files the
functions of a step are taken by name. All tokens count; what the cache of the reference hands out is two tensors of a number a pair, made where it is asked.
"""
import ast
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_llama_factory  # noqa: E402
import make_stages  # noqa: E402

TINY, GPT2, QWEN2, QWEN3, GEMMA, LORA = make_stages.TINY, make_stages.GPT2, make_stages.QWEN2, make_stages.QWEN3, make_stages.GEMMA, make_stages.LORA

CASES = [
    ("dpo-lora", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("dpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("dpo-full", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-mixed")),
    ("dpo-full-ckpt", TINY, 4, 2, 768, dict(stage="dpo", precision="bf16", gradient_checkpointing=True)),
    ("dpo-full-pure", QWEN2, 4, 1, 512, dict(stage="dpo", precision="bf16")),
    ("dpo-softcap", GEMMA, 3, 1, 384, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("simpo-full", GPT2, 0, 1, 512, dict(stage="simpo", precision="bf16-mixed")),
    ("simpo-lora", QWEN2, 4, 2, 384, dict(stage="simpo", precision="bf16", **LORA)),
]


def functions(checkout):
    import torch
    import torch.nn.functional as F
    import types
    made = {"torch": torch, "F": F, "nn": torch.nn, "model_utils": types.SimpleNamespace(TensorCache=object)}
    wanted = {"tensor_utils.py": ["pad_to_length"], "padding_free_collator.py": ["calculate_per_token_logps"],
              "dpo_utils.py": ["dpo_loss", "simpo_loss", "_get_batch_logps", "concatenated_inputs", "concatenated_forward"]}
    for name, names in wanted.items():
        with open(os.path.join(checkout, "open_instruct", name), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
        exec(compile(tree, name, "exec"), made)  # pylint: disable=exec-used
        made["tensor_utils"] = types.SimpleNamespace(pad_to_length=made["pad_to_length"])
    return made


class Pairs:
    names = ("chosen_input_ids", "chosen_attention_mask", "chosen_labels", "rejected_input_ids", "rejected_attention_mask", "rejected_labels")

    @staticmethod
    def prepare(run, stage):
        import torch
        made = functions(Pairs.checkout)
        real = made["calculate_per_token_logps"]
        made["calculate_per_token_logps"] = lambda logits, labels: (run.phase("loss") if torch.is_grad_enabled() else None, real(logits, labels))[1]
        return made, stage["stage"]

    @staticmethod
    def batch(o, stage):
        import torch
        made = {name: torch.empty((o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Pairs.names}
        made["index"] = torch.empty(o["micro_batch_size"], dtype=torch.int64, device="cuda")
        return made

    @staticmethod
    def loss(made, stage, model, batch):
        import torch
        chosen, rejected, _ = made["concatenated_forward"](model, batch, average_log_prob=True, output_router_logits=False)
        if stage == "simpo":
            losses, chosen_rewards, rejected_rewards = made["simpo_loss"](chosen, rejected, beta=5.0, gamma_beta_ratio=0.3, label_smoothing=0.0)
            return losses.mean()
        reference = {name: torch.empty(batch["index"].shape, device="cuda") for name in ("chosen_logps", "rejected_logps")}
        losses, chosen_rewards, rejected_rewards = made["dpo_loss"](chosen, rejected, reference["chosen_logps"], reference["rejected_logps"], beta=5.0,
                                                                    label_smoothing=0.0)
        return losses.mean()


def trace(oracle, checkout):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    Pairs.checkout = checkout
    make_stages.STAGES = {"dpo": Pairs, "simpo": Pairs}
    make_stages.patch, make_stages.__file__ = make_llama_factory.patch, __file__
    make_stages.trace(oracle, checkout)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        make_stages.collect("open_instruct", __file__, CASES, "open-instruct")
