"""snapshot.py URL: the real module reads what llmemd writes, and finds the answer's peak in it."""
import json
import pickle
import sys
import urllib.request

from torch.cuda import _memory_viz

QUESTIONS = ["model=Qwen/Qwen2.5-7B&gpu=RTX+4090&tuning=lora", "model=gpt2&gpu=T4&micro_batch_size=2&expandable_segments=true",
             "model=facebook/opt-1.3b&gpu=A100-80GB&gpus=4&methods=fsdp2&micro_batch_size=1&seq_len=512"]


def get(path):
    with urllib.request.urlopen(sys.argv[1] + path, timeout=120) as r:
        return r.read()


for question in QUESTIONS:
    memory = json.loads(get("/estimate?" + question))["candidates"][0]["memory"]
    snapshot = pickle.loads(get("/estimate/snapshot?" + question))
    trace = snapshot["device_traces"][0]
    total = peak = 0
    for e in trace:
        total += {"alloc": 1, "free_completed": -1}.get(e["action"], 0) * e["size"]
        peak = max(peak, total)
    assert peak == memory["peak_allocated_bytes"], (peak, memory["peak_allocated_bytes"])
    said = _memory_viz.segsum(snapshot)
    for member, name in (("total_size", "total_reserved"), ("requested_size", "total_allocated")):  # it counts what was asked for
        assert "%s: %s\n" % (name, _memory_viz.Bytes(sum(s[member] for s in snapshot["segments"]))) in said, said
    text = _memory_viz.trace(snapshot)
    assert "%d entries" % len(trace) in text and "= cudaMalloc(" in text or "expandable" in question, text[:300]
    for plot in (_memory_viz.trace_plot, _memory_viz.segment_plot):
        assert "MemoryViz.js" in plot(snapshot)
    print("snapshot: %s: %d entries, peak %d as answered" % (question, len(trace), peak))
