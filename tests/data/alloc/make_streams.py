#!/usr/bin/env python3
"""Holds the allocator model against the real CUDACachingAllocator of an unmodified PyTorch.

  make_streams.py rules --null DIR tests/unit/test_alloc.c     every row of its table of rules, played on the real allocator
  make_streams.py tapes --null DIR --out DIR                   random tapes over several streams, with what the real one says
  make_streams.py expect --null DIR FILE.tape ...              writes anew what the real one says to tapes that exist

--null   libnullcuda.so and libnullnvml.so: a CUDA runtime without a GPU behind it. Device memory is address space, a device has
         NULLCUDA_TOTAL_BYTES less what others have of it, and an event is complete at once (NULLCUDA_LAG=0) or when the host has waited for it or a later one (1).
Run by the Python of the PyTorch in question; each (expandable, lagging, capacity) is a process of its own.

A tape has the form of make_tapes.py and four events more; a birth may name its stream:
  +slot:size:stream    xslot (record_stream of another stream)    m (an event is recorded)    w (the host waits for it)
  y (torch.cuda.synchronize)
MODE is default or expandable, with lagging- before it where NULLCUDA_LAG is 1. The hash takes in active bytes too, where they differ
from the allocated ones.
"""
import argparse
import ctypes
import json
import os
import random
import re
import subprocess
import sys

MIB = 1 << 20
TOTAL = 1 << 40
EXPANDABLE, LAGGING = 1, 2
TAPES = ((11, "mixed", 2500, 120, 4), (12, "large", 2000, 60, 3), (13, "few", 2000, 80, 6))  # seed, sizes, events, slots, streams


class Refused(Exception):
    pass


class Real:
    """The real allocator, empty at the start."""

    def __init__(self):
        import torch
        self.torch = torch
        torch.cuda.init()
        ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(TOTAL - (int(os.environ["CAPACITY"]) or TOTAL)))
        self.streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(7)]
        self.clear()

    def clear(self):
        self.live, self.bytes, self.stream, self.event = {}, {}, {}, None
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats()
        self.base = {k: self._stat(k) for k in ("num_alloc_retries", "num_ooms")}
        self.tick()

    def tick(self):
        """The null runtime takes the first event after a synchronisation for one before it; this one is it."""
        self.torch.cuda.Event().record()

    def _stat(self, name):
        return self.torch.cuda.memory_stats().get(name, 0)

    def take(self, slot, size, stream):
        torch = self.torch
        before = self.said("a")
        try:
            with torch.cuda.stream(self.streams[stream]):
                self.live[slot] = torch.empty(size, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            raise Refused from None
        finally:
            self.tick()
        self.bytes[slot], self.stream[slot] = self.said("a") - before, stream

    def do(self, verb, slot=0, size=0, stream=0):
        cuda = self.torch.cuda
        if verb == "+":
            self.take(slot, size, stream)
        elif verb == "-":
            self.live.pop(slot, None)
            self.bytes[slot] = 0
        elif verb == "x" and slot in self.live:
            self.live[slot].record_stream(self.streams[(self.stream[slot] + 1) % len(self.streams)])
        elif verb == "m":
            self.event = cuda.Event()
            self.event.record()
        elif verb == "w":
            if self.event:
                self.event.synchronize()
        elif verb == "y":
            cuda.synchronize()
        elif verb == "e":
            cuda.empty_cache()
        elif verb in "zr":
            cuda.reset_peak_memory_stats()
        self.tick()

    def said(self, what):
        names = {"a": "allocated_bytes", "v": "active_bytes", "r": "reserved_bytes", "q": "requested_bytes"}
        if what in "0123456789":
            return self.bytes.get(int(what), 0)
        if what == "n":
            return self._stat("num_alloc_retries") - self.base["num_alloc_retries"]
        if what == "o":
            return int(self._stat("num_ooms") > self.base["num_ooms"])
        if what.lower() not in names:
            return None                     # slack: PyTorch does not count it
        return self._stat(names[what.lower()] + ".all." + ("current" if what.islower() else "peak"))


def number(text):
    return int(text[:-1]) * MIB if text.endswith("M") else int(text)


def check_row(real, name, script):
    """Plays a row of the table; returns what differs."""
    real.clear()
    wrong = []
    if any(number(size) > 1 << 44 for size in re.findall(r":(\d+M?)", script)):
        return ["%s: no tensor is that large" % name]
    for token in script.split():
        verb = token[0]
        if verb in "+!":
            slot, size, stream = re.fullmatch(r"(\d+):(\d+M?)@?(\d*)", token[1:]).groups()
            try:
                real.take(int(slot), number(size), int(stream or 0))
                refused = False
            except Refused:
                refused = True
            if refused != (verb == "!"):
                wrong.append("%s: %s" % (token, "refused" if refused else "taken"))
        elif "=" in token:
            is_, want = real.said(verb), number(token[2:])
            if is_ is not None and is_ != want:
                wrong.append("%s, the real one says %d" % (token, is_))
        else:
            real.do(verb, int(token[1:] or 0))
    return ["%s: %s" % (name, w) for w in wrong]


def mix(value, by):
    return ((value ^ by) * 0x100000001b3) % (1 << 64)


def play(real, tape):
    refused, hashed = 0, 0xcbf29ce484222325
    for event in tape:
        try:
            real.do(*event)
        except Refused:
            refused += 1
        a, v, r = real.said("a"), real.said("v"), real.said("r")
        for value in (a, r) + ((v,) if v != a else ()):
            hashed = mix(hashed, value)
    return [real.said(k) for k in "ARQ"] + [real.said("n"), refused, hashed]


def worker():
    """Runs under the null runtime: jobs from stdin, answers to stdout."""
    jobs = json.load(sys.stdin)
    real = Real()
    out = []
    for kind, *job in jobs:
        if kind == "row":
            out.append(check_row(real, *job))
        else:
            real.clear()
            out.append(play(real, job[0]))
    print(json.dumps(out))


def run(null, mode, capacity, jobs):
    env = dict(os.environ, LD_PRELOAD=" ".join(os.path.join(null, n) for n in ("libnullcuda.so", "libnullnvml.so")),
               NULLCUDA_LAG="1" if mode & LAGGING else "0", PYTHONWARNINGS="ignore", TORCH_CPP_LOG_LEVEL="ERROR", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:%s" % bool(mode & EXPANDABLE))
    env.update(NULLCUDA_TOTAL_BYTES=str(TOTAL), CAPACITY=str(capacity))     # others have the rest of the device: addresses do not run out
    p = subprocess.run([sys.executable, os.path.abspath(__file__), "worker"], input=json.dumps(jobs), env=env, check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(p.stdout.splitlines()[-1])


def rows_of(source):
    """name, mode, capacity, script of every row of the table in test_alloc.c."""
    table = source[source.index("rule[] = {"):]
    table = table[:table.index("\n};")]
    modes = {"PLAIN": 0, "EXPANDABLE": EXPANDABLE, "LAGGING": LAGGING, "EXPANDABLE | LAGGING": EXPANDABLE | LAGGING}
    return [(name, modes[mode], number(capacity), script)
            for name, mode, capacity, script in re.findall(r'\{"([^"]*)", ([A-Z| ]+), "(\d+M?)",\s*"([^"]*)"\}', table) if "TIMED" not in mode]


def check_rules(null, path):
    rows = rows_of(open(path).read())
    wrong = []
    for key in sorted({(r[1], r[2]) for r in rows}):
        for said in run(null, *key, [("row", r[0], r[3]) for r in rows if (r[1], r[2]) == key]):
            wrong += said
    print("%d rows, %d differ" % (len(rows), len(wrong)), *wrong, sep="\n  ")
    return bool(wrong)


def random_tape(seed, sizes, events, slots, streams):
    rng = random.Random(seed)
    live, idle, out, target, marked = [], list(range(slots)), [], 0, False
    while len(out) < events:
        dice = rng.random()
        if rng.random() < 0.01:
            target = rng.randint(0, slots)
        if dice < 0.004:
            out.append(("e",))
        elif dice < 0.006:
            out.append(("r",))
        elif dice < 0.012:
            out.append(("y",))
        elif dice < 0.05:
            out.append(("w",) if marked else ("m",))
            marked = not marked
        elif dice < 0.15 and live:
            out.append(("x", rng.choice(live)))
        elif idle and (not live or rng.random() < (0.65 if len(live) < target else 0.35)):
            slot = idle.pop(rng.randrange(len(idle)))
            live.append(slot)
            out.append(("+", slot, rng.choice(sizes), rng.randrange(streams)))
        else:
            slot = live.pop(-1 if rng.random() < 0.4 else rng.randrange(len(live)))
            idle.append(slot)
            out.append(("-", slot))
    return out


def sizes_of(rng, kind):
    small = [rng.randint(1, MIB) for _ in range(20)] + [512, MIB, MIB - 512]
    large = [rng.randint(MIB + 1, 40 * MIB) for _ in range(20)] + [MIB + 1, 10 * MIB - 512, 10 * MIB, 20 * MIB]
    return {"mixed": small + large, "large": large, "few": [rng.choice(large) for _ in range(4)] + [rng.choice(small) for _ in range(3)]}[kind]


def write(path, title, tape, expects):
    sizes = sorted({e[2] for e in tape if e[0] == "+"})
    index = {b: i for i, b in enumerate(sizes)}
    tokens = ["+%d:%d:%d" % (e[1], index[e[2]], e[3]) if e[0] == "+" else e[0] + (str(e[1]) if len(e) > 1 else "") for e in tape]
    with open(path, "w") as f:
        f.write("# %s\nslots %d\nsizes %d %s\n" % (title, 1 + max(e[1] for e in tape if len(e) > 1), len(sizes), " ".join(map(str, sizes))))
        f.write("".join("expect %s\n" % " ".join(map(str, e)) for e in expects) + "events %d\n" % len(tokens))
        for i in range(0, len(tokens), 24):
            f.write(" ".join(tokens[i:i + 24]) + "\n")
    print(path, "%d events" % len(tokens), *expects, sep="\n  ")


def make_tapes(null, out):
    for seed, kind, events, slots, streams in TAPES:
        tape = random_tape(seed, sizes_of(random.Random(seed), kind), events, slots, streams)
        expects = []
        for mode in range(4):
            name = ("lagging-" if mode & LAGGING else "") + ("expandable" if mode & EXPANDABLE else "default")
            whole = run(null, mode, 0, [("tape", tape)])[0]
            tight = int(whole[1] * 0.8) // (2 * MIB) * 2 * MIB
            expects += [[name, 0] + whole, [name, tight] + run(null, mode, tight, [("tape", tape)])[0]]
        write(os.path.join(out, "streams-%d-%s.tape" % (seed, kind)), "random tape over %d streams, seed %d" % (streams, seed), tape, expects)


def read(path):
    """Lines of the head, expects and events of a tape."""
    lines = open(path).read().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("events"))
    sizes = next(line for line in lines if line.startswith("sizes")).split()[2:]
    tape = []
    for token in " ".join(lines[at + 1:]).split():
        numbers = [int(n) for n in token[1:].split(":") if n]
        if token[0] == "+":
            tape.append(("+", numbers[0], int(sizes[numbers[1]])) + tuple(numbers[2:]))
        else:
            tape.append((token[0],) + tuple(numbers))
    return lines, tape


def expect_anew(null, paths, only):
    for path in paths:
        lines, tape = read(path)
        for i, line in enumerate(lines):
            if not line.startswith("expect") or only not in line:
                continue
            name, capacity = line.split()[1:3]
            mode = (EXPANDABLE if "expandable" in name else 0) | (LAGGING if "lagging" in name else 0)
            new = " ".join(map(str, ["expect", name, capacity] + run(null, mode, int(capacity), [("tape", tape)])[0]))
            if new != line:
                print(path, line, new, sep="\n  ")
            lines[i] = new
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")


def main():
    if sys.argv[1:] == ["worker"]:
        return worker()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rules", "tapes", "expect"))
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--null", required=True)
    parser.add_argument("--out")
    parser.add_argument("--only", default="", help="expect: lines with this word")
    args = parser.parse_intermixed_args()
    if args.what == "rules":
        return check_rules(args.null, args.paths[0])
    return expect_anew(args.null, args.paths, args.only) if args.what == "expect" else make_tapes(args.null, args.out)


if __name__ == "__main__":
    sys.exit(main())
