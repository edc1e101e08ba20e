"""Questions that take longest. work.py"""
import concurrent.futures
import json
import os
import select
import signal
import subprocess
import time
import unittest

from daemon import BODY, LLMEMD, SLOW, Daemon, main, question, read_answer, request

ENDLESS = ("--work-budget", "4000000000")  # minutes
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/worst.jsonl"), encoding="utf-8") as rows:
    WORST = [json.loads(line) for line in rows]
LANES = 'llmemd_lane_busy{lane="%s"}'


def deep(n=0):
    """Three hundred layers, every method, every option that somebody might leave open: what one question may cost at most."""
    return json.dumps({"config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "num_attention_heads": 8,
                                  "num_key_value_heads": 8, "num_hidden_layers": 300, "intermediate_size": 1024 + 8 * n, "vocab_size": 1000,
                                  "max_position_embeddings": 4096, "torch_dtype": "bfloat16"},
                       "cluster": {"gpu": "A100-80GB", "gpus_per_node": 8},
                       "training": {"seq_len": 512, "gradient_accumulation_steps": 2, "attention": ["eager", "sdpa"],
                                    "optimizer": ["adamw_torch", "sgd"], "tuning": "full"}})


def ranks(seq_len=128):
    """Sixty-seven million GPUs: once a loop over each of them, 66 seconds of a core."""
    return json.dumps({"config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
                                  "num_attention_heads": 32, "num_key_value_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000,
                                  "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"},
                       "cluster": {"gpu": "H100 SXM", "gpus_per_node": 1024, "nodes": 65536}, "training": {"seq_len": seq_len}})


def reason(candidate):
    return (candidate.get("reason") or {}).get("code")


class Work(unittest.TestCase):
    def busy(self, d):
        return float(d.metrics()["llmemd_workers_busy"])

    def begin(self, d, n=0):
        """A connection that waits for such an answer, once a worker has begun."""
        s = d.connect(300)
        before = self.busy(d) + float(d.metrics()["llmemd_queue_length"])
        s.sendall(request(deep(n)))
        end = time.time() + 60
        while self.busy(d) + float(d.metrics()["llmemd_queue_length"]) <= before:
            self.assertLess(time.time(), end)
            time.sleep(0.005)
        return s

    def free_within(self, d, seconds):
        began = time.time()
        d.wait_for("llmemd_workers_busy", 0)
        if not SLOW:
            self.assertLess(time.time() - began, seconds)

    def test_a_partial_answer_says_so(self):
        d = Daemon("--work-budget", "3000000")
        status, _, body = d.ask("POST", "/estimate?top=1000", deep())
        self.assertEqual(status, 200)
        answer = json.loads(body)
        cut = [c for c in answer["candidates"] if reason(c) == "budget"]
        self.assertTrue(cut)
        self.assertTrue(all(c["fits"] is None and "memory" not in c for c in cut))
        self.assertEqual(answer["work"]["budget"], 3000000)
        self.assertGreater(answer["work"]["events"], 3000000)
        self.assertLess(answer["work"]["events"], 3100000)
        self.assertTrue(any("partial" in w and "%d of %d" % (len(cut), answer["candidates_total"]) in w for w in answer["warnings"]))
        self.assertEqual(d.metrics()['llmemd_work_events_bucket{route="/estimate",le="2000000"}'], "0")
        self.assertEqual(d.metrics()['llmemd_work_events_count{route="/estimate"}'], "1")
        self.assertEqual(d.stop()[0], 0)

    def test_equal_bytes_whatever_else_runs(self):
        """Put off for the sake of cheaper ones, begun anew, beside others or alone."""
        answers = set()
        for threads in ("1", "3"):
            d = Daemon("--work-budget", "1500000", "--threads", threads, "--answers", "0", "--deadline", "300")
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                same = [pool.submit(d.ask, "POST", "/estimate", deep(), timeout=300) for _ in range(3)]
                others = [pool.submit(d.ask, "POST", "/estimate", deep(i), timeout=300) for i in (1, 2, 3)]
                answers |= {f.result()[2] for f in same}
                self.assertEqual({f.result()[0] for f in others}, {200})
            if threads == "1" and not SLOW: # else each may be done before the next has been read
                self.assertGreater(float(d.metrics()["llmemd_jobs_begun_anew_total"]), 0)
            self.assertEqual(d.stop()[0], 0)
        self.assertEqual(len(answers), 1)

    def test_the_deadline_frees_the_worker(self):
        d = Daemon(*ENDLESS, "--threads", "1", "--deadline", "1")
        with self.begin(d) as s:
            status, headers, body, _ = read_answer(s)
        self.assertEqual((status, json.loads(body)["code"], headers["retry-after"]), (503, "overloaded", "1"))
        self.free_within(d, 0.5)
        if not SLOW:
            self.assertEqual(d.ask("POST", "/estimate", BODY)[0], 200)
        self.assertEqual(d.stop()[0], 0)

    def test_who_hangs_up_frees_the_worker(self):
        d = Daemon(*ENDLESS, "--threads", "1")
        self.begin(d).close()
        self.free_within(d, 1)
        d.wait_for_line("end=left")
        self.assertEqual(d.stop()[0], 0)

    def test_who_hangs_up_in_the_queue_is_not_computed(self):
        d = Daemon(*ENDLESS, "--threads", "1")
        waiting = [self.begin(d, i) for i in range(4)]
        for s in waiting:
            s.close()
        self.free_within(d, 2)
        d.wait_for("llmemd_queue_length", 0)
        self.assertEqual(d.stop()[0], 0)

    def test_the_queue_is_bounded(self):
        d = Daemon(*ENDLESS, "--threads", "1", "--queue", "3")
        waiting = [d.connect(60) for _ in range(12)]
        for i, s in enumerate(waiting):
            s.sendall(request(deep(i)))
        end = time.time() + 30
        while len(refused := select.select(waiting, [], [], 0)[0]) < 12 - 3 - 2 and time.time() < end:  # in each lane one is computed
            time.sleep(0.05)
        self.assertLessEqual(float(d.metrics()["llmemd_queue_length"]), 3)
        self.assertGreaterEqual(len(refused), 12 - 3 - 2)
        self.assertGreaterEqual(float(d.metrics()['llmemd_refused_total{reason="queue"}']), len(refused))
        for s in refused:
            status, headers, body, _ = read_answer(s)
            self.assertEqual((status, json.loads(body)["code"], headers["retry-after"]), (503, "overloaded", "1"))
        for s in waiting:
            s.close()
        self.free_within(d, 2)
        self.assertEqual(d.stop()[0], 0)

    def test_a_batch_that_is_left_frees_its_workers(self):
        d = Daemon(*ENDLESS, "--threads", "2")
        with d.connect(60) as s:
            s.sendall(request('{"requests": [%s, %s]}' % (deep(1), deep(2)), "/estimate/batch"))
            end = time.time() + 60
            while not self.busy(d):
                self.assertLess(time.time(), end)
        self.free_within(d, 1)
        self.assertEqual(d.stop()[0], 0)

    def test_sigterm_under_the_worst_load(self):
        """Gone within the drain and a second; what was finished was delivered, the rest is told."""
        d = Daemon(*ENDLESS, "--drain", "30" if SLOW else "1")
        waiting = [self.begin(d, i) for i in range(8)]
        self.assertEqual(d.ask("POST", "/estimate", question("facebook/opt-350m"))[0], 200)
        small = d.connect(60)
        small.sendall(request(question("facebook/opt-1.3b")))
        began = time.time()
        d.process.send_signal(signal.SIGTERM)
        self.assertEqual(read_answer(small)[0], 200)
        for s in waiting:
            status, _, body, _ = read_answer(s)
            self.assertEqual((status, json.loads(body)["code"]), (503, "draining"))
            s.close()
        small.close()
        self.assertEqual(d.ended()[0], 0)
        if not SLOW:
            self.assertLess(time.time() - began, 2)

    def cpu_s(self, d):
        with open("/proc/%d/stat" % d.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_sizes_beyond_any_memory(self):
        """An answer that says so, whether one tensor or only their sum is too large to count."""
        d = Daemon("--offline", "--log", "none")
        for model, method, batch, checkpointing in (("Qwen/Qwen3-0.6B", "single", 65536, True), ("meta-llama/Llama-3.1-70B", "zero3", 64, False),
                                                    ("meta-llama/Llama-3.1-405B", "single", 1024, False)):
            for attention in ("eager", "sdpa"):
                status, _, body = d.ask("POST", "/estimate", json.dumps({"model": model, "cluster": {"gpu": "A100-80GB"}, "training": {
                    "seq_len": 4194304, "micro_batch_size": batch, "attention": attention, "methods": method, "tuning": "full", "gradient_checkpointing": checkpointing}}))
                answer = json.loads(body)
                self.assertEqual((status, answer["fits"]), (200, False), body[:500])
                self.assertEqual({c["reason"]["code"] for c in answer["candidates"]}, {"does-not-fit"}, body[:500])
                for advice in answer["advice"] or []:
                    self.assertLessEqual(advice["peak_allocated_bytes"], advice["capacity_bytes"])
                if attention == "eager":
                    self.assertIn("is larger than any memory", answer["summary"])
        self.assertEqual(d.stop()[0], 0)

    def test_nothing_deep_is_laid_out_beyond_the_budget(self):
        """A thousand layers: at most the last run of many events stands above the limit, not one of each candidate."""
        d = Daemon("--offline", "--log", "none", "--work-budget", "4000000")
        for batch in (2, 4096):
            status, _, body = d.ask("POST", "/estimate", json.dumps({
                "config": {"model_type": "llama", "hidden_size": 1 << 20, "intermediate_size": 1 << 20, "num_hidden_layers": 1024, "num_attention_heads": 1024,
                           "num_key_value_heads": 1024, "vocab_size": 32000, "max_position_embeddings": 1 << 22},
                "cluster": {"gpu": "H100 SXM"}, "training": {"seq_len": 8192 if batch > 2 else 1 << 22, "micro_batch_size": batch}}))
            answer = json.loads(body)
            self.assertEqual((status, answer["fits"]), (200, None), body[:500])
            self.assertIn("budget", {reason(c) for c in answer["candidates"]})
            self.assertLess(answer["work"]["events"], 1.6 * answer["work"]["budget"])
        self.assertEqual(d.stop()[0], 0)

    def test_sixty_seven_million_ranks(self):
        d = Daemon("--threads", "2", "--drain", "1", "--deadline", "300")
        before = self.cpu_s(d)
        status, _, body = d.ask("POST", "/estimate?top=1000", ranks(), timeout=300)
        if not SLOW:
            self.assertLess(self.cpu_s(d) - before, 6)  # of a build that nothing is optimized in; of a release 2, bench_work
        answer = json.loads(body)
        self.assertEqual((status, answer["recommendation"]["data_parallel"] if answer["recommendation"] else 0), (200, 1024 * 65536))
        self.assertLess(answer["work"]["events"], 1.02 * answer["work"]["budget"])
        self.assertTrue(any(c.get("memory") for c in answer["candidates"]))
        waiting = [d.connect(300) for _ in range(4)]
        for i, s in enumerate(waiting):
            s.sendall(request(ranks(136 + 8 * i)))
        d.wait_for("llmemd_workers_busy", 2)
        self.assertEqual(d.ask("POST", "/estimate", question("facebook/opt-125m"))[0], 200)
        if not SLOW:
            self.assertLess(len(select.select(waiting, [], [], 0)[0]), 3)  # what is cheap has not waited for them
        began = time.time()
        d.process.send_signal(signal.SIGTERM)
        for s in waiting:
            self.assertIn(read_answer(s)[0], (200, 503))
            s.close()
        self.assertEqual(d.ended()[0], 0)
        if not SLOW:
            self.assertLess(time.time() - began, 2)

    def test_the_dearest_questions(self):
        """Those of bench_work, of 16 KB at most: each is answered, and takes no more of a core than a budget is meant for (2 s; twice that on a machine that others use)."""
        d = Daemon("--offline", "--threads", "1", "--answers", "0", "--deadline", "600")
        for q in WORST:
            body, before = json.dumps(q["request"]), self.cpu_s(d)
            self.assertLessEqual(len(body), 16384)
            status, _, answer = d.ask("POST", "/estimate?top=1", body, timeout=600)
            self.assertEqual(status, 200, (q["name"], answer[:300]))
            work = json.loads(answer)["work"]
            self.assertLess(work["events"], 1.6 * work["budget"], q["name"])
            if not SLOW:
                self.assertLess(self.cpu_s(d) - before, 4, q["name"])
        self.assertEqual(d.stop()[0], 0)

    def test_equal_bytes_at_the_wall(self):
        """Where runs are dropped for want of room: in a long body, a short one and the program alone the same ones are."""
        d = Daemon("--offline", "--threads", "1", "--answers", "0", "--deadline", "600")
        body = json.dumps(next(q["request"] for q in WORST if q["name"] == "gemma2, 512 layers, eager attention"))
        alone = subprocess.run([LLMEMD, "estimate", "--offline", "--json"], input=body.encode(), capture_output=True)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        for asked in (body, " " * 900000 + json.dumps(json.loads(body), indent=9)):
            self.assertEqual(d.ask("POST", "/estimate", asked, timeout=600)[2], alone.stdout)
        self.assertEqual(d.stop()[0], 0)

    @unittest.skipIf(SLOW, "a sanitizer's memory")
    def test_what_is_resident(self):
        """Idle at most 16 MB; after answers that nobody asked before what the caches hold and 30 MB. tools/measure-memory asks ten times as many."""
        d = Daemon("--threads", "2")

        def resident():
            time.sleep(0.5)  # what nobody uses goes back
            with open("/proc/%d/statm" % d.process.pid) as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6

        self.assertLess(resident(), 16)
        asked = [json.dumps(dict(json.loads(question("facebook/opt-125m")), margin=i / 2000)) for i in range(1000)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            self.assertEqual(set(pool.map(lambda q: d.ask("POST", "/estimate", q)[0], asked)), {200})
        m = d.metrics()
        self.assertEqual(float(m["llmemd_answer_cache_entries"]), 1000)
        self.assertLess(resident(), float(m["llmemd_answer_cache_bytes"]) / 1e6 + 30)
        self.assertEqual(d.stop()[0], 0)

    def test_what_is_cheap_waits_for_nothing_that_is_dear(self):
        d = Daemon(*ENDLESS, "--threads", "1")
        waiting = [self.begin(d, i) for i in range(8)]
        d.wait_for(LANES % "last", 1, 600 if SLOW else 60)
        for i in range(20):
            self.assertEqual(d.ask("POST", "/estimate", json.dumps(dict(json.loads(question("facebook/opt-125m")), margin=i / 100)))[0], 200)
        self.assertEqual(float(d.metrics()[LANES % "last"]), 1)
        for s in waiting:
            s.close()
        self.free_within(d, 2)
        self.assertEqual(d.stop()[0], 0)


main(unittest)
