"""A running llmemd on a free port, and a hub that takes its time. Python's standard library only."""
import atexit
import concurrent.futures
import http.client
import http.server
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

LLMEMD = os.environ.get("LLMEMD", "build/llmemd")
QUESTION = {"model": "facebook/opt-125m", "cluster": {"gpu": "A100-40GB"}, "training": {"seq_len": 512, "micro_batch_size": 2}}
BODY = json.dumps(QUESTION)
SLOW = "-asan" in LLMEMD or "-tsan" in LLMEMD  # sanitizers: times are not compared
PATIENCE = float(os.environ.get("PATIENCE", "1"))  # times as long is waited, on a machine that others use: seconds are of the clock, not of a core


class Daemon:
    """Its log is read all the time, so that it never waits for the test; `log` holds the lines. files: at most so many may be open."""

    def __init__(self, *options, env=None, drop=(), files=None, pass_fds=()):
        whole = {k: v for k, v in os.environ.items() if k not in drop}
        patient = ("--deadline", str(min(3600, int(300 * PATIENCE)))) if SLOW else ()
        self.process = subprocess.Popen([LLMEMD, "serve", "--listen", "127.0.0.1:0", *patient, *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(whole, **(env or {})), pass_fds=pass_fds,
                                        preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))))
        atexit.register(self.process.kill)  # what a failed test left
        self.first = []
        line = self.process.stderr.readline()
        while line.startswith("llmemd: "):  # a remark, or why it does not start
            self.first.append(line)
            line = self.process.stderr.readline()
        found = re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)\n", line)
        if not found:
            raise AssertionError("instead of the line with the port: %r" % ("".join(self.first) + line + self.process.communicate(timeout=20)[1]))
        self.port = int(found.group(1))
        self.log = []
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def wait_for_line(self, pattern, seconds=20):
        """The first line of the log that matches."""
        end = time.time() + seconds * PATIENCE
        while time.time() < end:
            for line in list(self.log):
                found = re.search(pattern, line)
                if found:
                    return found
            time.sleep(0.01)
        raise AssertionError("no line like %s in %s" % (pattern, self.log))

    def ask(self, method, path, body=None, headers=None, timeout=300 if SLOW else 60, port=None):
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout * PATIENCE)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
        finally:
            c.close()

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout * PATIENCE)

    def raw(self, data):
        """The status line that answers these bytes, b"" when the connection was closed instead."""
        with self.connect(10) as s:
            s.sendall(data)
            return read_until(s, b"\r\n").split(b"\r\n")[0]

    def metrics(self):
        return dict(line.rsplit(" ", 1) for line in self.ask("GET", "/metrics")[2].decode().splitlines() if not line.startswith("#"))

    def wait_for(self, name, value, seconds=60):
        """Until a metric without labels has that value."""
        end = time.time() + seconds * PATIENCE
        while float(self.metrics()[name]) != value:
            if time.time() > end:
                raise AssertionError("%s is %s, not %s" % (name, self.metrics()[name], value))
            time.sleep(0.01)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.ended()

    def ended(self, timeout=90):
        code = self.process.wait(timeout=timeout * PATIENCE)
        self.reader.join()
        self.process.stderr.close()
        rest = "".join(self.log)
        if "ERROR" in rest or "WARNING: Thread" in rest or "runtime error" in rest:
            raise AssertionError(rest[-6000:])
        return code, rest


def read_until(s, end):
    got = b""
    while end not in got:
        more = s.recv(65536)
        if not more:
            break
        got += more
    return got


def read_answer(s, rest=b""):
    """One answer with a Content-Length: status, headers, body, and what was read beyond it."""
    got = rest
    while b"\r\n\r\n" not in got:
        more = s.recv(65536)
        if not more:
            raise EOFError(got)
        got += more
    head, got = got.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    n = int(headers.get("content-length", 0))
    while len(got) < n:
        more = s.recv(65536)
        if not more:
            raise EOFError(got)
        got += more
    return int(lines[0].split()[1]), headers, got[:n], got[n:]


def request(body, path="/estimate", extra=""):
    body = body.encode() if isinstance(body, str) else body
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (path.encode(), extra.encode(), len(body)) + body


class SlowHub:
    """Has a config.json of every model, after `delay` seconds; models of the owner "nobody" are not there."""
    CONFIG = {"model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12,
              "ffn_dim": 3072, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 768, "torch_dtype": "float16"}

    def __init__(self, delay):
        hub = self
        self.delay, self.seen, self.tokens = delay, [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.seen.append(self.path)
                hub.tokens.append(self.headers.get("Authorization"))
                time.sleep(hub.delay)
                missing = "/nobody/" in self.path
                body = b"{}" if missing else json.dumps(SlowHub.CONFIG).encode()
                self.send_response(404 if missing else 200)
                self.send_header("X-Repo-Commit", "0123456789012345678901234567890123456789")
                if missing:
                    self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("ETag", '"0123456789012345678901234567890123456789"')
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def daemon(self, *options, **env):
        return Daemon(*options, env=dict(env, HF_ENDPOINT="http://127.0.0.1:%d" % self.server.server_port), drop=("HF_HUB_OFFLINE", "HF_TOKEN"))

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def question(model):
    """One candidate: soon computed, so that tests of waiting wait for nothing else."""
    return json.dumps(dict(QUESTION, model=model, training={"seq_len": 64, "micro_batch_size": 1, "methods": "single", "tuning": "full",
                                                            "gradient_checkpointing": True}))


def main(unittest, at_once=1):
    """Runs every test of the caller's file, some at once: they mostly wait."""
    cases = [c for c in vars(sys.modules["__main__"]).values() if isinstance(c, type) and issubclass(c, unittest.TestCase)]
    wanted = [a for a in sys.argv[1:] if a.startswith("test_")]
    flat = [t for c in cases for t in unittest.defaultTestLoader.loadTestsFromTestCase(c) if not wanted or t.id().split(".")[-1] in wanted]
    results = [unittest.TestResult() for _ in flat]
    classes = {type(t) for t in flat}
    began = time.time()
    for c in classes:
        c.setUpClass()
    with concurrent.futures.ThreadPoolExecutor(2 if SLOW else at_once) as pool:
        list(pool.map(lambda pair: pair[0].run(pair[1]), zip(flat, results)))
    for c in classes:
        c.tearDownClass()
    bad = [f for r in results for f in r.failures + r.errors]
    for test, trace in bad:
        print("FAILED: %s\n%s" % (test, trace))
    print("%d tests in %.1f s, %d failed" % (len(flat), time.time() - began, len(bad)))
    sys.exit(1 if bad or not flat else 0)
