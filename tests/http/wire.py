"""What arrives on the wire: many at once, slowly, in pieces, too much, or wrong. wire.py"""
import concurrent.futures
import gzip
import json
import re
import socket
import subprocess
import time
import unittest

from daemon import BODY, LLMEMD, SLOW, Daemon, main, question, read_answer, read_until, request

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def batch(first):
    """Of items that nobody else asks."""
    n = 5 if SLOW else 40
    return '{"requests": [' + ",".join(BODY.replace("512", str(512 + first + i)) for i in range(n)) + "]}"


class Connections(unittest.TestCase):
    def test_many_ready_at_once(self):
        # The library's own loop sleeps when exactly 128 or 256 are ready.
        for threads in ("1", "2"):
            d = Daemon("--event-threads", threads)
            d.ask("POST", "/estimate", BODY)
            for n in (127, 128, 129, 256):
                sockets = [d.connect() for _ in range(n)]
                for _ in range(3):
                    began = time.time()
                    for s in sockets:
                        s.sendall(request(BODY))
                    answers = [read_answer(s) for s in sockets]
                    if not SLOW:
                        self.assertLess(time.time() - began, 5, n)
                    self.assertEqual({a[0] for a in answers}, {200})
                    self.assertEqual(len({a[2] for a in answers}), 1)
                for s in sockets:
                    s.close()
            self.assertEqual(d.stop()[0], 0)

    def test_too_many_are_told(self):
        """Who reads or is read makes room for nobody; a probe is answered all the same."""
        d = Daemon("--connections", "8", "--per-address", "100")
        kept = [d.connect() for _ in range(8)]
        for s in kept:
            s.sendall(request(BODY)[:-1])  # in the middle of a body
        time.sleep(1)  # whose first bytes are not read yet is idle
        late = d.connect()
        late.sendall(request(BODY))
        status, headers, body, _ = read_answer(late)
        self.assertEqual((status, json.loads(body)["code"], headers["retry-after"]), (503, "overloaded", "1"))
        for path in ("/healthz", "/readyz", "/metrics"):
            self.assertEqual(d.ask("GET", path)[0], 200, path)
        for s in kept:
            s.sendall(b"}")
            self.assertEqual(read_answer(s)[0], 200)
            s.close()
        self.assertEqual(d.ask("POST", "/estimate", BODY)[0], 200)
        late.close()
        self.assertEqual(d.stop()[0], 0)

    def test_idle_ones_make_room(self):
        d = Daemon("--connections", "8", "--per-address", "100", "--event-threads", "1")
        kept = [d.connect() for _ in range(8)]
        for s in kept:
            s.sendall(HEALTH)
            self.assertEqual(read_answer(s)[0], 200)
            time.sleep(0.01)
        for i in range(3):
            with d.connect() as late:
                late.sendall(request(BODY))
                self.assertEqual(read_answer(late)[0], 200)
                self.assertEqual(kept[i].recv(1), b"")  # longest idle
                for s in kept[3:]:
                    s.sendall(HEALTH)
                    self.assertEqual(read_answer(s)[0], 200)
            time.sleep(0.5)  # the end of the late one is noticed
            kept.append(d.connect())
        for s in kept:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_one_address_leaves_room_for_others(self):
        d = Daemon("--connections", "64", "--per-address", "16")
        busy = [d.connect() for _ in range(16)]
        for s in busy:
            s.sendall(request(BODY)[:-1])
        time.sleep(1)  # whose first bytes are not read yet is idle
        with d.connect() as late:
            late.sendall(request(BODY))
            self.assertEqual(read_answer(late)[0], 503)
        with socket.create_connection(("127.0.0.1", d.port), timeout=20, source_address=("127.0.0.2", 0)) as other:
            other.sendall(request(BODY))
            self.assertEqual(read_answer(other)[0], 200)
        for s in busy:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_a_crowd_that_says_nothing(self):
        d = Daemon("--connections", "200")
        crowd = [d.connect() for _ in range(1000)]
        began = time.time()
        with socket.create_connection(("127.0.0.1", d.port), timeout=20, source_address=("127.0.0.2", 0)) as other:
            other.sendall(request(BODY))
            self.assertEqual(read_answer(other)[0], 200)
        self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        if not SLOW:
            self.assertLess(time.time() - began, 5)
        for s in crowd:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_a_connection_that_says_nothing_is_closed(self):
        d = Daemon("--idle", "1", "--deadline", "2")
        began = time.time()
        with d.connect() as s:
            self.assertEqual(s.recv(100), b"")
        self.assertLess(time.time() - began, 30 if SLOW else 10)
        with d.connect() as s:
            s.sendall(HEALTH)
            self.assertEqual(read_answer(s)[0], 200)
            self.assertEqual(s.recv(100), b"")
        self.assertEqual(d.stop()[0], 0)

    def drip(self, d, at_once, data):
        """Byte by byte, each of which would restart an idle timer; the seconds until the connection is cut."""
        began = time.time()
        with d.connect() as s:
            s.sendall(at_once)
            s.settimeout(0.2)
            for byte in data:
                try:
                    s.sendall(bytes([byte]))
                    if s.recv(100) == b"":
                        return time.time() - began
                except socket.timeout:
                    continue
                except OSError:
                    return time.time() - began
        return None

    def test_slow_senders_are_cut(self):
        d = Daemon("--idle", "2", "--deadline", "2")
        drips = [(b"", b"G" * 100), (HEALTH[:-2] + b"X: ", b"y" * 100), (request(b"x" * 100)[:-90], b"x" * 90)]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for seconds in pool.map(lambda drip: self.drip(d, *drip), drips):
                self.assertIsNotNone(seconds)
                self.assertLess(seconds, 30 if SLOW else 10)
        code, log = d.stop()
        self.assertEqual((code, log.count("end=cut")), (0, 2), log)

    def test_slow_readers_hold_nobody(self):
        d = Daemon("--threads", "1", "--event-threads", "1", "--deadline", "20" if SLOW else "3")
        lazy = []
        for _ in range(20):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", d.port))
            s.sendall(b"GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
            lazy.append(s)
        time.sleep(0.2)
        self.assertEqual(d.ask("POST", "/estimate", BODY)[0], 200)
        d.wait_for("llmemd_connections", 1, 60)
        for s in lazy:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_a_batch_does_not_starve_others(self):
        d = Daemon("--threads", "2")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            batches = [pool.submit(d.ask, "POST", "/estimate/batch", batch(100 * i)) for i in range(4)]
            time.sleep(0.3)
            self.assertEqual(d.ask("POST", "/estimate", BODY)[0], 200)
            self.assertFalse(all(b.done() for b in batches), "one question waited for all batches")
            self.assertLessEqual({b.result()[0] for b in batches}, {200, 404, 405})
        self.assertEqual(d.stop()[0], 0)


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon("--origins", "https://a.example,https://b.example", "--hosts", "planner.example", "--deadline", "20")

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop()[0] == 0

    def test_pipelining(self):
        with self.d.connect() as s:
            s.sendall(request(BODY) + HEALTH + request(BODY) + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + request(BODY) * 20)
            rest, statuses, bodies = b"", [], []
            for _ in range(24):
                status, _, body, rest = read_answer(s, rest)
                statuses.append(status)
                bodies.append(body)
        self.assertEqual(statuses, [200, 200, 200, 404] + [200] * 20)
        self.assertEqual(len({bodies[0], bodies[2], *bodies[4:]}), 1)

    def test_chunks(self):
        body = BODY.encode()
        with self.d.connect() as s:
            s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for i in range(0, len(body), 7):
                s.sendall(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]))
            s.sendall(b"0\r\n\r\n" + HEALTH)
            status, _, answer, rest = read_answer(s)
            self.assertEqual(status, 200)
            self.assertEqual(answer, self.d.ask("POST", "/estimate", BODY)[2])
            self.assertEqual(read_answer(s, rest)[0], 200)
        for bad in (b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n0\r\n\r\n"):
            self.assertIn(self.d.raw(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + bad).split(b" ")[1:2], ([b"400"], []))

    def test_packed_bodies(self):
        """Said, not guessed at: a body that came packed is no broken JSON."""
        for coding in ("gzip", "br", "deflate, gzip"):
            status, headers, body = self.d.ask("POST", "/estimate", gzip.compress(BODY.encode()), {"Content-Encoding": coding})
            self.assertEqual((status, json.loads(body)["code"], headers["accept-post"]), (415, "unsupported-media-type", "application/json"))
            self.assertIn("Content-Encoding", json.loads(body)["detail"])
        self.assertEqual(self.d.ask("POST", "/estimate", BODY, {"Content-Encoding": "Identity"})[0], 200)
        for lines in (b"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"):
            head = b"POST /estimate HTTP/1.1\r\nHost: localhost\r\n" + lines + b"Content-Length: 2\r\n\r\n{}"
            self.assertEqual(self.d.raw(head).split(b" ")[1], b"415", lines)

    def test_targets_as_a_proxy_is_asked(self):
        """RFC 9112, 3.2.2: what the target names is asked, whatever Host says; it is held to the same list."""
        def ask(target, host):
            with self.d.connect() as s:
                s.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, host))
                return read_answer(s)
        plain = self.d.ask("GET", "/gpus?name=T4")
        for target in (b"http://localhost/gpus?name=T4", b"HTTP://127.0.0.1:%d/gpus?name=T4" % self.d.port, b"https://localhost/gpus?name=T4"):
            for host in (b"localhost", b"evil.example"):
                got = ask(target, host)
                self.assertEqual((got[0], got[2]), (200, plain[2]), (target, host))
        self.assertEqual(ask(b"http://localhost", b"localhost")[0], 200)
        for target in (b"http://evil.example/gpus", b"http://localhost@evil.example/gpus", b"http://localhost.evil.example/gpus"):
            self.assertEqual(ask(target, b"localhost")[0], 421, target)
        for target in (b"http:///gpus", b"ftp://localhost/gpus", b"http:/gpus"):
            self.assertEqual(ask(target, b"localhost")[0], 404, target)

    def test_continue(self):
        done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect: 100-continue", "-d", BODY,
                               "http://127.0.0.1:%d/estimate" % self.d.port], capture_output=True, timeout=60)
        self.assertEqual(done.stdout, b"200", done.stderr)

    def test_head_is_get_without_a_body(self):
        for path in ("/gpus", "/metrics", "/readyz", "/models/facebook/opt-125m", "/nothing"):
            got, head = self.d.ask("GET", path), self.d.ask("HEAD", path)
            self.assertEqual((head[0], head[2]), (got[0], b""), path)
            if path != "/metrics":
                self.assertEqual({k: head[1].get(k) for k in ("content-length", "etag", "content-type")},
                                 {k: got[1].get(k) for k in ("content-length", "etag", "content-type")}, path)

    def test_not_modified(self):
        for path in ("/gpus", "/models/facebook/opt-125m", "/openapi.yaml"):
            status, headers, body = self.d.ask("GET", path)
            etag = headers["etag"]
            self.assertRegex(etag, r'^"[0-9a-f]{32}"$')
            for sent in (etag, "W/" + etag, '"x", %s' % etag, "*"):
                for method in ("GET", "HEAD"):
                    status, again, body = self.d.ask(method, path, headers={"If-None-Match": sent})
                    self.assertEqual((status, body), (304, b""), (path, sent))
                    for name in ("etag", "cache-control", "vary"):
                        self.assertEqual(again[name], headers[name])
            self.assertEqual(self.d.ask("GET", path, headers={"If-None-Match": '"x"'})[0], 200)
        with self.d.connect() as s:  # nothing follows a 304
            s.sendall(b"GET /gpus HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n" + HEALTH)
            status, headers, body, rest = read_answer(s)
            self.assertEqual((status, body), (304, b""))
            self.assertEqual(read_answer(s, rest)[0], 200)

    def test_validators_are_of_the_bytes(self):
        first, hit = self.d.ask("POST", "/estimate", BODY), self.d.ask("POST", "/estimate", BODY)
        spaced = self.d.ask("POST", "/estimate", " " + BODY)
        other = self.d.ask("POST", "/estimate", BODY.replace("512", "513"))
        self.assertEqual(len({first[1]["etag"], hit[1]["etag"], spaced[1]["etag"]}), 1)
        self.assertEqual(len({first[2], hit[2], spaced[2]}), 1)
        self.assertNotEqual(other[1]["etag"], hit[1]["etag"])
        self.assertEqual(hit[1]["cache-status"], "llmemd; hit")

    def test_request_ids(self):
        self.assertEqual(self.d.ask("GET", "/gpus", headers={"X-Request-Id": "a-1.b:2"})[1]["x-request-id"], "a-1.b:2")
        none = (None, "with blank", "x" * 200, 'a"b')
        made = [self.d.ask("GET", "/nothing", headers={"X-Request-Id": bad} if bad else {})[1]["x-request-id"] for bad in none]
        self.assertEqual(len(set(made)), 4)
        for i in made:
            self.assertRegex(i, "^[0-9a-f]{16}$")
        for bad in none:  # from the cache, one response goes to all
            headers = self.d.ask("GET", "/gpus", headers={"X-Request-Id": bad} if bad else {})[1]
            self.assertEqual(headers["cache-status"], "llmemd; hit")
            self.assertNotIn("x-request-id", headers)

    def test_a_hit_is_told_as_it_was_to_others(self):
        """But for what the request itself adds: its id; the age; the validator that it brought."""
        question = BODY.replace("512", "640")
        miss = self.d.ask("POST", "/estimate", question)
        plain = [self.d.ask("POST", "/estimate", question) for _ in range(3)]
        named = self.d.ask("POST", "/estimate", question, {"X-Request-Id": "mine"})
        for answer in (*plain, named):
            self.assertEqual((answer[0], answer[2]), (200, miss[2]))
            self.assertEqual(answer[1]["cache-status"], "llmemd; hit")
            for name in miss[1].keys() - {"date", "cache-status", "x-request-id", "age"}:
                self.assertEqual(answer[1][name], miss[1][name], name)
        self.assertEqual(named[1]["x-request-id"], "mine")
        time.sleep(2.1)
        self.assertGreaterEqual(int(self.d.ask("POST", "/estimate", question)[1]["age"]), 2)
        self.d.ask("GET", "/gpus")
        whole = self.d.ask("GET", "/gpus")
        for _ in range(2):
            status, headers, body = self.d.ask("GET", "/gpus", headers={"If-None-Match": whole[1]["etag"]})
            self.assertEqual((status, body, headers["etag"]), (304, b"", whole[1]["etag"]))
            self.assertNotIn("content-type", headers)
            self.assertEqual(self.d.ask("GET", "/gpus")[2], whole[2])
            status, headers, body = self.d.ask("HEAD", "/gpus")
            self.assertEqual((status, body, int(headers["content-length"])), (200, b"", len(whole[2])))

    def test_every_answer_is_guarded(self):
        for answer in (self.d.ask("GET", "/gpus"), self.d.ask("GET", "/nothing"), self.d.ask("POST", "/estimate", BODY), self.d.ask("POST", "/estimate", "{")):
            self.assertEqual(answer[1]["x-content-type-options"], "nosniff")
            self.assertIn("default-src 'none'", answer[1]["content-security-policy"])
            self.assertEqual(answer[1]["referrer-policy"], "no-referrer")
        page = self.d.ask("GET", "/")[1]
        self.assertTrue(page["content-type"].startswith("text/html"))
        self.assertTrue(page["content-security-policy"].startswith("default-src 'self'; base-uri 'none'"))
        self.assertEqual(self.d.ask("GET", "/nothing")[1]["cache-control"], "no-store")

    def test_browsers(self):
        ask = {"Origin": "https://b.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        status, headers, body = self.d.ask("OPTIONS", "/estimate", headers=ask)
        self.assertEqual((status, body, headers["access-control-allow-origin"]), (204, b"", "https://b.example"))
        self.assertIn("POST", headers["access-control-allow-methods"])
        self.assertIn("X-HF-Token", headers["access-control-allow-headers"])
        status, headers, _ = self.d.ask("GET", "/gpus", headers={"Origin": "https://a.example"})
        self.assertEqual((status, headers["access-control-allow-origin"]), (200, "https://a.example"))
        self.assertIn("Origin", headers["vary"])
        foreign = dict(ask, Origin="https://a.example.evil")
        self.assertNotIn("access-control-allow-origin", self.d.ask("OPTIONS", "/estimate", headers=foreign)[1])
        self.assertNotIn("access-control-allow-origin", self.d.ask("GET", "/gpus", headers=foreign)[1])

    def test_names_of_this_machine(self):
        for good in ("localhost", "localhost:1234", "127.0.0.1", "127.0.0.1:%d" % self.d.port, "[::1]:80", "LOCALHOST", "planner.example:8080"):
            self.assertEqual(self.d.ask("GET", "/healthz", headers={"Host": good})[0], 200, good)
        for bad in ("evil.example", "localhost:80@evil.example", "[::1].evil.example", "127.0.0.1:8x", "localhost.evil.example", "127.0.0.1.evil.example", "planner.example.evil", "[::2]", "10.0.0.1"):
            status, _, body = self.d.ask("GET", "/healthz", headers={"Host": bad})
            self.assertEqual((status, json.loads(body)["code"]), (421, "wrong-host"), bad)

    def test_messages_that_contradict_themselves(self):
        for lines in (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 2\r\nContent-Length: 3\r\n", b"Transfer-Encoding: gzip\r\n",
                      b"Host: localhost\r\nContent-Length: 2\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                      b"Transfer-Encoding : chunked\r\n", b"Content-Length : 2\r\n", b"Content-Length\t: 2\r\n", b"X: a\rContent-Length: 2\r\n", b"X\x01: a\r\n",
                      b"X-A: \x7f\r\nContent-Length: 2\r\n", b"X-HF-Token: hf_a\r\nX-HF-Token: hf_b\r\nContent-Length: 2\r\n", b"X Y: 1\r\n"):
            with self.d.connect() as s:
                s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n{}\r\n")
                got = read_until(s, b"!never!")  # and the connection is closed
            self.assertTrue(got.startswith(b"HTTP/1.1 400 "), (lines, got[:80]))
            self.assertEqual(got.count(b"HTTP/1.1"), 1)
        old = b"POST /estimate HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        with self.d.connect() as s:  # which has no chunks
            s.sendall(old)
            got = read_until(s, b"!never!")
        self.assertTrue(got.startswith(b"HTTP/1.1 400 ") or got.startswith(b"HTTP/1.0 400 "), got[:80])
        self.assertEqual(self.d.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX:\ta\tb \xc3\xa4\r\n\r\n").split(b" ")[1], b"200")
        for line in (b"GET /healthz%00x HTTP/1.1\r\n", b"GET / x HTTP/1.1\r\n", b"nonsense\r\n", b"GET /healthz HTTP/9.9\r\n"):
            self.assertIn(self.d.raw(line + b"Host: localhost\r\n\r\n").split(b" ")[1:2], ([b"400"], [b"505"], []), line)
        self.assertIn(self.d.raw(b"GET /healthz HTTP/1.1\r\n\r\n").split(b" ")[1:2], ([b"400"],))

    def test_many_small_things_in_a_head(self):
        """Parameters, cookies, header lines: however many, each connection reads an answer, and the next one is answered. (A query of 120 ended the process:
        libmicrohttpd 0.9.75 has no room for their list and goes on.) Trailers that leave no room for an answer end their connection."""
        d = Daemon("--event-threads", "1")
        end, chunked = b"Host: localhost\r\nConnection: close\r\n", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
        for n in (*range(90, 130, 2), 300, 600):
            small = [b"a%d=1" % i for i in range(n)]
            lines = b"".join(b"a%d: 1\r\n" % i for i in range(n))
            for message, wanted in ((b"GET /estimate?" + b"&".join(small) + b" HTTP/1.1\r\n" + end + b"\r\n", b"422 400"),
                                    (b"GET /estimate?" + b"&" * n * 5 + b" HTTP/1.1\r\n" + end + b"\r\n", b"422"),
                                    (b"GET /healthz HTTP/1.1\r\n" + end + b"Cookie: " + b"; ".join(small) + b"\r\n\r\n", b"200 431"),
                                    (b"GET /healthz HTTP/1.1\r\n" + end + lines + b"\r\n", b"200 431"),
                                    (b"POST /estimate HTTP/1.1\r\n" + end + chunked + lines + b"\r\n", b"422 431")):
                answer = d.raw(message)
                self.assertTrue(answer[9:12] in wanted and (answer or chunked in message), (n, message[:40], answer))
        self.assertEqual(d.stop()[0], 0)

    def test_what_hides_in_headers(self):
        """A folded token makes nothing public, and no terminal is written to by a method."""
        get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        for line in (b"X-HF-Token:\r\n hf_folded", b"X-HF-Token:", b"X-HF-Token: hf_a\r\n hf_b"):
            self.assertEqual(self.d.raw(get + line + b"\r\n\r\n").split(b" ")[1:2], [b"400"], line)
        for method in (b"G\x1b[31mT", b"GE\rT", b"G=T"):
            answer = self.d.raw(method + b" /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(answer.split(b" ")[1:2], ([b"400"], []), method)
        self.assertEqual(self.d.raw(get + b"X-HF-Token: hf_plain\r\n\r\n").split(b" ")[1], b"200")

    def test_long_headers(self):
        self.assertEqual(self.d.raw(HEALTH[:-2] + b"X: " + b"y" * 7000 + b"\r\n\r\n").split(b" ")[1], b"200")
        for n in (8100, 9000, 20000, 100000):
            self.assertIn(self.d.raw(HEALTH[:-2] + b"X: " + b"y" * n + b"\r\n\r\n").split(b" ")[1:2], ([b"431"], []), n)
        self.assertEqual(self.d.raw(HEALTH[:-2] + b"X: " + b"y" * 9000 + b"\r\n\r\n").split(b" ")[1], b"431")
        self.assertIn(self.d.raw(HEALTH[:-2] + b"X: y\r\n" * 3000 + b"\r\n").split(b" ")[1:2], ([b"431"], []))
        self.assertEqual(self.d.raw(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n").split(b" ")[1], b"414")
        self.assertEqual(self.d.ask("GET", "/healthz")[0], 200)

    def test_large_bodies(self):
        small = Daemon("--max-body", "1000")
        for n, status in ((1000, 400), (1001, 413), (200000, 413)):
            answer = small.ask("POST", "/estimate", "{" + " " * (n - 1))
            self.assertEqual(answer[0], status, n)
        self.assertEqual(small.stop()[0], 0)
        exact = BODY[:-1] + " " * (1048576 - len(BODY)) + "}"
        self.assertEqual(self.d.ask("POST", "/estimate", exact)[0], 200)
        self.assertEqual(self.d.ask("POST", "/estimate", exact + " ")[0], 413)
        self.assertIn(b" 413 ", self.d.raw(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"))

    def test_rate(self):
        d = Daemon("--rate", "3", "--proxies", "127.0.0.1")
        asked = [BODY] + ["{}" + " " * i for i in range(5)]
        statuses = [d.ask("POST", "/estimate", q)[0] for q in asked[:4]]
        self.assertEqual(statuses, [200, 422, 422, 429])
        status, headers, body = d.ask("POST", "/estimate", asked[4])
        self.assertEqual((status, json.loads(body)["code"]), (429, "too-many-requests"))
        self.assertTrue(1 <= int(headers["retry-after"]) <= 20, headers["retry-after"])
        self.assertEqual(d.ask("POST", "/estimate", asked[0])[0], 200)  # the cache is free
        self.assertEqual(d.ask("POST", "/estimate", asked[5], {"X-HF-Token": "hf_any"})[0], 429)  # a token that nobody verified is no other caller
        self.assertEqual(d.ask("POST", "/estimate", asked[5], {"X-Forwarded-For": "1.2.3.4, 10.0.0.9"})[0], 422)
        self.assertEqual(d.stop()[0], 0)

    def test_one_site_is_one_caller(self):
        """Of version 6 a /64; a port is none of an address; version 4 on a socket of version 6 is what --proxies names."""
        d = Daemon("--rate", "3", "--proxies", "127.0.0.1")
        n = 0
        for sites in (("2001:db8:1:2::%x", "[2001:db8:1:2:ff::%x]:80", "2001:DB8:1:2:0:0:9:%x"), ("192.0.2.7:%d", "::ffff:192.0.2.7", "192.0.2.7"),
                      ("2001:db8:1:3::%x",), ("unknown",)):
            statuses = []
            for i in range(6):
                who = sites[i % len(sites)]
                n += 1
                statuses.append(d.ask("POST", "/estimate", "{}" + " " * n, {"X-Forwarded-For": "203.0.113.9, " + (who % (i + 1) if "%" in who else who)})[0])
            self.assertEqual(statuses, [422] * 3 + [429] * 3, sites)
        self.assertEqual(d.stop()[0], 0)

    def test_version_four_on_a_socket_of_version_six(self):
        try:
            with socket.socket(socket.AF_INET6) as s:
                s.bind(("::", 0))
        except OSError:
            raise unittest.SkipTest("no IPv6")
        p = subprocess.Popen([LLMEMD, "serve", "--listen", "[::]:0", "--hosts", "x", "--proxies", "127.0.0.1", "--rate", "1"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        port = int(p.stderr.readline().rsplit(":", 1)[1])
        statuses = []
        for i in range(4):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
                s.sendall(request("{}" + " " * i, extra="X-Forwarded-For: 192.0.2.%d\r\n" % i))
                statuses.append(read_answer(s)[0])
        self.assertEqual(statuses, [422] * 4)
        p.terminate()
        self.assertEqual(p.wait(60), 0)
        p.stderr.close()

    def test_json_log(self):
        d = Daemon("--log", "json")
        d.ask("POST", "/estimate", BODY, {"X-Request-Id": "mine", "X-HF-Token": "hf_secret"})
        d.ask("GET", "/models/facebook/opt-125m")
        code, log = d.stop()
        # Two connections: whose last byte is told first is open.
        lines = sorted((json.loads(line) for line in log.splitlines()), key=lambda line: line["method"], reverse=True)
        self.assertEqual([(line["method"], line["route"], line["status"]) for line in lines], [("POST", "/estimate", 200), ("GET", "/models/{id}", 200)])
        self.assertEqual((lines[0]["id"], lines[0]["cache"], lines[0]["end"]), ("mine", "miss", "sent"))
        self.assertNotIn("hf_secret", log)
        self.assertNotIn("opt-125m", log)

    def test_a_log_that_nobody_reads_holds_up_nobody(self):
        p = subprocess.Popen([LLMEMD, "serve", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE)
        self.addCleanup(p.kill)
        port = int(p.stderr.readline().decode().rsplit(":", 1)[1])
        asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + b"i" * 128 + b"\r\n\r\n"
        dropped = 0
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            for _ in range(120):
                s.sendall(asked * 100)
                rest = b""
                for _ in range(100):
                    status, _, _, rest = read_answer(s, rest)
                    self.assertEqual(status, 200)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            dropped = int(re.search(r"\nllmemd_log_lines_dropped_total (\d+)", read_answer(s)[2].decode())[1])
        self.assertTrue(1000 < dropped < 12000, dropped)
        began = time.time()
        p.terminate()
        self.assertEqual(p.wait(60), 0)
        self.assertLess(time.time() - began, 30 if SLOW else 10)
        lines = p.stderr.read().decode().splitlines()
        self.assertRegex(lines[0], "^ts=[0-9-]+T[0-9:.]+Z id=i{128} method=GET route=/healthz status=200 .* end=sent$")
        p.stderr.close()

    def test_the_cache_is_bounded(self):
        d = Daemon("--answers", "16", "--answers-mib", "8")
        for i in range(24):
            d.ask("POST", "/estimate", BODY.replace("512", str(64 + i)))
        m = d.metrics()
        self.assertLessEqual(float(m["llmemd_answer_cache_entries"]), 16)
        self.assertLessEqual(float(m["llmemd_answer_cache_bytes"]), 8 << 20)
        self.assertGreater(float(m["llmemd_answer_cache_dropped_total"]), 0)
        self.assertEqual(d.stop()[0], 0)
        d = Daemon("--answers", "0")
        self.assertEqual([d.ask("POST", "/estimate", BODY)[1]["cache-status"] for _ in range(2)], ["llmemd; fwd=miss; detail=builtin", "llmemd; fwd=miss; detail=memory"])
        self.assertEqual(d.stop()[0], 0)

    def test_command_line_members(self):
        done = subprocess.run([LLMEMD, "estimate", "what"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(subprocess.run([LLMEMD, "estimate", "--no-such", "x=y"], capture_output=True, timeout=60).returncode, 2)


class Metrics(unittest.TestCase):
    """The text format 0.0.4, read strictly."""
    NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
    LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'

    def parse(self, text):
        self.assertTrue(text.endswith("\n"))
        families, family, samples = {}, None, {}
        for line in text.split("\n")[:-1]:
            meta = re.fullmatch(r"# (HELP|TYPE) (%s) (.+)" % self.NAME, line)
            if meta:
                kind, name, rest = meta.groups()
                if kind == "HELP":
                    self.assertNotIn(name, families, "a family twice")
                    families[name] = None
                    family = name
                else:
                    self.assertEqual((name, families[name]), (family, None))
                    self.assertIn(rest, ("counter", "gauge", "histogram"))
                    families[name] = rest
                continue
            sample = re.fullmatch(r"(%s)(?:\{(.*)\})? (\S+)" % self.NAME, line)
            self.assertTrue(sample, line)
            name, labels, value = sample.groups()
            self.assertIn(name, [family] + [family + e for e in ("_bucket", "_sum", "_count") if families[family] == "histogram"], line)
            pairs = re.findall(self.LABEL, labels or "")
            self.assertEqual(",".join('%s="%s"' % p for p in pairs), labels or "", line)
            key = (name, tuple(sorted(pairs)))
            self.assertNotIn(key, samples, "a sample twice")
            samples[key] = float(value)
            if families[family] == "counter":
                self.assertTrue(name.endswith("_total"), name)
        self.assertNotIn(None, families.values())
        return families, samples

    def check_histograms(self, families, samples):
        for family in (f for f, kind in families.items() if kind == "histogram"):
            series = {}
            for (name, labels), value in samples.items():
                if name == family + "_bucket":
                    rest = tuple(p for p in labels if p[0] != "le")
                    series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
            self.assertTrue(series)
            for rest, buckets in series.items():
                counts = [v for _, v in sorted(buckets)]
                self.assertEqual(counts, sorted(counts))
                self.assertEqual(sorted(buckets)[-1][0], float("inf"))
                self.assertEqual(counts[-1], samples[(family + "_count", rest)])
                self.assertGreaterEqual(samples[(family + "_sum", rest)], 0)

    def test_page(self):
        d = Daemon()
        for _ in range(3):
            d.ask("POST", "/estimate", BODY)
        d.ask("POST", "/estimate", "{")
        d.ask("GET", "/models/facebook/opt-125m")
        d.ask("BREW", '/no"such\\thing')
        end, body = time.time() + 5, b""
        while b'method="other"' not in body and time.time() < end:  # a request is counted once its answer has gone
            status, headers, body = d.ask("GET", "/metrics")
        self.assertEqual((status, headers["content-type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        families, samples = self.parse(body.decode())
        self.check_histograms(families, samples)
        self.assertEqual(samples[("llmemd_requests_total", (("method", "POST"), ("route", "/estimate"), ("status", "2xx")))], 3)
        self.assertEqual(samples[("llmemd_requests_total", (("method", "POST"), ("route", "/estimate"), ("status", "4xx")))], 1)
        self.assertEqual(samples[("llmemd_requests_total", (("method", "other"), ("route", "-"), ("status", "4xx")))], 1)
        self.assertEqual(samples[("llmemd_answers_total", (("tier", "answer"),))], 2)
        self.assertIn(samples[("llmemd_requests_in_flight", ())], (1, 2))  # the one before may not have been counted out yet
        self.assertGreater(samples[("process_resident_memory_bytes", ())], 1 << 20)
        self.assertLess(abs(samples[("process_start_time_seconds", ())] - time.time()), 600)
        self.assertNotIn("opt-125m", body.decode())
        again = self.parse(d.ask("GET", "/metrics")[2].decode())[1]
        for key, value in samples.items():
            if key[0].endswith("_total"):
                self.assertGreaterEqual(again[key], value, key)
        self.assertEqual(d.ask("POST", "/metrics", "x")[1]["allow"], "GET, HEAD")
        self.assertEqual(d.stop()[0], 0)


main(unittest, 4)
