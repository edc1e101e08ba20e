#!/usr/bin/env python3
"""Makes found.jsonl of this folder: requests whose answer was wrong when random comparison found them.

    make_found.py FILE.jsonl CONFIGS [FILE.jsonl ...]
    make_found.py --add FILE.jsonl ID ..    more rows at its end, of what tools/compare-random --keep wrote

Each FILE has rows (a later one's stands for an earlier one's of the same id) {"id", "request", "config_file" or request.config, "result"}, as tracing wrote them.
Left out: biogpt's on transformers 4.40, traced after a refused sdpa had left the default dtype at bf16.
"""
import json
import os
import sys

FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "phase_peaks_bytes")


def row_of(c):
    q, r = c["request"], c["result"]
    resting = r.get("resting_bytes")
    row = {"id": c["id"].replace("-", "/", 1), "group": "found, one GPU" if q["training"]["methods"] == "single" else "found, several GPUs",
           "body": json.dumps(q, separators=(",", ":")), **{k: r[k] for k in FIGURES if k in r}}
    if resting is not None:
        row["resting_bytes"] = resting[-1] if isinstance(resting, list) else resting
    return json.dumps(row, separators=(",", ":")) + "\n"


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.argv[1] == "--add":
        with open(sys.argv[2], encoding="utf-8") as f, open(os.path.join(folder, "found.jsonl"), "a", encoding="utf-8") as out:
            out.writelines(row_of(c) for c in map(json.loads, f) if c["id"] in sys.argv[3:])
        return
    configs = sys.argv[2]
    rows = {}
    for path in [sys.argv[1]] + sys.argv[3:]:
        rows.update((c["id"], c) for c in (json.loads(line) for line in open(path, encoding="utf-8")))
    with open(os.path.join(folder, "found.jsonl"), "w", encoding="utf-8") as out:
        for c in rows.values():
            q = c["request"]
            if "config" not in q:
                with open(os.path.join(configs, c["config_file"]), encoding="utf-8") as f:
                    q = dict(q, config=json.load(f))
            if q["config"]["model_type"] == "biogpt":
                continue
            out.write(row_of(dict(c, request=q)))


if __name__ == "__main__":
    main()
