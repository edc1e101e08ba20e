"""Where the daemon listens, whom it tells how it stands, and what it does when everything is full. door.py"""
import concurrent.futures
import gzip
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import unittest

from daemon import BODY, LLMEMD, SLOW, Daemon, SlowHub, main, question, read_answer, read_until, request

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
PROBES = ("/healthz", "/readyz", "/metrics")


def connect_path(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path)
    return s


def ask_path(path, data=HEALTH):
    with connect_path(path) as s:
        s.sendall(data)
        return read_answer(s)


def admin_port(d):
    return int(d.wait_for_line(r"probes and metrics on http://127\.0\.0\.1:(\d+)")[1])


class Admin(unittest.TestCase):
    def test_probes_alone(self):
        d = Daemon("--admin-listen", "127.0.0.1:0")
        port = admin_port(d)
        for path in PROBES:
            self.assertEqual(d.ask("GET", path, port=port)[0], 200, path)
            self.assertEqual(d.ask("GET", path)[0], 200, path)
        for method, path in (("GET", "/gpus"), ("POST", "/estimate"), ("GET", "/")):
            self.assertEqual(d.ask(method, path, BODY if method == "POST" else None, port=port)[0], 404, path)
        self.assertEqual(d.ask("GET", "/healthz", headers={"Host": "evil.example"}, port=port)[0], 421)
        self.assertEqual(d.stop()[0], 0)

    def test_nowhere_else(self):
        d = Daemon("--admin-listen", "127.0.0.1:0", "--admin-only")
        port = admin_port(d)
        for path in PROBES:
            self.assertEqual(d.ask("GET", path, port=port)[0], 200, path)
            self.assertEqual(d.ask("GET", path)[0], 404, path)
        self.assertEqual(d.ask("GET", "/gpus")[0], 200)
        self.assertEqual(d.stop()[0], 0)
        alone = subprocess.run([LLMEMD, "--admin-only"], capture_output=True)
        self.assertEqual(alone.returncode, 2, alone.stderr)

    def test_when_everything_is_full(self):
        """Half a request on each of more connections than are admitted, and as many again: the main listener has nothing left."""
        d = Daemon("--admin-listen", "127.0.0.1:0", "--connections", "16", "--per-address", "1000", "--event-threads", "1")
        port = admin_port(d)
        kept = []
        for _ in range(16 + 128):
            kept.append(d.connect())
            kept[-1].sendall(request(BODY)[:-1])
        time.sleep(0.5)
        for path in PROBES:
            began = time.time()
            self.assertEqual(d.ask("GET", path, port=port, timeout=20)[0], 200, path)
            if not SLOW:
                self.assertLess(time.time() - began, 1)
        for s in kept:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_a_crowd_at_the_admin_listener(self):
        d = Daemon("--admin-listen", "127.0.0.1:0")
        port = admin_port(d)
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(200)]
        for path in PROBES:
            self.assertEqual(d.ask("GET", path, port=port, timeout=20)[0], 200, path)
        self.assertEqual(d.ask("GET", "/gpus")[0], 200)
        for s in crowd:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_a_drain_is_seen_to_its_end(self):
        hub = SlowHub(3)
        d = hub.daemon("--admin-listen", "127.0.0.1:0", "--drain", "200")
        port = admin_port(d)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(d.ask, "POST", "/estimate", question("slow/one"))
            d.wait_for("llmemd_requests_waiting", 1)
            d.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            self.assertRaises(OSError, d.connect)
            self.assertEqual([d.ask("GET", path, port=port)[0] for path in PROBES], [200, 503, 200])
            self.assertEqual(slow.result()[0], 200)
        self.assertEqual(d.ended()[0], 0)
        hub.stop()

    def test_who_stands_at_the_door_is_let_in(self):
        """Connections that the system has taken and the daemon not yet, as it is told to stop: each is answered, none is reset."""
        for threads in ("1", "2"):
            d = Daemon("--event-threads", threads, "--connections", "1024", "--per-address", "1024")
            self.close_before(d.process, d.connect)
            self.assertEqual(d.ended()[0], 0)
        with tempfile.TemporaryDirectory() as at:
            p = subprocess.Popen([LLMEMD, "--listen", "unix:" + at + "/s"], stderr=subprocess.PIPE)
            self.addCleanup(p.kill)
            self.assertIn(b"listening", p.stderr.readline())
            self.close_before(p, lambda: connect_path(at + "/s"))
            self.assertEqual(p.wait(60), 0)
            p.stderr.close()

    def close_before(self, process, connect):
        process.send_signal(signal.SIGSTOP)
        door = [connect() for _ in range(500)]
        for s in door:
            s.sendall(HEALTH)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        self.assertEqual({read_answer(s)[0] for s in door}, {200})
        self.assertRaises(OSError, connect)
        for s in door:
            s.close()


class Paths(unittest.TestCase):
    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as at:
            main_path, admin_path = at + "/llmemd.sock", at + "/admin.sock"
            for mode in ("660", "600"):
                stale = socket.socket(socket.AF_UNIX)  # of one that was killed
                stale.bind(main_path)
                stale.close()
                p = subprocess.Popen([LLMEMD, "--listen", "unix:" + main_path, "--admin-listen", "unix:" + admin_path, "--socket-mode", mode],
                                     stderr=subprocess.PIPE, text=True)
                self.addCleanup(p.kill)
                self.assertEqual(p.stderr.readline(), "listening on unix:%s\n" % main_path)
                self.assertEqual("%o" % stat.S_IMODE(os.stat(main_path).st_mode), mode)
                self.assertEqual(ask_path(main_path)[0], 200)
                self.assertEqual(ask_path(main_path, HEALTH.replace(b"localhost", b"any.example"))[0], 200)
                self.assertEqual(ask_path(main_path, request(BODY))[0], 200)
                self.assertEqual(ask_path(admin_path, HEALTH.replace(b"healthz", b"metrics"))[0], 200)
                second = subprocess.run([LLMEMD, "--listen", "unix:" + main_path], capture_output=True, timeout=20)
                self.assertEqual((second.returncode, b"in use" in second.stderr), (1, True), second.stderr)
                self.assertEqual(ask_path(main_path)[0], 200)
                p.terminate()
                self.assertEqual(p.wait(60), 0)
                p.stderr.close()
                self.assertEqual(os.listdir(at), [])
            open(main_path, "w").close()  # a file is nobody's socket: it stays
            self.assertEqual(subprocess.run([LLMEMD, "--listen", "unix:" + main_path], capture_output=True, timeout=20).returncode, 1)
            self.assertTrue(os.path.isfile(main_path))
            for bad in ("unix:relative", "unix:/" + "x" * 200):
                self.assertEqual(subprocess.run([LLMEMD, "--listen", bad], capture_output=True, timeout=20).returncode, 1)
        for bad in ("9", "1000", "rw"):
            self.assertEqual(subprocess.run([LLMEMD, "--socket-mode", bad], capture_output=True, timeout=20).returncode, 2)

    def test_one_address_is_not_the_limit_of_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as at:
            path = at + "/s"
            p = subprocess.Popen([LLMEMD, "--listen", "unix:" + path, "--connections", "16", "--per-address", "1", "--proxies", "unix"], stderr=subprocess.DEVNULL)
            self.addCleanup(p.kill)
            while not os.path.exists(path):
                time.sleep(0.01)
            busy = [socket.socket(socket.AF_UNIX) for _ in range(8)]
            for s in busy:
                s.connect(path)
                s.sendall(request(BODY)[:-1])
            time.sleep(0.3)
            self.assertEqual(ask_path(path, request(BODY))[0], 200)
            for s in busy:
                s.close()
            p.terminate()
            self.assertEqual(p.wait(60), 0)

    def test_sockets_that_systemd_opened(self):
        main_socket, admin_socket = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        os.set_inheritable(main_socket.fileno(), True)
        os.set_inheritable(admin_socket.fileno(), True)
        # As systemd does it: descriptors from 3 on, and the process's own number in LISTEN_PID.
        start = 'exec 3<&%d 4<&%d; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=llmemd.socket:admin; exec "$0" --listen 127.0.0.1:1' % (
            main_socket.fileno(), admin_socket.fileno())
        p = subprocess.Popen(["bash", "-c", start, LLMEMD], stderr=subprocess.PIPE, text=True, pass_fds=(main_socket.fileno(), admin_socket.fileno()))
        self.addCleanup(p.kill)
        port, probes = main_socket.getsockname()[1], admin_socket.getsockname()[1]
        self.assertEqual(p.stderr.readline(), "listening on http://127.0.0.1:%d\n" % port)
        self.assertEqual(p.stderr.readline(), "probes and metrics on http://127.0.0.1:%d\n" % probes)
        for at, data, status in ((port, request(BODY), 200), (probes, HEALTH, 200), (probes, request(BODY), 404)):
            with socket.create_connection(("127.0.0.1", at), timeout=60) as s:
                s.sendall(data)
                self.assertEqual(read_answer(s)[0], status)
        p.terminate()
        self.assertEqual(p.wait(60), 0)
        p.stderr.close()
        main_socket.close()
        admin_socket.close()


class Told(unittest.TestCase):
    """sd_notify(3): what systemd hears."""

    def start(self, at, *options, **env):
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind(at)
        self.heard.settimeout(20)
        return Daemon(*options, env=dict(env, NOTIFY_SOCKET=at if at[0] != "\0" else "@" + at[1:]))

    def next(self, but=None):
        said = self.heard.recv(4096).decode()
        while said == but:
            said = self.heard.recv(4096).decode()
        return said

    def test_ready_reloading_stopping(self):
        with tempfile.TemporaryDirectory() as at:
            for name in (at + "/notify", "\0llmemd-test-%d" % os.getpid()):
                d = self.start(name)
                self.assertEqual(self.next(), "READY=1")
                d.process.send_signal(signal.SIGHUP)
                reloading = self.next().split("\n")
                self.assertEqual(reloading[0], "RELOADING=1")
                self.assertLess(abs(int(reloading[1].split("=")[1]) / 1e6 - time.clock_gettime(time.CLOCK_MONOTONIC)), 60)
                self.assertEqual(self.next(), "READY=1")
                self.assertEqual(d.stop()[0], 0)
                self.assertEqual(self.next(), "STOPPING=1")
                self.heard.close()

    def test_watchdog(self):
        with tempfile.TemporaryDirectory() as at:
            d = self.start(at + "/notify", WATCHDOG_USEC="400000")
            began = time.time()
            self.assertEqual(self.next("READY=1"), "WATCHDOG=1")
            for _ in range(4):
                self.assertEqual(self.next(), "WATCHDOG=1")
            if not SLOW:
                self.assertTrue(0.6 < time.time() - began < 3, time.time() - began)
            self.assertEqual(d.stop()[0], 0)
            self.heard.close()

    def test_anothers_watchdog(self):
        with tempfile.TemporaryDirectory() as at:
            d = self.start(at + "/notify", WATCHDOG_USEC="20000", WATCHDOG_PID="1")
            self.assertEqual(self.next(), "READY=1")
            time.sleep(0.3)
            self.assertEqual(d.stop()[0], 0)
            self.assertEqual(self.next(), "STOPPING=1")
            self.heard.close()


class Packed(unittest.TestCase):
    GZIP = {"Accept-Encoding": "gzip"}

    @classmethod
    def setUpClass(cls):
        cls.d = Daemon()

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop()[0] == 0

    def test_asked_or_not(self):
        for i, (method, path, body) in enumerate((("GET", "/gpus", None), ("GET", "/models", None), ("GET", "/openapi.yaml", None), ("POST", "/estimate", BODY))):
            whole = self.d.ask(method, path, body)
            self.assertNotIn("content-encoding", whole[1])
            self.assertIn("Accept-Encoding", whole[1]["vary"])
            for accepted in ("gzip", "GZIP", "deflate, gzip;q=0.5, br", "*", "x-gzip", "br;q=1.0, *;q=0.1"):
                packed = self.d.ask(method, path, body, {"Accept-Encoding": accepted})
                self.assertEqual((packed[0], packed[1]["content-encoding"]), (200, "gzip"), accepted)
                self.assertEqual(gzip.decompress(packed[2]), whole[2])
                self.assertLess(len(packed[2]), len(whole[2]) // 2)
                self.assertEqual(packed[1]["etag"], whole[1]["etag"][:-1] + '-gzip"')
                self.assertIn("Accept-Encoding", packed[1]["vary"])
            for accepted in ("", "identity", "br", "gzip;q=0", "gzip; q=0.000", "*;q=0", "gzip;q=0, *", "xgzip", "gzipped"):
                plain = self.d.ask(method, path, body, {"Accept-Encoding": accepted})
                self.assertNotIn("content-encoding", plain[1], accepted)
                self.assertEqual((plain[2], plain[1]["etag"]), (whole[2], whole[1]["etag"]))

    def test_made_packed_at_once(self):
        body = BODY.replace("512", "516")
        first = self.d.ask("POST", "/estimate", body, self.GZIP)
        self.assertIn("fwd=miss", first[1]["cache-status"])
        again = self.d.ask("POST", "/estimate", body, self.GZIP)
        self.assertEqual((again[2], again[1]["etag"], again[1]["cache-status"]), (first[2], first[1]["etag"], "llmemd; hit"))
        self.assertEqual(gzip.decompress(first[2]), self.d.ask("POST", "/estimate", body)[2])

    def test_validators(self):
        plain, packed = self.d.ask("GET", "/gpus"), self.d.ask("GET", "/gpus", headers=self.GZIP)
        for extra, mine, others in (({}, plain, packed), (self.GZIP, packed, plain)):
            status, headers, body = self.d.ask("GET", "/gpus", headers=dict(extra, **{"If-None-Match": mine[1]["etag"]}))
            self.assertEqual((status, body, headers["etag"]), (304, b"", mine[1]["etag"]))
            self.assertNotIn("content-encoding", headers)
            status, headers, body = self.d.ask("GET", "/gpus", headers=dict(extra, **{"If-None-Match": others[1]["etag"]}))
            self.assertEqual((status, body), (200, mine[2]))
        head = self.d.ask("HEAD", "/gpus", headers=self.GZIP)
        self.assertEqual((head[2], int(head[1]["content-length"]), head[1]["content-encoding"]), (b"", len(packed[2]), "gzip"))

    def test_what_is_small_or_not_kept_stays_plain(self):
        for path in ("/healthz", "/nothing", "/metrics"):
            self.assertNotIn("content-encoding", self.d.ask("GET", path, headers=self.GZIP)[1], path)
        uncached = Daemon("--answers", "0")
        self.assertNotIn("content-encoding", uncached.ask("POST", "/estimate", BODY, self.GZIP)[1])
        self.assertEqual(uncached.stop()[0], 0)

    def test_counted_in_the_cache(self):
        d = Daemon("--answers-mib", "1")
        for i in range(40):
            body = BODY.replace("512", str(64 + i))
            d.ask("POST", "/estimate", body)
            before = float(d.metrics()["llmemd_answer_cache_bytes"])
            packed = d.ask("POST", "/estimate", body, self.GZIP)
            if packed[1]["cache-status"] == "llmemd; hit" and i < 3:
                self.assertEqual(float(d.metrics()["llmemd_answer_cache_bytes"]) - before, len(packed[2]))
            self.assertLessEqual(float(d.metrics()["llmemd_answer_cache_bytes"]), 1 << 20)
        self.assertEqual(d.stop()[0], 0)

    def test_many_at_once(self):
        body = BODY.replace("512", "520")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda i: self.d.ask("POST", "/estimate", body, self.GZIP if i % 2 else {}), range(64)))
        packed = {a[2] for a in answers if "content-encoding" in a[1]}
        plain = {a[2] for a in answers if "content-encoding" not in a[1]}
        self.assertEqual((len(packed), len(plain)), (1, 1))
        self.assertEqual({gzip.decompress(p) for p in packed}, plain)


class Heads(unittest.TestCase):
    """What cannot be read: one status line, a problem, and the end of the connection; and it is counted and logged like all others."""
    POST = b"POST /estimate HTTP/1.1\r\nHost: localhost\r\n"
    BAD = (
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "malformed-request"),
        (b"GET /healthz\r\n\r\n", 400, "malformed-request"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", 400, "malformed-request"),
        (POST + b"Content-Length: abc\r\n\r\n", 400, "malformed-request"),
        (POST + b"Content-Length: -1\r\n\r\n", 400, "malformed-request"),
        (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 413, "body-too-large"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "malformed-request"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", 413, "body-too-large"),
        (b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n", 505, "http-version"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "uri-too-long"),
        (HEALTH[:-2] + b"X: " + b"y" * 9000 + b"\r\n\r\n", 431, "headers-too-large"),
        # a zero in a line, which ends it early for the library
        (HEALTH[:-2] + b"X-HF-Token: abc\0x\r\n\r\n", 400, "malformed-request"),
        (HEALTH[:-2] + b"X-HF-Token: abc\0x\r\nX: y\r\n\r\n", 400, "malformed-request"),
        (HEALTH[:-2] + b"X-HF-Token: abc\0\r\nX: y\r\n\r\n", 400, "malformed-request"),
        (HEALTH[:-2] + b"X: \0\0\0\r\nY: z\r\n\r\n", 400, "malformed-request"),
        (HEALTH[:-2] + b"X\0: y\r\n\r\n", 400, "malformed-request"),
        (b"GET /heal\0thz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "malformed-request"),
        (b"GET /healthz?a\0b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "malformed-request"),
        (b"GET /healthz\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "malformed-request"),
        # a line that goes on in the next
        (HEALTH[:-2] + b"X: y\r\n z\r\n\r\n", 400, "malformed-request"),
        (HEALTH[:-2] + b"X: y\r\n\tz\r\nY: z\r\n\r\n", 400, "malformed-request"),
    )

    def whole(self, d, data):
        with d.connect() as s:
            s.sendall(data)
            return read_until(s, b"!never!")

    def test_one_problem(self):
        d = Daemon()
        for data, status, code in self.BAD:
            for before in (b"", HEALTH):  # also behind a request that was good
                got = self.whole(d, before + data)
                if before:
                    good = got.index(b"HTTP/1.1", 8)
                    self.assertTrue(got.startswith(b"HTTP/1.1 200"), data)
                    got = got[good:]
                head, body = got.split(b"\r\n\r\n", 1)
                lines = head.decode().split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
                self.assertEqual(got.count(b"HTTP/1.1 "), 1, data)
                self.assertEqual((int(lines[0].split()[1]), headers["content-type"], headers["connection"]), (status, "application/problem+json", "close"), data)
                self.assertEqual(int(headers["content-length"]), len(body))
                problem = json.loads(body)
                self.assertEqual((problem["status"], problem["code"]), (status, code), data)
                self.assertEqual(headers["x-content-type-options"], "nosniff")
                self.assertRegex(headers["x-request-id"], "^[0-9a-f]{16}$")
                self.assertIn("GMT", headers["date"])
        d.wait_for("llmemd_connections", 1)
        counted = sum(float(v) for k, v in d.metrics().items() if k.startswith("llmemd_requests_total") and ('status="4xx"' in k or 'status="5xx"' in k))
        code, log = d.stop()
        self.assertEqual((code, counted), (0, 2 * len(self.BAD)))
        self.assertEqual(log.count(" status=414 "), 2)
        self.assertNotIn("end=left", log)

    def test_no_silence_at_the_limit(self):
        """Where the library has room for the request and none for an answer's header lines, it closes without a word."""
        d = Daemon("--origins", "*")
        start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        echoed = b"X-Request-Id: " + b"i" * 128 + b"\r\nOrigin: http://" + b"o" * 200 + b"\r\ntraceparent: 00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01\r\n"
        for head in (start, start + echoed):
            seen = []
            for make in (lambda n: b"X: " + b"y" * (6600 + n * 16) + b"\r\n", lambda n: b"X: y\r\n" * (70 + n // 2)):
                for n in range(0, 100):
                    seen.append(self.whole_status(d, head + make(n) + b"\r\n"))
            self.assertEqual(set(seen), {200, 431})
        self.assertEqual(d.stop()[0], 0)

    def whole_status(self, d, data):
        with d.connect() as s:
            s.sendall(data)
            return read_answer(s)[0]

    def test_what_is_good_stays_good(self):
        """Headers in pieces, many of them, pipelined, with bare line feeds, none at all."""
        d = Daemon()
        many = HEALTH[:-2] + b"".join(b"X-%d: %s\r\n" % (i, b"v" * (i % 40)) for i in range(40)) + b"\r\n"
        for data in (HEALTH, many, HEALTH.replace(b"\r\n", b"\n"), b"GET /healthz?a=b&c=%20 HTTP/1.1\r\nHost:localhost\r\nEmpty:\r\nBlank:  \r\n\r\n",
                     b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.0\n\n", HEALTH[:-2] + b"Cookie: a=b; c=d\r\n\r\n"):
            for size in (len(data), 1, 7, 100):
                with d.connect() as s:
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for _ in range(2 if b"1.1" in data else 1):
                        for i in range(0, len(data), size):
                            s.sendall(data[i:i + size])
                            if size == 7:
                                time.sleep(0.001)
                        self.assertEqual(read_answer(s)[0], 200, (data, size))
            if b"1.1" in data:
                with d.connect() as s:
                    s.sendall(data * 20)
                    rest = b""
                    for _ in range(20):
                        status, _, _, rest = read_answer(s, rest)
                        self.assertEqual(status, 200, data)
        self.assertEqual(d.stop()[0], 0)


class Outcomes(unittest.TestCase):
    def test_durations_by_outcome(self):
        d = Daemon()
        for _ in range(3):
            d.ask("POST", "/estimate", BODY)  # computed once, then from the cache
        d.ask("GET", "/gpus")
        d.ask("POST", "/estimate", "{")
        d.ask("GET", "/nothing")
        end = time.time() + 20
        wanted = {"hit": 2, "computed": 1, "tables": 1, "refused": 2, "failed": 0, "streamed": 0, "none": 0}
        while True:
            m = d.metrics()
            seen = {k: float(m['llmemd_outcome_duration_seconds_count{outcome="%s"}' % k]) for k in wanted}
            seen["tables"] -= max(0, seen["tables"] - 1)  # /metrics itself
            if seen == wanted or time.time() > end:
                break
        self.assertEqual(seen, wanted)
        self.assertEqual(float(m['llmemd_answers_total{tier="answer"}']), 2)
        self.assertEqual(d.stop()[0], 0)


class Traces(unittest.TestCase):
    TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

    def test_echoed_and_logged(self):
        for options in (("--log", "json"), ()):
            d = Daemon(*options)
            good = "00-%s-%s-01" % (self.TRACE, self.PARENT)
            d.ask("GET", "/gpus")  # from the cache, too
            for sent, told in ((good, good), ("01" + good[2:] + "-more", "01" + good[2:]), ("cc" + good[2:], "cc" + good[2:])):
                answer = d.ask("GET", "/gpus", headers={"traceparent": sent, "X-Request-Id": "mine"})
                self.assertEqual((answer[1]["traceparent"], answer[1]["x-request-id"]), (told, "mine"))
            for bad in ("", "00", good[:-1], good + "-more", "ff" + good[2:], good.upper(), good.replace(self.TRACE, "0" * 32),
                        good.replace(self.PARENT, "0" * 16), "01" + good[2:] + "more", good.replace("-", "_"), "x" * 55):
                self.assertNotIn("traceparent", d.ask("GET", "/gpus", headers={"traceparent": bad})[1], bad)
            code, log = d.stop()
            self.assertEqual(code, 0)
            lines = [line for line in log.splitlines() if "mine" in line]
            self.assertEqual((len(lines), log.count(self.TRACE)), (3, 3))
            for line in lines:
                if options:
                    self.assertEqual((json.loads(line)["trace_id"], json.loads(line)["parent_id"]), (self.TRACE, self.PARENT))
                else:
                    self.assertIn(" end=sent trace_id=%s parent_id=%s" % (self.TRACE, self.PARENT), line)


class Logs(unittest.TestCase):
    """Standard error as systemd gives it (a socket) and as a file: every line, whole; and who stops reading holds up nobody."""

    def ask(self, port, n):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            rest = b""
            for _ in range(n // 100):
                s.sendall(HEALTH * 100)
                for _ in range(100):
                    status, _, _, rest = read_answer(s, rest)
                    self.assertEqual(status, 200)

    def test_a_socket(self):
        mine, its = socket.socketpair()
        mine.settimeout(60)
        p = subprocess.Popen([LLMEMD, "serve", "--listen", "127.0.0.1:0"], stderr=its)
        self.addCleanup(p.kill)
        its.close()
        lines = mine.makefile("r")
        port = int(lines.readline().rsplit(":", 1)[1])
        asking = threading.Thread(target=self.ask, args=(port, 2000))
        asking.start()
        for _ in range(2000):
            self.assertRegex(lines.readline(), "^ts=.* route=/healthz .* end=sent\n$")
        asking.join()
        self.ask(port, 4000)  # which nobody reads
        began = time.time()
        p.terminate()
        self.assertEqual(p.wait(60), 0)
        self.assertLess(time.time() - began, 30 if SLOW else 10)
        mine.close()

    def test_a_file(self):
        with tempfile.NamedTemporaryFile("r") as log:
            p = subprocess.Popen([LLMEMD, "serve", "--listen", "127.0.0.1:0"], stderr=open(log.name, "w"))
            self.addCleanup(p.kill)
            line = log.readline()
            while not line:
                time.sleep(0.01)
                line = log.readline()
            self.ask(int(line.rsplit(":", 1)[1]), 3000)
            p.terminate()
            self.assertEqual(p.wait(60), 0)
            lines = log.read().splitlines()
            self.assertEqual(len(lines), 3000)
            for line in lines:
                self.assertRegex(line, "^ts=.* route=/healthz .* end=sent$")


class Full(unittest.TestCase):
    def cpu_s(self, d):
        with open("/proc/%d/stat" % d.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_few_files(self):
        """Fewer connections, said once; and who is one too many neither spins the daemon nor shuts anybody out for long."""
        d = Daemon("--event-threads", "1", files=340)
        self.assertRegex("".join(d.first), r"^llmemd: \d+ connections instead of 1024: no more open files are granted")
        crowd = []
        for _ in range(500):
            crowd.append(d.connect())
        self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        with socket.create_connection(("127.0.0.1", d.port), timeout=20, source_address=("127.0.0.2", 0)) as other:
            other.sendall(request(BODY))
            self.assertEqual(read_answer(other)[0], 200)
        before = self.cpu_s(d)
        time.sleep(1)
        self.assertLess(self.cpu_s(d) - before, 0.3)
        for s in crowd:
            s.close()
        code, log = d.stop()
        self.assertEqual((code, log.count("open files")), (0, 0))
        with self.assertRaisesRegex(AssertionError, "too few open files"):
            Daemon(files=100)

    def test_five_thousand_that_say_nothing(self):
        """As many as this process may open; the full number is bench_http's."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        n = max(200, min(500 if SLOW else 5000, hard - 200))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, n + 200)), hard))
        for options in ((), ("--connections", "6000", "--per-address", "6000")):
            d = Daemon("--admin-listen", "127.0.0.1:0", *options)
            port = admin_port(d)
            crowd = [d.connect() for _ in range(n)]
            times = []
            for i in range(40):
                with socket.create_connection(("127.0.0.1", d.port), timeout=20, source_address=("127.0.0.2", 0)) as other:
                    other.sendall(HEALTH)
                    began = time.time()
                    self.assertEqual(read_answer(other)[0], 200)
                    other.sendall(request(BODY))
                    self.assertEqual(read_answer(other)[0], 200)
                for at in (d.port, port):
                    began = time.time()
                    self.assertEqual(d.ask("GET", "/healthz", port=at)[0], 200)
                    times.append(time.time() - began)
            if not SLOW:
                self.assertLess(sorted(times)[len(times) // 2], 0.05)
            for s in crowd:
                s.close()
            self.assertEqual(d.stop()[0], 0)


main(unittest, 3)
