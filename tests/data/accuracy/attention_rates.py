#!/usr/bin/env python3
"""Rates of flash attention from attention_rates.csv beside it: the rows of core/perf/attention.c. Python standard library only.

Kernels timed alone: rate x s / (s + start) over the lengths s, the pair that is nearest. Whole training runs: two of the same model and options at two
lengths; what a token takes longer at the longer one is attention's alone: 2 products of heads x head_dim x s forward, the masked half left out, 5
backward, 2 more where a layer is computed again.
"""
import csv
import itertools
import math
import os
import statistics


def flops_per_token(row):
    products = 2 + 5 + 2 * int(row["recompute"])
    return products * int(row["layers"]) * int(row["heads"]) * int(row["head_dim"]) * int(row["seq_len"])


def seconds_per_token(row):
    return float(row["seconds"]) * int(row["n_gpus"]) / int(row["tokens"])


def grouped(rows, keys):
    key = lambda r: tuple(r[k] for k in keys)
    return [(k, list(g)) for k, g in itertools.groupby(sorted(rows, key=key), key)]


def miss(rows, start):
    logs = [math.log(float(r["tflops"]) * (int(r["seq_len"]) + start) / int(r["seq_len"])) for r in rows]
    rate = statistics.median(logs)
    return sum(abs(x - rate) for x in logs), math.exp(rate)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention_rates.csv"), newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    kernels, runs = ([r for r in rows if r["kind"] == kind] for kind in ("kernel", "run"))
    for (kernel, gpu, head_dim), some in grouped(kernels, ("kernel", "gpu", "head_dim")):
        start = min(range(0, 2048, 32), key=lambda s: miss(some, s)[0])
        print("%-8s %-13s heads of %-4s %4.0f TFLOPS x s / (s + %d); at start 512: %.0f, mean miss %.1f %%" %
              (kernel, gpu, head_dim, miss(some, start)[1], start, miss(some, 512)[1], 100 * miss(some, 512)[0] / len(some)))
    for (kernel, gpu), some in grouped(runs, ("kernel", "gpu")):
        rates = []
        for (layers, heads, recompute), pair in grouped(some, ("layers", "heads", "recompute")):
            pair.sort(key=lambda r: int(r["seq_len"]))
            a, b = pair[0], pair[-1]
            if int(b["seq_len"]) >= 4 * int(a["seq_len"]):
                rates.append((flops_per_token(b) - flops_per_token(a)) / (seconds_per_token(b) - seconds_per_token(a)) / 1e12)
        if rates:
            print("%-8s %-13s %d pairs of lengths: median %.0f TFLOPS (%s)" % (kernel, gpu, len(rates), statistics.median(rates), ", ".join("%.0f" % r for r in sorted(rates))))


if __name__ == "__main__":
    main()
