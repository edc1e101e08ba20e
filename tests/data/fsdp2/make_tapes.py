#!/usr/bin/env python3
"""Makes the tapes of this folder: births and deaths on one rank of fully_shard, two steps, beside the CUDA stream of each birth.

  make_tapes.py --trace 'PYTHON events.py'

--trace   a command that is given a config, options and a file; it applies fully_shard to the config's model on a fake process group as the options
          say, trains two steps, and writes a line for each allocation of the steps ("B number bytes sSTREAM where") and each release
          ("D number", "D old" for what was there before), from torch.cuda.memory._snapshot(). torch 2.15, transformers 5.23, peft 0.21.

A tape is text: `config` and the model's config, then a line a birth: its bytes, its stream (numbered as they appear), and the births that die before
the next one. Batches and what dies of what stood before the steps are left out: the loop's own.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import tempfile

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 256, "tie_word_embeddings": False,
         "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "float32"}
QWEN2 = dict(LLAMA, model_type="qwen2", architectures=["Qwen2ForCausalLM"], tie_word_embeddings=True, num_hidden_layers=2)
NEOX = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 256, "tie_word_embeddings": False, "rotary_pct": 0.25,
        "hidden_act": "gelu", "torch_dtype": "float32"}
COMMON = {"seq_len": 64, "micro_batch_size": 1, "ranks": [0]}

TAPES = {
    "llama-uneven": (LLAMA, {"method": "fsdp2", "world_size": 7}),
    "qwen2-trainer-accumulation": (QWEN2, {"method": "fsdp2", "world_size": 4, "wrap": "accelerate", "loop": "trainer",
                                           "gradient_accumulation_steps": 2}),
    "llama-hsdp2-lora-reentrant": (LLAMA, {"method": "hsdp2", "world_size": 8, "shard_group": 4, "tuning": "lora", "forward_prefetch": True,
                                           "lora": {"rank": 4, "target_modules": ["q_proj", "v_proj"]}, "gradient_checkpointing": True,
                                           "checkpoint_reentrant": True}),
    "llama-titan-offload": (LLAMA, {"method": "fsdp2", "world_size": 2, "wrap": "titan", "offload": "optimizer+params", "reduce_dtype": "bf16",
                                    "gradient_checkpointing": True}),
    "neox-one-rank": (NEOX, {"method": "fsdp2_noreshard", "world_size": 1}),
}


def tape(trace, config, options):
    with tempfile.TemporaryDirectory() as d:
        at, events = os.path.join(d, "config.json"), os.path.join(d, "events")
        with open(at, "w", encoding="utf-8") as f:
            json.dump(config, f)
        subprocess.run(shlex.split(trace) + [at, json.dumps(dict(COMMON, **options)), "all", events], check=True, stdout=subprocess.DEVNULL)
        lines = open(events, encoding="utf-8").read().splitlines()
    number, rows = {}, []
    for line in lines:
        kind, block, *rest = line.split(" ", 4)
        if kind == "B" and not re.search(r":batch\b", rest[2] if len(rest) > 2 else ""):
            number[block] = len(rows)
            rows.append([rest[0], rest[1][1:]])
        elif kind == "D" and block in number and rows:
            rows[-1].append("-%d" % number[block])
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--trace", required=True)
    p.add_argument("--only", help="one of them")
    a = p.parse_args()
    for name, (config, options) in TAPES.items():
        if a.only and a.only != name:
            continue
        rows = tape(a.trace, config, options)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".tape"), "w", encoding="utf-8") as f:
            f.write("config " + json.dumps(config, separators=(",", ":")) + "\n")
            f.writelines(" ".join(r) + "\n" for r in rows)


if __name__ == "__main__":
    main()
