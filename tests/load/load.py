"""Everything at once, for minutes: what is asked of a daemon on a bad day, and after each answer whether it was one that may be given.

    load.py [--minutes 1] [--seed 1] [--callers 16]      LLMEMD names the program; a sanitizer's report anywhere is a failure

Cheap and dear questions, batches, bad requests, callers who leave or dawdle, a hub with faults, SIGHUP now and then, SIGTERM in the middle of it.
Python's standard library only.
"""
import argparse
import collections
import gzip
import http.client
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for room in ("http", "hub", "peers"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
sys.dont_write_bytecode = True
from callers import CONFIG, question  # noqa: E402
from daemon import SLOW, Daemon  # noqa: E402
from lookalike import Handler, Hub, Repo  # noqa: E402


def load_worst():
    path = os.path.join(HERE, "../../tools/worst")
    spec = importlib.util.spec_from_loader("worst", importlib.machinery.SourceFileLoader("worst", path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORST = load_worst()
FAULTS = sorted(n for n in vars(Handler) if n in """elsewhere relative cross_host and_back other_port loop to_file to_gopher to_user to_inside to_port to_nowhere
no_commit bad_commit two_commits gzipped gzip_truncated gzip_broken bomb huge short cut_header cut_once not_http proxy portal bom nan duplicates deep nested latin
a_list empty forbidden expired bad_request teapot linked slow drip endless nearly_limited""".split())
HUB = {200, 400, 401, 403, 404, 422, 429, 502, 503, 504}  # what trouble with a hub may be told as
NO_ROOM = {429, 503}
# A tape that is kept makes room for a shorter one: once that left the arena's mark above its end, which AddressSanitizer told.
THREADS = 4
ENOUGH_MIB = (250 + THREADS * 512) // 2  # docs/operations.md, Sizing: half of what is never reached
SANITIZED = 10  # times as much memory: ThreadSanitizer takes five to ten (clang.llvm.org/docs/ThreadSanitizer.html)
SHRINKS = {"config": dict(CONFIG, num_hidden_layers=61, vocab_size=256000, num_attention_heads=4, tie_word_embeddings=True, max_position_embeddings=1 << 20),
           "cluster": {"gpu": {"memory_bytes": 1 << 40, "bf16_tflops": 1000, "memory_gbs": 3000, "compute_capability": "9.0", "multiprocessors": 132},
                       "gpus_per_node": 3, "nodes": 64, "host_memory_bytes_per_node": 1 << 40}, "training": {"seq_len": 2048}}
MIB = 1 << 20


class Load:
    def __init__(self, daemon, admin, minutes, seed):
        self.daemon, self.admin, self.seed = daemon, admin, seed
        self.end = time.time() + 60 * minutes
        self.counts, self.wrong, self.bytes_of = collections.Counter(), [], {}
        self.lock = threading.Lock()
        self.leaving = False  # SIGTERM was sent: who is not answered has been told so, or came too late

    # --- what is asked ---------------------------------------------------------------------------------------------------------------

    def connect(self, timeout):
        return http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=timeout)

    def ask(self, c, kind, method, path, body, expected, headers=None):
        """One request on a connection that is kept; its answer is whole, of a status that is expected, and JSON where it says so."""
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        got = r.read()
        self.note(kind, r.status)
        if r.status not in expected:
            self.complain("%s: %d to %s %s %.300r: %.300r" % (kind, r.status, method, path, body, got))
        if r.getheader("Content-Encoding") == "gzip":
            got = gzip.decompress(got)
        if got and "json" in r.getheader("Content-Type", "") and "ndjson" not in r.getheader("Content-Type"):
            try:
                json.loads(got)
            except ValueError as e:
                self.complain("%s: no JSON (%s): %.300r" % (kind, e, got[-300:]))
        return r, got

    def note(self, kind, status):
        with self.lock:
            self.counts[kind, status] += 1

    def complain(self, what):
        with self.lock:
            if not self.leaving:
                self.wrong.append(what)

    # --- kinds of requests; each gets a connection and a generator ---------------------------------------------------------------------

    def cheap(self, c, r):
        n = r.randrange(40 if r.random() < 0.6 else 12000)
        headers = {"Accept-Encoding": "gzip"} if r.random() < 0.3 else {}
        if r.random() < 0.1:
            headers["traceparent"] = "00-%032x-%016x-01" % (r.getrandbits(128) | 1, r.getrandbits(64) | 1)
        answer, got = self.ask(c, "cheap", "POST", "/estimate", question(n), {200}, headers)
        if answer.status == 200:
            with self.lock:
                before = self.bytes_of.setdefault(n, got)
            if before != got:
                self.complain("cheap: question %d has two answers" % n)

    def reading(self, c, r):
        path = r.choice(["/gpus", "/models", "/clusters", "/methods", "/", "/openapi.yaml", "/healthz", "/readyz", "/metrics", "/dtypes",
                         "/estimate?model=gpt2&gpu=T4&seq_len=%d&methods=single" % r.randrange(8, 400)])
        self.ask(c, "reading", r.choice(["GET", "GET", "HEAD"]), path, None, {200} | (HUB if "estimate" in path else set()))

    def dear(self, c, r):
        rq = SHRINKS if r.random() < 0.05 else {"config": WORST.config(r), "cluster": WORST.cluster(r), "training": {"seq_len": r.choice([128, 2048, 8192])}}
        self.ask(c, "dear", "POST", "/estimate", json.dumps(rq), {200, 422} | NO_ROOM)

    def batch(self, c, r):
        items = [json.loads(question(r.randrange(12000))) for _ in range(r.randrange(1, 30))]
        for i in range(r.randrange(4)):
            items.append({"model": "org/m%d" % r.randrange(3000), "cluster": {"gpu": "T4"}, "training": {"seq_len": 64, "methods": "single"}})
        items.append(r.choice([{"model": 7}, {}, {"model": "fault/" + r.choice(FAULTS), "cluster": {"gpu": "T4"}}]))
        headers = {"Accept": "application/x-ndjson"} if r.random() < 0.5 else {}
        answer, got = self.ask(c, "batch", "POST", "/estimate/batch", json.dumps({"requests": items}), {200} | NO_ROOM, headers)
        if answer.status == 200:
            results = [json.loads(line) for line in got.splitlines()] if headers else json.loads(got)["results"]
            if len(results) != len(items):
                self.complain("batch: %d results of %d" % (len(results), len(items)))

    def from_hub(self, c, r):
        model = "org/m%d" % r.randrange(4000) if r.random() < 0.6 else r.choice(["lab/gated", "lab/private", "nobody/is/here", "nobody/here"])
        headers = {"X-HF-Token": r.choice(["hf_good", "hf_%d" % r.randrange(100)])} if r.random() < 0.4 else {}
        self.ask(c, "hub", "POST", "/estimate", question(r.randrange(30), model), HUB, headers)

    def fault(self, c, r):
        self.ask(c, "fault", "GET", "/models/fault/%s?revision=r%d" % (r.choice(FAULTS), r.randrange(50)), None, HUB)

    def bad(self, c, r):
        good = question(r.randrange(100))
        method, path, body, expected = r.choice([
            ("POST", "/estimate", good[:r.randrange(1, len(good))], {400}), ("POST", "/estimate", "{}", {422}), ("POST", "/estimate", b"\xff\xfe" + good.encode(), {400}),
            ("POST", "/estimate", good.replace("seq_len", "seq_len" + "x" * r.randrange(1, 4)), {422, 200}), ("POST", "/estimate", "[" * 5000, {400, 422}),
            ("POST", "/nowhere", good, {404}), ("DELETE", "/estimate", None, {405}), ("GET", "/models/%2e%2e/etc/passwd", None, {400, 404, 422}),
            ("POST", "/estimate", good.replace("A100-40GB", "A1000"), {422}), ("POST", "/estimate", " " * (MIB + r.randrange(100000)), {413}),
            ("GET", "/estimate?seq_len=%d&gpu" % r.randrange(99), None, {400, 422}), ("POST", "/estimate/batch", '{"requests": []}', {422} | NO_ROOM),
            ("GET", "/" + "a" * 9000, None, {400, 414, 431}), ("POST", "/estimate", json.dumps({"u%d" % i: i for i in range(3000)}), {422, 413, 400})])
        self.ask(c, "bad", method, path, body, expected, {"Content-Type": "text/plain"} if r.random() < 0.05 and method == "GET" else {})

    def raw(self, c, r):
        """Bytes that are no request, or that say twice where they end: an answer or a cut, no more."""
        data = r.choice([b"\x16\x03\x01" + r.randbytes(200), b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\r\n\r\n\r\n", b"GET /\r\n\r\n", r.randbytes(r.randrange(1, 5000)),
                         b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                         b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % r.getrandbits(64),
                         b"GET /gpus HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n folded\r\n\r\n", b"G\x1bT / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=40) as s:
            s.settimeout(r.choice([0.2, 2]))
            s.sendall(data)
            try:
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
        self.note("raw", "-")

    def leave(self, c, r):
        """Asks and is gone before, while or after it is answered."""
        if r.random() < 0.5:
            body = json.dumps({"config": WORST.config(r), "cluster": WORST.cluster(r), "training": {"seq_len": 512}}).encode()
            path = b"/estimate"
        else:
            body = json.dumps({"requests": [json.loads(question(r.randrange(12000))) for _ in range(40)]}).encode()
            path = b"/estimate/batch"
        whole = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path, len(body)) + body
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=20) as s:
            s.sendall(whole[:r.choice([len(whole), r.randrange(1, len(whole))])])
            time.sleep(r.choice([0, 0.001, 0.05, 0.5]))
            if r.random() < 0.3:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
        self.note("leave", "-")

    def dawdle(self, c, r):
        """A request in small pieces; then the answer is read in small pieces, too."""
        body = question(r.randrange(100)).encode()
        whole = b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=60) as s:
            at, n = 0, r.randrange(20, 200)
            while at < len(whole):
                s.sendall(whole[at:at + n])
                at += n
                time.sleep(0.02)
            got = b""
            while True:
                more = s.recv(r.choice([100, 4096, 65536]))
                if not more:
                    break
                got += more
        status = int(got.split()[1]) if got.startswith(b"HTTP/1.1 ") else 0
        self.note("dawdle", status)
        if status != 200:
            self.complain("dawdle: %.200r" % got)

    KINDS = [(cheap, 40), (reading, 8), (dear, 3), (batch, 4), (from_hub, 12), (fault, 6), (bad, 14), (raw, 4), (leave, 4), (dawdle, 3)]

    def caller(self, number):
        r, c, patience = random.Random(self.seed * 1000 + number), None, 400 if SLOW else 120
        kinds, weights = zip(*self.KINDS)
        while time.time() < self.end and not self.leaving:
            kind = r.choices(kinds, weights)[0]
            c = c if c and r.random() < 0.95 else self.connect(patience)
            try:
                kind(self, c, r)
            except (OSError, http.client.HTTPException) as e:
                # Of a kept connection that the other side has just closed; once more on a new one, and then it counts.
                c.close()
                if isinstance(e, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)) and kind.__name__ != "dawdle":
                    self.note(kind.__name__, "again")
                else:
                    self.complain("%s: %r" % (kind.__name__, e))
                c = None

    # --- beside them -------------------------------------------------------------------------------------------------------------------

    def resident(self):
        with open("/proc/%d/statm" % self.daemon.process.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def watch(self, ret):
        """Probes on the admin listener, memory, SIGHUP now and then."""
        r = random.Random(self.seed)
        while time.time() < self.end:
            began = time.time()
            status, _, _ = self.daemon.ask("GET", r.choice(["/healthz", "/readyz", "/metrics"]), port=self.admin, timeout=30)
            ret["probe_s"].append(time.time() - began)
            if status != 200:
                self.complain("a probe reads %d" % status)
            ret["resident"].append(self.resident())
            if r.random() < 0.1:
                self.daemon.process.send_signal(signal.SIGHUP)
                ret["reloads"] += 1
            time.sleep(1)

    def open_files(self):
        return len(os.listdir("/proc/%d/fd" % self.daemon.process.pid))


def quiet(load, daemon, files):
    """When all have gone nothing of them is left."""
    end = time.time() + (120 if SLOW else 40)
    while True:
        m = daemon.metrics()
        left = {n: m["llmemd_" + n] for n in ("requests_in_flight", "requests_waiting", "workers_busy", "queue_length", "batches", "connections")}
        if left == {"requests_in_flight": "1", "requests_waiting": "0", "workers_busy": "0", "queue_length": "0", "batches": "0", "connections": "1"}:
            break
        if time.time() > end:
            load.complain("left behind: %s" % left)
            break
        time.sleep(0.2)
    if load.open_files() > files + 24:  # connections to the hub are kept
        load.complain("%d files are open, %d at the start" % (load.open_files(), files))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--minutes", type=float, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--callers", type=int, default=8 if SLOW else 16)
    a = p.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        admin = s.getsockname()[1]
    with Hub(0) as hub:
        for i in range(4000):
            hub.repos["org/m%d" % i] = Repo(dict(CONFIG, num_hidden_layers=1 + i % 4), delay=0.5 if i % 50 == 0 else 0)
        hub.repos["lab/gated"] = Repo(CONFIG, gated="auto", allowed={"hf_good"})
        hub.repos["lab/private"] = Repo(CONFIG, private=True, allowed={"hf_good"})
        daemon = Daemon("--admin-listen", "127.0.0.1:%d" % admin, "--answers-mib", "16", "--hub-timeout", "3000", "--hub-connect", "1000", "--hub-fresh", "20", "--threads", str(THREADS),
                        "--work-budget", "3000000" if SLOW else "20000000", "--log", "json", env={"HF_ENDPOINT": hub.endpoint}, drop=("HF_HUB_OFFLINE", "HF_TOKEN"))
        load = Load(daemon, admin, a.minutes, a.seed)
        files, seen = load.open_files(), {"probe_s": [], "resident": [], "reloads": 0}
        callers = [threading.Thread(target=load.caller, args=(i,), daemon=True) for i in range(a.callers)]
        watcher = threading.Thread(target=load.watch, args=(seen,), daemon=True)
        for t in callers + [watcher]:
            t.start()
        for t in callers + [watcher]:
            t.join(60 * a.minutes + 500)
        quiet(load, daemon, files)
        # And once more, to be ended in the middle of it.
        load.end, load.seed = time.time() + 20, a.seed + 1
        callers = [threading.Thread(target=load.caller, args=(i,), daemon=True) for i in range(a.callers)]
        for t in callers:
            t.start()
        time.sleep(3)
        load.leaving = True
        began = time.time()
        code, log = daemon.stop()
        gone_s = time.time() - began
    report(load, seen, code, log, gone_s)


def report(load, seen, code, log, gone_s):
    rss = seen["resident"]
    some = max(1, len(rss) // 3)
    third, late = max(rss[:some]), sorted(rss[-some:])[some // 2]
    for kind in sorted({k for k, _ in load.counts}):
        print("%-8s %s" % (kind, "  ".join("%s: %d" % (s, n) for (k, s), n in sorted(load.counts.items(), key=str) if k == kind)))
    print("%d requests, %d reloads; resident MiB: %d at most in the first third, %d later, %d in the middle of the last; slowest probe %.3f s; gone after %.1f s"
          % (sum(load.counts.values()), seen["reloads"], third / MIB, max(rss) / MIB, late / MIB, max(seen["probe_s"]), gone_s))
    if code:
        load.wrong.append("exit status %d" % code)
    if max(rss) > ENOUGH_MIB * (SANITIZED if SLOW else 1) * MIB or late > 1.5 * third + 100 * MIB:
        load.wrong.append("memory grows")
    if gone_s > 32:
        load.wrong.append("gone after %.1f s only" % gone_s)
    if max(seen["probe_s"]) > (20 if SLOW else 2):
        load.wrong.append("a probe waited %.1f s" % max(seen["probe_s"]))
    for line in log.splitlines():
        if '"level":"error"' in line.replace(" ", "") or not (line.startswith("{") or line in ("reloaded",) or line.startswith(("llmemd: ", "probes and"))):
            load.wrong.append("in the log: " + line)
    for w in load.wrong[:20]:
        print("WRONG " + w)
    if len(load.wrong) > 20:
        print("and %d more" % (len(load.wrong) - 20))
    sys.exit(1 if load.wrong else 0)


if __name__ == "__main__":
    main()
