#!/usr/bin/env python3
"""Makes the tapes of this folder: births and deaths of storages, and what PyTorch's caching allocator says to them.

  make_tapes.py random --model allocator.py --out DIR
  make_tapes.py traced --model allocator.py --trace 'PYTHON trace.py' --configs DIR --out DIR

--model   a replay that equals the real allocator to the byte: CachingAllocator(capacity, expandable) with take, give,
          release_cached, reset_peaks, and OutOfMemory.
--trace   a command that runs a training step of --config with --options, writes its tape with --events and prints its peaks.

A tape is text, its tokens separated by white space:
  slots N                     handles are 0..N-1
  sizes K b1 .. bK
  expect MODE CAPACITY allocated_peak reserved_peak requested_peak retries refused hash     (one for each replay)
  events N                    +slot:size (index into sizes), -slot, e (empty_cache), r (reset_peaks)
A refused birth leaves its slot empty, its death is then skipped. The hash takes in (allocated, reserved) after every event.
"""
import argparse
import csv
import importlib.util
import json
import os
import random
import shlex
import subprocess
import tempfile

MIB = 1 << 20

TRACED = [  # name, config, options
    ("llama-4l", "TinyLlama__TinyLlama-1.1B-Chat-v1.0.json", {"model_config": {"num_hidden_layers": 4}, "seq_len": 512, "micro_batch_size": 2}),
    ("gpt2-3l-fp32", "openai-community__gpt2.json", {"model_config": {"n_layer": 3}, "precision": "fp32", "attention": "eager", "seq_len": 384}),
    ("opt-3l-sgd", "facebook__opt-1.3b.json", {"model_config": {"num_hidden_layers": 3}, "optimizer": "sgd", "gradient_accumulation_steps": 2,
                                              "seq_len": 300}),
    ("llama-3l-lora", "TinyLlama__TinyLlama-1.1B-Chat-v1.0.json", {"model_config": {"num_hidden_layers": 3}, "tuning": "lora", "precision": "bf16-mixed",
                                                                    "lora": {"rank": 8, "dropout": 0.1}, "gradient_checkpointing": True}),
    ("bloom-2l-mixed", "bigscience__bloom-560m.json", {"model_config": {"n_layer": 2}, "precision": "fp16-mixed", "seq_len": 256}),
    ("llama-32l", "TinyLlama__TinyLlama-1.1B-Chat-v1.0.json", {"model_config": {"num_hidden_layers": 32}, "steps": 1}),     # the benchmark's
]


def random_sizes(rng, kind):
    small = [512 * rng.randint(1, 40) - rng.choice((0, 0, 1, 100)) for _ in range(40)] + [rng.randint(1, MIB) for _ in range(30)]
    edge = [MIB - 512, MIB - 1, MIB, MIB + 1, MIB + 512, 2 * MIB, 10 * MIB - 1, 10 * MIB - 512, 10 * MIB, 10 * MIB + 1, 19 * MIB, 20 * MIB - 512,
            20 * MIB, 20 * MIB + 512]
    large = [rng.randint(MIB + 1, 12 * MIB) for _ in range(40)] + [512 * rng.randint(2049, 120000) for _ in range(30)]
    few = [rng.choice(large) for _ in range(4)] + [rng.choice(small) for _ in range(4)]
    return {"small": small + edge[:5], "large": large + edge[3:], "mixed": small + edge + large, "few": few}[kind]


def random_tape(seed, kind, events, slots):
    """Waves of births and deaths, now and then an emptied cache; ties of size are frequent because sizes come from a list."""
    rng = random.Random(seed)
    sizes = random_sizes(rng, kind)
    live, idle, out, target = [], list(range(slots)), [], 0
    while len(out) < events:
        if rng.random() < 0.01:
            target = rng.randint(0, slots)
        if rng.random() < 0.004:
            out.append(("e",))
        elif rng.random() < 0.002:
            out.append(("r",))
        elif idle and (not live or rng.random() < (0.65 if len(live) < target else 0.35)):
            slot = idle.pop(rng.randrange(len(idle)))
            live.append(slot)
            out.append(("+", slot, rng.choice(sizes)))
        else:
            slot = live.pop(-1 if rng.random() < 0.4 else rng.randrange(len(live)))
            idle.append(slot)
            out.append(("-", slot))
    return out


def traced_tape(rows):
    """The rows of a traced tape; the lowest idle handle is taken. As the traced program does it, the cache is emptied when the
    model is built, and the peaks are reset when the optimizer exists."""
    out, slot_of, idle, slots = [], {}, [], 0
    building, started, last = True, False, None
    for row in rows:
        kind, phase = row["kind"], row["phase"]
        if building and phase not in ("", "init"):
            building = False
            out.append(("e",))
        if not started and kind in ("alloc", "free") and phase not in ("", "init", "optimizer_init"):
            started = True
            out.append(("r",))
        if kind == "segment_free" and last != "segment_free":
            out.append(("e",))
        last = kind
        if kind == "alloc":
            if not idle:
                idle.append(slots)
                slots += 1
            idle.sort(reverse=True)
            slot_of[row["id"]] = idle.pop()
            out.append(("+", slot_of[row["id"]], int(row["bytes"])))
        elif kind == "free":
            idle.append(slot_of[row["id"]])
            out.append(("-", slot_of.pop(row["id"])))
    return out


def replay(model, tape, expandable, capacity):
    a = model.CachingAllocator(capacity=capacity or None, expandable=expandable)
    born, refused, mixed = set(), 0, 0xcbf29ce484222325
    for event in tape:
        if event[0] == "e":
            a.release_cached()
        elif event[0] == "r":
            a.reset_peaks()
        elif event[0] == "+":
            try:
                a.take(event[1], event[2])
                born.add(event[1])
            except model.OutOfMemory:
                refused += 1
        elif event[1] in born:
            born.remove(event[1])
            a.give(event[1])
        for value in (a.allocated, a.reserved):
            mixed = ((mixed ^ value) * 0x100000001b3) % (1 << 64)
    return a, refused, mixed


def write(path, title, model, tape, shares):
    sizes = sorted({e[2] for e in tape if e[0] == "+"})
    index = {b: i for i, b in enumerate(sizes)}
    lines = []
    for expandable in (False, True):
        whole = replay(model, tape, expandable, 0)[0].peak_reserved
        for share in shares:
            capacity = int(whole * share) // (2 * MIB) * 2 * MIB if share else 0
            a, refused, mixed = replay(model, tape, expandable, capacity)
            lines.append("expect %s %d %d %d %d %d %d %d" % ("expandable" if expandable else "default", capacity, a.peak_allocated, a.peak_reserved,
                                                         a.peak_requested, a.retries, refused, mixed))
    tokens = ["+%d:%d" % (e[1], index[e[2]]) if e[0] == "+" else "-%d" % e[1] if e[0] == "-" else e[0] for e in tape]
    with open(path, "w") as f:
        f.write("# %s\n" % title)
        f.write("slots %d\n" % (1 + max(e[1] for e in tape if len(e) > 1)))
        f.write("sizes %d %s\n" % (len(sizes), " ".join(map(str, sizes))))
        f.write("\n".join(lines))
        f.write("\nevents %d\n" % len(tokens))
        for i in range(0, len(tokens), 24):
            f.write(" ".join(tokens[i:i + 24]) + "\n")
    print(path, len(tokens), "events", *lines, sep="\n  ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("random", "traced"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace")
    parser.add_argument("--configs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", help="one traced case")
    args = parser.parse_args()
    spec = importlib.util.spec_from_file_location("model", args.model)
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    if args.what == "random":
        for seed, kind, events, slots in ((1, "small", 3000, 300), (2, "large", 3000, 60), (3, "mixed", 4000, 200), (4, "few", 3000, 100),
                                          (5, "mixed", 3000, 24), (6, "large", 4000, 300)):
            write(os.path.join(args.out, "random-%d-%s.tape" % (seed, kind)), "random tape, seed %d" % seed, model,
                  random_tape(seed, kind, events, slots), (0, 0.9, 0.6))
        return
    for name, config, options in TRACED:
        if args.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            csv_path = os.path.join(folder, "tape.csv")
            said = json.loads(subprocess.run(shlex.split(args.trace) + ["--config", os.path.join(args.configs, config), "--options", json.dumps(options),
                                                                        "--events", csv_path], check=True, stdout=subprocess.PIPE).stdout)
            with open(csv_path, newline="") as f:
                tape = traced_tape(list(csv.DictReader(f)))
        plain, big = replay(model, tape, False, 0)[0], replay(model, tape, True, 0)[0]
        assert said["replay_agrees"]
        assert (plain.peak_allocated, plain.peak_reserved) == (said["peak_allocated_bytes"], said["peak_reserved_bytes"])
        assert big.peak_reserved == said["peak_reserved_expandable_bytes"]
        write(os.path.join(args.out, name + ".tape"), "%s %s" % (config.replace("__", "/")[:-5], json.dumps(options)), model, tape,
              (0, 0.97, 0.9) if name != "llama-32l" else (0,))


if __name__ == "__main__":
    main()
