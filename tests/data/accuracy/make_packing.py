#!/usr/bin/env python3
"""Makes packing.jsonl of this folder: steps on packed rows (one row, positions that start anew, no mask), as the oracle traces them.

    make_packing.py ORACLE CONFIGS NAME=PYTHON.. [--only TEXT]

ORACLE holds trace.py and one_gpu; CONFIGS the config.json files; PYTHON is that of the oracle's environment for the stack NAME of STACKS.
Beside trainer llama-factory a batch is what data/collator.py of llamafactory 0.9.5 makes: rows as they are, their positions, a mask of all pairs in half.
The oracle itself knows no packed rows: what data would tell (position ids that fall, how many sequences begin) is said here. flash-attn's functions
are the oracle's, which do what flash_attn_interface.py 2.7.4 does; a longest length that is a tensor stays one, as there.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")
STACKS = {
    "new": {"torch": "2.15", "transformers": "5.23", "peft": "0.21"},
    "2025": {"torch": "2.7", "transformers": "4.53", "peft": "0.16"},
    "late-2024": {"torch": "2.4", "transformers": "4.48", "peft": "0.13"},
    "2024": {"torch": "2.2", "transformers": "4.40", "peft": "0.10"},
}
TINY, GPT2, OPT, QWEN2 = "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "openai-community__gpt2", "facebook__opt-350m", "Qwen__Qwen2-0.5B"
QWEN3, GEMMA, NEOX = "Qwen__Qwen3-0.6B", "google__gemma-2-2b-it", "EleutherAI__pythia-160m"
NEAT = {"trainer": "llama-factory"}

# name, stack, config, layers (0: as they are), rows, tokens of a row, sequences of all of them, the rest of `training`
CASES = [
    ("flash", "new", QWEN3, 0, 2, 1024, 4, dict(attention="flash_attention_2", precision="bf16")),
    ("flash-ckpt", "new", QWEN3, 0, 2, 1024, 4, dict(attention="flash_attention_2", precision="bf16", gradient_checkpointing=True)),
    ("flash-autocast-lora", "new", TINY, 0, 1, 2048, 7, dict(attention="flash_attention_2", precision="bf16-autocast", tuning="lora", lora={"rank": 16})),
    ("flash-many", "new", TINY, 4, 4, 2048, 293, dict(attention="flash_attention_2", precision="bf16")),
    ("flash-mixed-ckpt", "new", QWEN2, 0, 2, 1024, 9, dict(attention="flash_attention_2", precision="bf16-mixed", gradient_checkpointing=True)),
    ("flash-positions", "new", GPT2, 0, 2, 512, 5, dict(attention="flash_attention_2", precision="bf16")),
    ("flash-neox", "new", NEOX, 0, 2, 512, 5, dict(attention="flash_attention_2", precision="bf16")),
    ("flash-window", "new", GEMMA, 4, 1, 2048, 5, dict(attention="flash_attention_2", precision="bf16")),
    ("sdpa", "new", QWEN3, 0, 2, 1024, 4, dict(attention="sdpa", precision="bf16")),
    ("sdpa-ckpt", "new", TINY, 0, 2, 1024, 4, dict(attention="sdpa", precision="bf16-autocast", gradient_checkpointing=True)),
    ("sdpa-opt", "new", OPT, 0, 2, 512, 5, dict(attention="sdpa", precision="bf16")),
    ("sdpa-gpt2", "new", GPT2, 0, 2, 512, 5, dict(attention="sdpa", precision="bf16-mixed")),
    ("sdpa-window", "new", GEMMA, 4, 1, 2048, 5, dict(attention="sdpa", precision="bf16")),
    ("eager", "new", QWEN3, 4, 2, 1024, 4, dict(attention="eager", precision="bf16")),
    ("one-sequence", "new", TINY, 4, 1, 1024, 1, dict(attention="flash_attention_2", precision="bf16")),
    ("flash-2025", "2025", TINY, 4, 2, 1024, 4, dict(attention="flash_attention_2", precision="bf16")),
    ("sdpa-2025", "2025", TINY, 4, 2, 1024, 4, dict(attention="sdpa", precision="bf16")),
    ("flash-late-2024", "late-2024", TINY, 4, 2, 1024, 4, dict(attention="flash_attention_2", precision="bf16")),
    ("sdpa-late-2024", "late-2024", TINY, 4, 2, 1024, 4, dict(attention="sdpa", precision="bf16")),
    ("flash-2024", "2024", TINY, 4, 2, 1024, 4, dict(attention="flash_attention_2", precision="bf16")),
    ("sdpa-2024", "2024", TINY, 4, 2, 1024, 4, dict(attention="sdpa", precision="bf16")),
    ("neat", "new", QWEN3, 0, 2, 1024, 4, dict(attention="sdpa", precision="bf16", **NEAT)),
    ("neat-lora", "new", TINY, 0, 2, 1024, 5, dict(attention="sdpa", precision="bf16-autocast", tuning="lora", lora={"rank": 16}, gradient_checkpointing=True, **NEAT)),
    ("neat-mixed-ckpt", "new", QWEN2, 0, 1, 1536, 3, dict(attention="sdpa", precision="bf16-mixed", gradient_checkpointing=True, **NEAT)),
    ("neat-fp16", "new", OPT, 4, 2, 500, 5, dict(attention="sdpa", precision="fp16-mixed", **NEAT)),
    ("neat-gpt2", "new", GPT2, 0, 2, 512, 5, dict(attention="sdpa", precision="bf16-mixed", **NEAT)),
    ("neat-window", "new", GEMMA, 4, 1, 2048, 5, dict(attention="sdpa", precision="bf16", **NEAT)),
    ("neat-eager", "new", QWEN3, 4, 2, 1024, 4, dict(attention="eager", precision="bf16", **NEAT)),
    ("neat-2025", "2025", TINY, 4, 2, 1024, 4, dict(attention="sdpa", precision="bf16", **NEAT)),
    ("neat-eager-2025", "2025", QWEN2, 4, 2, 1024, 4, dict(attention="eager", precision="bf16-mixed", **NEAT)),
]
LOOKS = ("find_packed_sequence_indices", "_is_packed_sequence", "_flash_attention_forward", "fa_peft_integration_check")
COUNTS = ("prepare_fa_kwargs_from_position_ids", "_prepare_from_posids", "prepare_fa2_from_position_ids", "_prepare_flash_attention_from_position_ids")


def mask_pairs():
    """SFTDataCollatorWith4DAttentionMask and prepare_4d_attention_mask(), without flash attention."""
    import torch
    from one_gpu import step

    def make_batch(config, o):
        rows, tokens, half = o["micro_batch_size"], o["seq_len"], step.DTYPES[o["precision"].split("-")[0]]
        made = {k: torch.empty((rows, tokens), dtype=torch.int64, device="cuda") for k in ("input_ids", "labels", "position_ids")}
        made["attention_mask"] = torch.empty((rows, 1, tokens, tokens), dtype=half, device="cuda")
        return {k: made[k] for k in ("input_ids", "attention_mask", "labels", "position_ids")}

    step.make_batch = make_batch


def patch(sequences):
    """Batches of packed rows, and what is read of them."""
    import torch
    from one_gpu import emulate, step

    def make_batch(config, o):
        shape = (1, o["micro_batch_size"] * o["seq_len"])
        return {k: torch.empty(shape, dtype=torch.int64, device="cuda") for k in ("input_ids", "labels", "position_ids")}

    forward = emulate.FlashAttentionVarlen.forward

    def varlen(ctx, q, k, v, cu_q, cu_k, max_q, max_k, dropout_p):  # ctx.max_seqlen_q is what it was called with
        ctx.kept = max_q, max_k
        return forward(ctx, q, k, v, cu_q, cu_k, 0, 0, dropout_p)

    emulate.FlashAttentionVarlen.forward = staticmethod(varlen)
    step.make_batch = make_batch
    install = emulate.DeviceReads.install

    def known(reads):
        reads.batch, reads.seq = 1, reads.batch * reads.seq
        reads.tokens = reads.seq
        install(reads)
        tensor, several = torch.Tensor, sequences > 1
        all_, to_bool, nonzero = tensor.all, tensor.bool, tensor.nonzero

        def tagged(t, value):
            if t.is_cuda:
                t._known = value
            return t

        def caller():
            return sys._getframe(2).f_code.co_name

        tensor.all = lambda t, *a, **k: tagged(all_(t, *a, **k), not several) if caller() in LOOKS else all_(t, *a, **k)
        tensor.bool = lambda t, *a, **k: tagged(to_bool(t, *a, **k), several) if t.dim() == 0 else to_bool(t, *a, **k)
        tensor.nonzero = lambda t, *a, **k: torch.empty((sequences, t.dim()), dtype=torch.int64, device=t.device) if caller() in COUNTS else nonzero(t, *a, **k)

    emulate.DeviceReads.install = known


def trace(oracle):
    """Within the oracle's environment: a request on standard input, its figures on standard output."""
    sys.path.insert(0, oracle)
    sys.argv[0] = os.path.abspath(__file__)
    import environment
    environment.ensure()
    import tempfile
    import ask
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report
    given = json.loads(os.environ["PACKING_REQUEST"])
    request = given["request"]
    training = dict(request["training"])
    for key in ("packing", "lengths"):
        del training[key]
    if training.pop("trainer", ""):
        mask_pairs()
    else:
        patch(given["sequences"])
    options = ask.for_one(request, training, [])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        print("\n" + json.dumps(report.trace(f.name, options)))


def request_of(case, configs):
    name, stack, config, layers, rows, tokens, sequences, training = case
    with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
        own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    for key in ("num_hidden_layers", "n_layer"):
        if layers and key in own:
            own[key] = layers
            if "layer_types" in own:
                own["layer_types"] = own["layer_types"][:layers]
    mean = -(-rows * tokens // sequences)
    return {"cluster": {"gpu": "A100-80GB"},
            "training": {"methods": "single", "tuning": "full", "gradient_checkpointing": False, "optimizer": "adamw_torch", "micro_batch_size": rows,
                         "seq_len": tokens, "packing": True, "lengths": [min(mean, tokens)], **training},
            "stack": STACKS[stack], "config": own}


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs = sys.argv[1:3]
    pythons = dict(word.split("=", 1) for word in sys.argv[3:] if "=" in word)
    with open(os.path.join(HERE, "packing.jsonl"), "w" if not only else "a", encoding="utf-8") as out:
        for case in CASES:
            if only not in case[0] or case[1] not in pythons:
                continue
            request = request_of(case, configs)
            env = dict(os.environ, PACKING_REQUEST=json.dumps({"request": request, "sequences": case[6]}))
            told = subprocess.run([pythons[case[1]], os.path.abspath(__file__), "--trace", oracle], env=env, stdout=subprocess.PIPE).stdout
            if b"\n{" not in told:
                print("no figures: " + case[0], file=sys.stderr)
                continue
            result = json.loads(told[told.rindex(b"\n{"):])
            row = {"id": "packing/" + case[0], "group": "one GPU, packed rows", "body": json.dumps(request, separators=(",", ":"))}
            row.update((k, result[k]) for k in FIGURES if k in result)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
