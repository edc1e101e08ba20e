"""The daemon while what the system gives fails, one call after another: memory, descriptors, threads, maps, disk. daemon_torture.py FAIL.so

An answer is the right one, a 5xx that says so, or a closed connection; the next one is right; nothing that failed is remembered; it ends well."""
import http.client
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
import daemon  # noqa: E402
from daemon import LLMEMD, SLOW, Daemon, SlowHub, main, question  # noqa: E402

FAIL = os.path.abspath(sys.argv.pop(1))
MEMORY, FILES, WRITES, THREADS, MAPS = range(5)
NAMES = ("memory", "files", "writes", "threads", "maps")
BATCH = {"requests": [json.loads(question("org/batch-%d" % i)) for i in range(3)]}


class Control:
    """What tests/torture/fail.h lays out, shared with the process that FAIL.so stands in."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(b"\0" * (24 * 5 + 8))
        self.file.flush()
        self.map = mmap.mmap(self.file.fileno(), 24 * 5 + 8)

    def arm(self, kind, at, forever=False):
        struct.pack_into("=QQ", self.map, 24 * kind, 0, int(forever))
        struct.pack_into("=Q", self.map, 24 * kind + 16, 0)
        struct.pack_into("=Q", self.map, 24 * kind, at)

    def disarm(self):
        for kind in range(5):
            struct.pack_into("=QQ", self.map, 24 * kind, 0, 0)

    def seen(self, kind):
        return struct.unpack_from("=Q", self.map, 24 * kind + 16)[0]

    def env(self):
        # An interposer hides from LeakSanitizer who holds what the loader allocated.
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:allocator_may_return_null=1:detect_leaks=0"
        return {"LD_PRELOAD": FAIL, "FAIL_CONTROL": self.file.name, "ASAN_OPTIONS": asan}


def some(n, most):
    """The first of them, then fewer and fewer, the last."""
    most = most // 4 if SLOW else most
    k, out = 1, []
    while k <= n:
        out.append(k)
        k = k + 1 if k < most else k + max(1, k // 8)
    return out


def part(got, wanted):
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), 0)
    return got[max(0, at - 100):at + 300]


class Start(unittest.TestCase):
    def start(self, control):
        """Exit status and what it said, or None and the port."""
        p = subprocess.Popen([LLMEMD, "serve", "--listen", "127.0.0.1:0", "--offline", "--threads", "1", "--event-threads", "1"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ, **control.env()))
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.kill)
        said = ""
        for line in p.stderr:
            said += line
            if line.startswith("listening on"):
                return p, int(line.rsplit(":", 1)[1]), said
        return p, None, said

    def test_each_thing_it_needs_to_start(self):
        control = Control()
        for kind in (MEMORY, FILES, THREADS, MAPS):
            control.disarm()
            control.arm(kind, 0)
            p, port, said = self.start(control)
            self.assertIsNotNone(port, said)
            n = control.seen(kind)
            p.terminate()
            self.assertEqual(p.wait(60), 0)
            for k in some(n, 12):
                control.arm(kind, k)
                p, port, said = self.start(control)
                control.disarm()
                what = "%s, call %d of %d: %s" % (NAMES[kind], k, n, said)
                if port is None:
                    self.assertIn(p.wait(60), (1, 127), what)  # 127: the dynamic loader's own
                    self.assertTrue(said.strip(), what)
                    continue
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                c.request("GET", "/healthz")
                self.assertEqual(c.getresponse().status, 200, what)
                c.close()
                p.terminate()
                self.assertEqual(p.wait(60), 0, what + p.stderr.read())


class Reach(unittest.TestCase):
    """No request makes the service open a file, connect anywhere or run a program."""
    PATHS = ("/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "http://127.0.0.1:1/x", "//127.0.0.1:1/x", "$(id)", "a/b;id", "|id")

    def bodies(self):
        q = json.loads(question("facebook/opt-125m"))
        for p in self.PATHS:
            for name in ("model", "config", "deepspeed_config", "accelerate_config", "training_arguments", "modeling"):
                yield dict(q, **{name: p})
            yield dict(q, config={"model_type": "opt", "_name_or_path": p, "auto_map": {"AutoConfig": p}, "base_model_name_or_path": p})
            yield dict(q, training_arguments={"deepspeed": p, "output_dir": p, "logging_dir": p, "resume_from_checkpoint": p, "fsdp_config": p, "accelerator_config": p})
            yield dict(q, training_arguments="output_dir: %s\ndeepspeed: !!python/object/apply:os.system ['%s']\n" % (p, p))
            yield dict(q, accelerate_config="distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: %s\n" % p)
            yield dict(q, cluster={"name": p}, framework_config={"framework": "axolotl", "text": p})
            yield dict(q, stack={"torch": p}, training=dict(q["training"], optim_args=p, lora={"target_modules": p}))

    def test_nothing_is_opened(self):
        control = Control()
        d = Daemon("--offline", "--threads", "1", "--event-threads", "1", **{"env": control.env()})
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=300)
        c.request("POST", "/estimate", question("facebook/opt-125m"))
        self.assertEqual(c.getresponse().read()[:1], b"{")
        for kind in (FILES, WRITES):
            control.arm(kind, 0)
        statuses = set()
        for body in self.bodies():
            c.request("POST", "/estimate", json.dumps(body), {"Host": "localhost"})
            r = c.getresponse()
            r.read()
            statuses.add(r.status)
        for p in self.PATHS:
            for path in ("/models/", "/estimate?gpu=T4&model=", "/"):
                c.request("GET", path + urllib.parse.quote(p, safe=""), headers={"Host": "localhost"})
                c.getresponse().read()
        seen = control.seen(FILES), control.seen(WRITES)
        c.close()
        self.assertEqual(d.stop()[0], 0)
        self.assertLessEqual(statuses, {200, 404, 422})
        self.assertEqual(seen, (0, 0))

    def test_no_core_is_left(self):
        d = Daemon()
        with open("/proc/%d/limits" % d.process.pid) as f:
            core = [line.split() for line in f if line.startswith("Max core file size")][0]
        self.assertEqual(core[4:6], ["0", "0"])
        self.assertEqual(d.stop()[0], 0)

    def test_no_program_is_run(self):
        names = subprocess.run(["nm", "-D", "-u", LLMEMD], capture_output=True, text=True)
        if names.returncode:
            self.skipTest("no nm")
        self.assertEqual([n for n in names.stdout.split() if n.split("@")[0] in
                          ("execve", "execv", "execvp", "execl", "execlp", "execle", "execvpe", "fexecve", "system", "popen", "posix_spawn", "posix_spawnp", "fork", "vfork",
                           "dlopen")], [])


class Run(unittest.TestCase):
    def ask(self, d, path, body):
        try:
            return d.ask("POST", path, body, timeout=300 if SLOW else 30)
        except (ConnectionError, http.client.HTTPException):
            return None, {}, b""

    def torture(self, kind, most, options=(), of=lambda k: ("/estimate", question("org/m%07d" % k)), begin=1):
        """`of` makes the request number k, which nobody has asked before."""
        hub, control = SlowHub(0), Control()
        with tempfile.TemporaryDirectory() as cache:
            d = hub.daemon("--threads", "1", "--event-threads", "1", "--cache-dir", cache, *options, **control.env())
            reference = self.ask(d, *of(0))
            self.assertEqual(reference[0], 200, reference)
            control.arm(kind, 0)
            self.ask(d, *of(1000000))
            n, outcomes = control.seen(kind), {}
            for k in some(n + 2, most):
                path, body = of(k)
                wanted = reference[2].replace(b"org/m0000000", b"org/m%07d" % k)
                control.arm(kind, k)
                status, headers, got = self.ask(d, path, body)
                control.disarm()
                what = "%s, call %d of %d: %s %s" % (NAMES[kind], k, n, status, part(got, wanted))
                outcomes[status] = outcomes.get(status, 0) + 1
                if status == 200:
                    self.assertTrue(got == wanted or b'"out-of-memory"' in got or b'"overloaded"' in got, what)
                elif status is not None:
                    self.assertIn(status, (500, 503), what)
                    self.assertEqual(headers["content-type"], "application/problem+json", what)
                    self.assertEqual(headers["cache-control"], "no-store", what)
                status, _, got = self.ask(d, path, body)
                self.assertTrue((status, got) == (200, wanted), "after %s\nstatus %s %s" % (what, status, part(got, wanted)))
            code, log = d.stop()
            self.assertEqual(code, 0, log[-3000:])
        hub.stop()
        return n, outcomes

    def test_memory_for_an_answer_that_asks_the_hub(self):
        n, outcomes = self.torture(MEMORY, 60)
        self.assertGreater(n, 50)
        self.assertIn(503, outcomes)

    def test_memory_for_a_batch(self):
        def of(k):
            return "/estimate/batch", json.dumps({"requests": [json.loads(question("org/m%07d" % k))] * 2 + [{}]})
        self.torture(MEMORY, 40, of=of)

    def test_descriptors(self):
        self.torture(FILES, 40)

    def test_a_disk_that_takes_nothing(self):
        n, outcomes = self.torture(WRITES, 20)
        self.assertEqual(list(outcomes), [200])

    def test_no_descriptor_for_a_while(self):
        """Those who are connected are served; who comes later waits for no longer than the lack lasts."""
        hub, control = SlowHub(0), Control()
        d = hub.daemon("--threads", "1", "--event-threads", "1", **control.env())
        with d.connect() as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(daemon.read_answer(s)[0], 200)
            control.arm(FILES, 1, forever=True)
            s.sendall(daemon.request(question("facebook/opt-125m")))
            self.assertIn(daemon.read_answer(s)[0], (200, 502, 503))
            waiting = d.connect()
            waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.5)
            control.disarm()
        self.assertEqual(daemon.read_answer(waiting)[0], 200)
        waiting.close()
        self.assertEqual(d.ask("POST", "/estimate", question("org/new"))[0], 200)
        self.assertEqual(d.stop()[0], 0)
        hub.stop()


main(unittest, 1)
