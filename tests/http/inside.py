"""?timeline and /estimate/snapshot: their peaks are the answer's. inside.py"""
import json
import os
import pickle
import pickletools
import subprocess
import tempfile
import unittest
from urllib.parse import urlencode

from daemon import LLMEMD, Daemon, main

QUESTIONS = [
    {"model": "gpt2", "gpu": "T4", "micro_batch_size": 2},
    {"model": "gpt2", "gpu": "T4", "micro_batch_size": 2, "expandable_segments": "true"},
    {"model": "Qwen/Qwen2.5-7B", "gpu": "RTX 4090", "tuning": "lora"},
    {"model": "facebook/opt-1.3b", "gpu": "A100-80GB", "gpus": 4, "methods": "fsdp2", "micro_batch_size": 1, "seq_len": 512},
    {"model": "facebook/opt-1.3b", "gpu": "A100-80GB", "gpus": 2, "methods": "zero3", "micro_batch_size": 1, "seq_len": 512},
    {"model": "facebook/opt-1.3b", "gpu": "T4", "micro_batch_size": 8, "methods": "single", "tuning": "full"},  # does not fit
]


# unpickle() of torch/utils/viz/MemoryViz.js; a LONG1 of more than eight bytes is a BigInt there, with which it cannot add.
READ_BY_MEMORY_VIZ = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "LONG1", "LONG_BINPUT", "LONG_BINGET", "NEWTRUE",
                      "NEWFALSE", "TUPLE2", "STOP"}


def replay(snapshot):
    """(peak, end) of what the trace allocates; every block must lie within a segment that is there, beside no other."""
    live, segments, total, peak = {}, {}, 0, 0
    for e in snapshot["device_traces"][0]:
        if e["action"] in ("segment_alloc", "segment_map"):
            segments[e["addr"]] = e["size"]
        elif e["action"] in ("segment_free", "segment_unmap"):
            segments.pop(e["addr"], None)
        elif e["action"] == "alloc":
            assert e["addr"] not in live, e
            live[e["addr"]] = e["size"]
            total += e["size"]
            peak = max(peak, total)
        elif e["action"] == "free_completed":
            assert live.pop(e["addr"]) == e["size"], e
            total -= e["size"]
    blocks = sorted(live.items())
    for (at, size), (following, _) in zip(blocks, blocks[1:]):
        assert at + size <= following
    return peak, total


class Inside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.d.stop()

    def get(self, path, question):
        status, headers, body = self.d.ask("GET", "%s?%s" % (path, urlencode(question)))
        return status, headers, body

    def test_the_timeline(self):
        for question in QUESTIONS:
            with self.subTest(question):
                status, _, body = self.get("/estimate", dict(question, timeline="true"))
                self.assertEqual(status, 200)
                answer = json.loads(body)
                t, memory = answer["timeline"], answer["candidates"][0]["memory"]
                n = len(t["at"])
                self.assertGreater(n, 50)
                self.assertEqual(max(t["allocated_bytes"]), memory["peak_allocated_bytes"])
                self.assertEqual(sorted(t["at"]), t["at"])
                for i in range(n):
                    self.assertEqual(sum(row[i] for row in t["by_category"].values()), t["allocated_bytes"][i])
                    self.assertGreaterEqual(t["reserved_bytes"][i], t["allocated_bytes"][i])
                peaks = {}
                for phase, allocated in zip(t["phase"], t["allocated_bytes"]):
                    peaks[phase] = max(peaks.get(phase, 0), allocated)
                self.assertEqual(peaks[memory["peak_phase"]], memory["peak_allocated_bytes"])
                self.assertEqual({len(t[k]) for k in ("op", "module", "category", "bytes")}, {n})
                self.assertEqual([x["bytes"] for x in t["largest"]], sorted((x["bytes"] for x in t["largest"]), reverse=True))

    def test_the_snapshot(self):
        for question in QUESTIONS:
            with self.subTest(question):
                answer = json.loads(self.get("/estimate", question)[2])
                memory = answer["candidates"][0]["memory"]
                status, headers, body = self.get("/estimate/snapshot", question)
                self.assertEqual((status, headers["content-type"]), (200, "application/octet-stream"))
                self.assertEqual({o.name for o, _, _ in pickletools.genops(body)} - READ_BY_MEMORY_VIZ, set())
                self.assertTrue(all(isinstance(a, int) and a < 2**63 for o, a, _ in pickletools.genops(body) if o.name == "LONG1"))
                snapshot = pickle.loads(body)
                peak, end = replay(snapshot)
                self.assertEqual(peak, memory["peak_allocated_bytes"])
                self.assertEqual(end, sum(s["allocated_size"] for s in snapshot["segments"]))
                for s in snapshot["segments"]:
                    self.assertEqual(sum(b["size"] for b in s["blocks"]), s["total_size"])
                    at = s["address"]
                    for b in s["blocks"]:
                        self.assertEqual(b["address"], at)
                        at += b["size"]
                frames = {f["name"] for e in snapshot["device_traces"][0] for f in e["frames"]}
                self.assertTrue({"aten::empty", "parameters", "backward", "optimizer"} <= frames, sorted(frames)[:40])

    def test_what_has_no_step(self):
        status, _, body = self.get("/estimate/snapshot", {"model": "gpt2", "gpu": "T4", "optimizer": "galore_adamw"})
        self.assertEqual(status, 422)
        self.assertIn("no step", json.loads(body)["detail"])

    def test_what_generates_has_no_step(self):
        status, _, body = self.get("/estimate/snapshot", {"model": "gpt2", "gpu": "T4", "workload": "inference"})
        self.assertEqual((status, json.loads(body)["pointer"]), (422, "/workload"))

    def test_what_is_too_long(self):
        status, _, body = self.get("/estimate/snapshot", {"model": "gpt2", "gpu": "A100-80GB", "gradient_accumulation_steps": 16384, "micro_batch_size": 1, "seq_len": 8})
        self.assertEqual(status, 422)
        self.assertIn("gradient_accumulation_steps", json.loads(body)["detail"])

    def test_the_program_writes_the_same(self):
        question = {"model": "gpt2", "cluster": {"gpu": "T4"}, "training": {"micro_batch_size": 2}}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.pickle")
            done = subprocess.run([LLMEMD, "estimate", "--snapshot", path], input=json.dumps(question).encode(), capture_output=True)
            self.assertEqual((done.returncode, done.stdout), (0, b""))
            with open(path, "rb") as f:
                self.assertEqual(f.read(), self.get("/estimate/snapshot", {"model": "gpt2", "gpu": "T4", "micro_batch_size": 2})[2])
            self.assertEqual(subprocess.run([LLMEMD, "estimate", "--snapshot", path, "--model", "gpt2", "--gpu", "nothing"],
                                            capture_output=True).returncode, 2)


if __name__ == "__main__":
    main(unittest)
