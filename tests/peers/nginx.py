"""deploy/nginx/llmemd.conf as it stands, in a real nginx before two replicas: what it keeps, what it must not, and that nobody loses an answer."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from callers import Callers, question

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
from daemon import Daemon  # noqa: E402

NGINX = sys.argv[1]
CONFIG = "deploy/nginx/llmemd.conf"


def free_port():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Nginx:
    """The file with other ports and another folder; what is around it is nginx's own minimum."""

    def __init__(self, replicas):
        self.dir, self.port = tempfile.mkdtemp(), free_port()
        with open(CONFIG) as f:
            text = f.read()
        for old, new in [("127.0.0.1:8081", "127.0.0.1:%d" % replicas[0]), ("127.0.0.1:8082", "127.0.0.1:%d" % replicas[1]),
                         ("/var/cache/nginx/llmemd", self.dir + "/cache"), ("listen 80;", "listen 127.0.0.1:%d;" % self.port)]:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        with open(self.dir + "/llmemd.conf", "w") as f:
            f.write(text)
        paths = "".join("%s_temp_path %s/%s;\n" % (what, self.dir, what) for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(self.dir + "/nginx.conf", "w") as f:
            f.write("daemon off; worker_processes 2; pid %s/pid; error_log %s/error.log warn;\n%sevents { worker_connections 1024; }\nhttp {\naccess_log off;\n%s"
                    "include %s/llmemd.conf;\n}\n" % (self.dir, self.dir, "user root;\n" if os.getuid() == 0 else "", paths, self.dir))
        command = [NGINX, "-p", self.dir, "-e", self.dir + "/error.log", "-c", self.dir + "/nginx.conf"]
        subprocess.run(command + ["-t", "-q"], check=True)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        for _ in range(200):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(self.errors())

    def errors(self):
        with open(self.dir + "/error.log") as f:
            return f.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        shutil.rmtree(self.dir)


def ask(port, method, path, body=None, headers=None, source="127.0.0.1"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
    try:
        c.request(method, path, body, dict({"Content-Type": "application/json"} if body else {}, **(headers or {})))
        r = c.getresponse()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
    finally:
        c.close()


class BehindNginx(unittest.TestCase):
    OPTIONS = ["--proxies", "127.0.0.1", "--offline"]

    def setUp(self):
        self.ports = [free_port(), free_port()]
        self.replicas = [self.start(i) for i in range(2)]
        self.nginx = Nginx(self.ports)

    def tearDown(self):
        self.nginx.stop()
        for r in self.replicas:
            if r.process.poll() is None:
                r.stop()

    def start(self, i, *more):
        return Daemon("--listen", "127.0.0.1:%d" % self.ports[i], *self.OPTIONS, *more)

    def ask(self, *args, **how):
        return ask(self.nginx.port, *args, **how)

    def asked(self, route="/estimate"):
        """Requests of that route that reached a replica; they are counted a moment after their answers."""
        time.sleep(0.2)
        return sum(float(v) for r in self.replicas for k, v in r.metrics().items() if k.startswith("llmemd_requests_total") and 'route="%s"' % route in k)

    def test_a_cached_answer_is_nginx_s(self):
        first, n = self.ask("POST", "/estimate", question(1)), self.asked()
        again = self.ask("POST", "/estimate", question(1))
        self.assertEqual((first[0], first[1]["x-cache"], again[0], again[1]["x-cache"]), (200, "MISS", 200, "HIT"))
        self.assertEqual((again[2], again[1]["etag"], self.asked()), (first[2], first[1]["etag"], n))
        other = self.ask("POST", "/estimate", question(2))
        self.assertEqual(other[1]["x-cache"], "MISS")
        self.assertNotEqual(other[2], first[2])
        get = "/estimate?model=gpt2&gpu=T4&seq_len=128&methods=single"
        tag = self.ask("GET", get)[1]["etag"]
        n = self.asked()
        self.assertEqual(self.ask("GET", get, headers={"If-None-Match": tag})[0], 304)
        self.assertEqual(self.asked(), n)

    def test_a_long_body_is_its_own_key(self):
        bodies = [question(i).replace('"cluster"', " " * 300000 + '"cluster"') for i in range(2)]
        answers = [self.ask("POST", "/estimate", b) for b in bodies * 2]
        self.assertEqual([a[0] for a in answers], [200] * 4)
        self.assertNotEqual(answers[0][2], answers[1][2])
        self.assertEqual([a[2] for a in answers[:2]], [a[2] for a in answers[2:]])
        self.assertEqual(self.ask("POST", "/estimate", "x" * 1100000)[0], 413)

    def test_what_a_token_asked_is_nobody_else_s(self):
        n = self.asked()
        for i in range(2):
            status, headers, _ = self.ask("POST", "/estimate", question(3), {"X-HF-Token": "hf_x"})
            self.assertEqual((status, headers["cache-control"], headers["x-cache"]), (200, "private, no-store", "BYPASS"))
        self.assertEqual(self.asked(), n + 2)
        self.assertEqual(self.ask("POST", "/estimate", question(3))[1]["x-cache"], "MISS")
        self.assertEqual(self.ask("POST", "/estimate", question(3), {"X-HF-Token": "hf_y"})[1]["x-cache"], "BYPASS")
        cached = b"".join(pathlib.Path(d, f).read_bytes() for d, _, files in os.walk(self.nginx.dir + "/cache") for f in files)
        self.assertNotIn(b"hf_x", cached)
        self.assertEqual(self.ask("GET", "/metrics")[0], 404)

    def test_gzip_is_kept_apart(self):
        plain, packed = (self.ask("POST", "/estimate", question(4), {"Accept-Encoding": e}) for e in ("identity", "gzip"))
        self.assertEqual((plain[1].get("content-encoding"), packed[1].get("content-encoding")), (None, "gzip"))
        again = self.ask("POST", "/estimate", question(4), {"Accept-Encoding": "identity"})
        self.assertEqual((again[1]["x-cache"], again[2]), ("HIT", plain[2]))

    def test_killed_drained_and_started_anew_under_load(self):
        with Callers(self.nginx.port, keep=6, new=6, distinct=4000) as c:
            for how in (signal.SIGKILL, signal.SIGTERM):
                for i in range(2):
                    c.wait_for(150)
                    self.replicas[i].process.send_signal(how)
                    self.replicas[i].process.wait(60)
                    c.wait_for(150)
                    self.replicas[i] = self.start(i)
            c.wait_for(150)
        self.assertEqual(set(c.answers), {200}, c.lost[:5])
        self.assertLess(c.slowest, 30)

    def test_a_batch_is_passed_on(self):
        batch = json.dumps({"requests": [json.loads(question(i)) for i in range(20)]})
        through, direct = self.ask("POST", "/estimate/batch", batch), self.replicas[0].ask("POST", "/estimate/batch", batch, {"Content-Type": "application/json"})
        self.assertEqual((through[0], through[2]), (200, direct[2]))

    def test_both_away(self):
        kept = self.ask("POST", "/estimate", question(5))
        for r in self.replicas:
            r.stop()
        self.assertEqual(self.ask("POST", "/estimate", question(5))[2], kept[2])
        status, headers, body = self.ask("POST", "/estimate", question(6))
        self.assertEqual((status, headers["retry-after"], headers["content-type"], json.loads(body)["code"]), (503, "1", "application/problem+json", "overloaded"))

    def test_overloaded(self):
        """One replica that can take nothing: the other answers; both: 503 with Retry-After, as the daemon said it."""
        self.replicas[0].stop()
        self.replicas[0] = self.start(0, "--waiting", "1", "--queue", "1", "--threads", "1", "--answers", "0")
        hogs = [self.connect_and_begin(self.ports[0])]
        answers = [self.ask("POST", "/estimate", question(100 + i)) for i in range(6)]
        self.assertEqual({a[0] for a in answers}, {200})
        self.replicas[1].stop()
        status, headers, body = self.ask("POST", "/estimate", question(7))
        self.assertEqual((status, json.loads(body)["code"]), (503, "overloaded"))
        self.assertIn("retry-after", headers)
        for h in hogs:
            h.close()

    @staticmethod
    def connect_and_begin(port):
        """A long body that does not come holds the only slot."""
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{")
        time.sleep(0.3)
        return s

    def test_a_caller_s_rate_is_his_own(self):
        for i in range(2):
            self.replicas[i].stop()
            self.replicas[i] = self.start(i, "--rate", "4")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(lambda i: self.ask("POST", "/estimate", question(200 + i), source="127.0.0.2")[0], range(16)))
        self.assertIn(429, statuses)
        self.assertEqual(self.ask("POST", "/estimate", question(300), source="127.0.0.3")[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
