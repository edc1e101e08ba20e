"""What scripts share that trace each case in a process of its own, by themselves under --trace."""
import json
import os
import subprocess
import sys

from make_stages import FIGURES
from make_stages_dist import figures

HERE = os.path.dirname(os.path.abspath(__file__))


def remake(name, group, cases, only, request_of, python, arguments):
    """name.jsonl, written behind each case (its name, its method, ..) whose name holds `only`; `request_of` makes what TRACED_REQUEST holds."""
    path, rows = os.path.join(HERE, name + ".jsonl"), {}
    if only and os.path.exists(path):
        rows = {row["id"]: row for row in map(json.loads, open(path, encoding="utf-8"))}
    for case in cases:
        if only not in case[0]:
            continue
        request, single = request_of(case), case[1] == "single"
        told = subprocess.run([python, os.path.abspath(sys.argv[0]), "--trace", *arguments], env=dict(os.environ, TRACED_REQUEST=json.dumps(request)), stdout=subprocess.PIPE).stdout
        if b"\n{" not in told:
            print("no figures: " + case[0], file=sys.stderr)
            continue
        result = json.loads(told[told.rindex(b"\n{"):])
        if case[1] == "tp":
            request["stack"] = dict(request["stack"], framework="torch")
        made = {k: result[k] for k in FIGURES if k in result} if single else figures(result, False)
        if result.get("of_ranks", 1) > 1:  # each of the figures is that of the rank where it is highest, phases are one rank's
            made.pop("phase_peaks_bytes", None)
        if case[1] == "pp":
            made["resting_bytes"] = result["resting_allocated_bytes"]
        if case[1] == "zero3":  # make_dist_cases.py: how long blocks wait for other streams is told as a range
            made["active_between"] = made.pop("peak_active_bytes")
        rows[name + "/" + case[0]] = {"id": name + "/" + case[0], "group": ("one GPU, " if single else "several GPUs, ") + group, "body": json.dumps(request, separators=(",", ":")), **made}
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(rows[k], separators=(",", ":")) + "\n" for k in [name + "/" + c[0] for c in cases] if k in rows)
