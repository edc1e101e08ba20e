"""reading.py READING REPORT.md FOLDER..: reads the models of tests/data/reading/cases.jsonl from installed releases and writes what came of it.

Fails where a cell that said `equal` no longer does. READING: build/reading.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

reading, report, *folders = sys.argv[1:]
CASES = "tests/data/reading/cases.jsonl"
RELEASES = ("5.23.0", "4.53.3", "4.40.0")


def release_of(folder):
    for at in (folder, os.path.join(folder, "transformers")):
        init = os.path.join(at, "__init__.py")
        if os.path.exists(init) and (found := re.search(r'^__version__ = "(.*)"', open(init).read(), re.M)):
            return found.group(1), at
    sys.exit(f"{folder}: no transformers")


def runs(case, folder):
    """A type without a true peak: a step of it, or what stops it."""
    said = ask({**case, "options": {"seq_len": 128}, "peak": 0, "at": ""}, folder)
    return "runs" if said.startswith("off by") else said


def ask(case, folder):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(case["config"], config)
        config.flush()
        options = case.get("options", {})
        words = [reading, folder, config.name, json.dumps(options), "--stack", case["stack"]] + ([] if "peak" in case else ["--declare"])
        try:
            out = subprocess.run(words, capture_output=True, text=True, timeout=300).stdout.strip()
        except subprocess.TimeoutExpired:
            return "takes more than 300 s"
    figures = dict(zip(out.split()[::2], out.split()[1::2])) if out.startswith("parameters ") else None
    if not figures:
        return re.sub(r"^(walk|declare|options|classes): (leaves-the-language|modeling-raised|arch-unknown|out-of-memory)? *(/\w+)? *(transformers/)?", "",
                      out) or "ended without a word"
    if "peak" not in case:
        off = int(figures["parameters"]) - case["parameters"]
        return "equal" if not off else f"off by {off:+,}"
    off = int(figures["peak_allocated_bytes"]) - case["peak"]
    return "equal" if not off else f"off by {off:+,} B of {case['peak']:,}, at {case['at']}"


def cell(found):
    """Of several cases: what the worst says."""
    if not found:
        return ""
    worst = [f for f in found if f != "equal"]
    return "equal" if not worst else worst[0].replace("|", "\\|")[:200]


def measure():
    where = dict(release_of(f) for f in folders)
    found, recipes = collections.defaultdict(list), {}
    for line in open(CASES):
        case = json.loads(line)
        recipes[case["type"]] = case["recipes"]
        if case["release"] in where:
            found[case["type"], case["release"], "peak" in case].append(ask(case, where[case["release"]]))
            if "peak" not in case:
                found[case["type"], "runs"] = runs(case, where[case["release"]])
    return where, found, recipes


HEAD = """# What is read of an installed transformers

Made by `make test-peers` (tests/peers/reading.sh) over tests/data/reading/cases.jsonl: each model is made and stepped through by the files of that release
alone (`llmemd serve --transformers DIR`), and held to what the release's own classes and PyTorch gave. **equal** is to the parameter, and to the byte at
the allocated peak of a step; else how far off, and the module and phase of the true peak, or the construct that stopped it with its file and line; *runs*: no
truth is at hand to hold it to. Ordered by how many published recipes are of the type: it is the list of what to widen next.

"""


def write(where, found, recipes):
    rows, sums = [], collections.Counter()
    kinds = sorted({key[0] for key in found}, key=lambda k: (-recipes[k], k))
    for kind in kinds:
        cells = [cell(found.get((kind, RELEASES[0], False), []))] + [cell(found.get((kind, r, True), [])) for r in RELEASES]
        cells[1] = cells[1] or found.get((kind, "runs"), "").replace("|", "\\|")[:200]
        rows.append(f"| {kind} | {recipes[kind] or ''} | " + " | ".join(cells) + " |")
        for at, text in zip(("parameters",) + RELEASES, cells):
            sums[at, "of"] += bool(text) and not (at == RELEASES[0] and (kind, at, True) not in found)
            sums[at, "equal"] += text == "equal"
    said = ", ".join(f"{sums[at, 'equal']} of {sums[at, 'of']} types {what}" for at, what in
                     (("parameters", "to the parameter (5.23.0)"), *((r, f"at the peak of {r}") for r in RELEASES)) if sums[at, "of"])
    return (HEAD + f"Equal: {said}.\n\n| type | recipes | parameters, 5.23.0 | memory, 5.23.0 | 4.53.3 | 4.40.0 |\n|---|---|---|---|---|---|\n"
            + "\n".join(rows) + "\n")


def equal_cells(text):
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ") and not line.startswith("| type")]
    return {(row[0], i) for row in cells for i, c in enumerate(row) if c == "equal"}


where, found, recipes = measure()
text = write(where, found, recipes)
before = open(report).read() if os.path.exists(report) else ""
lost = equal_cells(before) - equal_cells(text) if len(where) == len(RELEASES) else set()
if len(where) == len(RELEASES):
    open(report, "w").write(text)
print(re.search(r"^Equal: .*", text, re.M).group(0))
for kind, column in sorted(lost):
    print(f"no longer equal: {kind}, column {column}")
sys.exit(bool(lost))
