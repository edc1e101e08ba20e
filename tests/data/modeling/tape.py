#!/usr/bin/env python3
"""tape.py EVENTS.csv 'OPTIONS' [STACK] > NAME_1.tape: the tracer's --events as test_modeling reads them; STACK: of another release, 2.7/4.53/0.16."""
import csv
import json
import sys

lines, line = ["options " + json.dumps(json.loads(sys.argv[2]))] + ["stack " + name for name in sys.argv[3:]], ""
for row in csv.DictReader(open(sys.argv[1])):
    if row["kind"] not in ("alloc", "free"):
        continue
    word = "+" + row["bytes"] if row["kind"] == "alloc" else "-" + row["id"]
    if len(line) + len(word) >= 140:
        lines.append(line)
        line = ""
    line += " " + word if line else word
print("\n".join(lines + [line]))
