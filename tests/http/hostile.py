"""Clients that mean harm, and a power cut: what they get is bounded, and others notice nothing. hostile.py"""
import json
import os
import signal
import socket
import tempfile
import threading
import time
import unittest

from daemon import BODY, SLOW, Daemon, SlowHub, main, question, read_answer, read_until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def rss_mib(d):
    with open("/proc/%d/statm" % d.process.pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20


class Readers(unittest.TestCase):
    def lazy(self, d, asked):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.connect(("127.0.0.1", d.port))
        s.sendall(asked)
        return s

    def test_who_reads_byte_by_byte_is_cut(self):
        """Each byte taken would restart an idle timer; the deadline counts from the first byte of the answer."""
        d = Daemon("--idle", "2", "--deadline", "2", "--batch-deadline", "2")
        batch = json.dumps({"requests": [json.loads(BODY)] * 50}).encode()
        asked = (b"GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
                 b"POST /estimate/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(batch) + batch)
        for data, seconds in zip(asked, (8, 30)):
            s = self.lazy(d, data)
            began = time.time()
            ended = False
            while not ended and time.time() - began < (120 if SLOW else seconds):
                time.sleep(0.05)
                connections = float(d.metrics()["llmemd_connections"])
                try:
                    s.settimeout(0.01)
                    ended = s.recv(1) == b"" or connections == 1
                except socket.timeout:
                    ended = connections == 1
                except OSError:
                    ended = True
            self.assertTrue(ended, data[:40])
            s.close()
            if not SLOW and seconds == 8:
                self.assertLess(time.time() - began, 8)
        self.assertEqual(d.stop()[0], 0)


class Senders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon("--deadline", "60")

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop()[0] == 0

    def test_thousands_pipelined(self):
        n = 500 if SLOW else 5000
        before = rss_mib(self.d)
        with self.d.connect(60) as s:
            sender = threading.Thread(target=s.sendall, args=(HEALTH * n,))
            sender.start()
            began = time.time()
            self.assertEqual(self.d.ask("GET", "/healthz")[0], 200)
            if not SLOW:
                self.assertLess(time.time() - began, 2)
            rest = b""
            for _ in range(n):
                status, _, _, rest = read_answer(s, rest)
                self.assertEqual(status, 200)
            sender.join()
        if not SLOW:
            self.assertLess(rss_mib(self.d) - before, 8)

    def test_thousands_pipelined_and_never_read(self):
        before = rss_mib(self.d)
        s = self.d.connect(60)
        s.setblocking(False)
        sent = 0
        try:
            while sent < 64 << 20:
                sent += s.send(HEALTH * 1000)
        except BlockingIOError:
            pass  # the daemon reads no further than it is read
        self.assertLess(sent, 64 << 20)
        self.assertEqual(self.d.ask("GET", "/healthz")[0], 200)
        if not SLOW:
            self.assertLess(rss_mib(self.d) - before, 8)
        s.close()

    def test_a_chunk_without_an_end_is_waited_for(self):
        """A chunk's extension that fills the library's buffer: nothing can come of it, and nothing is done for it until it is cut."""
        d = Daemon("--event-threads", "1", "--drain", "1")
        held = [d.connect() for _ in range(4)]
        for s in held:
            s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"e" * 9000)
        time.sleep(1)
        before = float(d.metrics()["process_cpu_seconds_total"])
        time.sleep(2)
        if not SLOW:
            self.assertLess(float(d.metrics()["process_cpu_seconds_total"]) - before, 0.5)
        self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        for s in held:
            s.close()
        self.assertEqual(d.stop()[0], 0)

    def test_half_closed(self):
        """Who has sent all and says so may have left: his answer comes, or the end does, and nothing stays behind."""
        for data in (HEALTH, b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY.encode(), HEALTH[:-2],
                     b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", CHUNKED + b"5\r\n{", b"", b"\r\n" * 10):
            with self.d.connect(60) as s:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                got = read_until(s, b"!never!")
                self.assertTrue(got == b"" or got.startswith(b"HTTP/1.1 "), got[:100])

    def test_as_many_chunks_as_bytes(self):
        body = BODY.encode() + b" " * (2000 if SLOW else 100000)
        with self.d.connect(60) as s:
            began = time.time()
            s.sendall(CHUNKED + b"".join(b"1;x=y\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n")
            status, _, answer, _ = read_answer(s)
            self.assertEqual((status, answer), (200, self.d.ask("POST", "/estimate", BODY)[2]))
            if not SLOW:
                self.assertLess(time.time() - began, 10)

    def test_sizes_that_are_none(self):
        for chunk in (b"ffffffffffffffff\r\n", b"10000000000000000\r\n{}", b"7fffffffffffffff\r\n{}", b"0x2\r\n{}\r\n", b" 2\r\n{}\r\n", b"+2\r\n{}\r\n",
                      b"2;" + b"x" * 100000 + b"\r\n{}\r\n", b"2\r\n{}}\r\n", b"0\r\nX: " + b"y" * 100000):
            with self.d.connect(60) as s:
                try:
                    s.sendall(CHUNKED + chunk)
                    s.shutdown(socket.SHUT_WR)
                    got = read_until(s, b"!never!")
                except OSError:
                    got = b""
            self.assertIn(got.split(b" ")[1:2], ([b"400"], [b"413"], [b"431"], []), (chunk[:40], got[:100]))
        for length in (b"-1", b"18446744073709551616", b"99999999999999999999999", b"0x10", b"1e3", b"1 2", b"", b"+5", b"5,5"):
            with self.d.connect(60) as s:
                s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + b"\r\n\r\n{}")
                s.shutdown(socket.SHUT_WR)
                got = read_until(s, b"!never!")
            self.assertNotIn(got.split(b" ")[1:2], ([b"200"],), length)
        self.assertEqual(self.d.ask("GET", "/healthz")[0], 200)


class PowerCut(unittest.TestCase):
    def test_kill_while_the_cache_is_written(self):
        """What lies on the disk then is whole, or it is not there."""
        hub = SlowHub(0)
        wanted = {}
        with tempfile.TemporaryDirectory() as cache:
            asked = ["org/m%d" % i for i in range(40)]
            for turn in range(4 if SLOW else 10):
                d = hub.daemon("--cache-dir", cache)
                threads = [threading.Thread(target=self.ask_until_it_ends, args=(d, asked[turn * 4:turn * 4 + 4])) for _ in range(2)]
                for t in threads:
                    t.start()
                time.sleep(0.01 * turn)
                d.process.send_signal(signal.SIGKILL)
                d.process.wait()
                for t in threads:
                    t.join()
            self.assertLessEqual(len([n for n in os.listdir(cache) if n.startswith("new-")]), 10)
            d = hub.daemon()
            for model in asked:
                wanted[model] = d.ask("POST", "/estimate", question(model))[2]
            self.assertEqual(d.stop()[0], 0)
            hub.stop()
            d = Daemon("--offline", "--cache-dir", cache)
            found = 0
            for model in asked:
                status, _, body = d.ask("POST", "/estimate", question(model))
                self.assertIn(status, (200, 404), body[:300])
                if status == 200:
                    found += 1
                    a, b = json.loads(body), json.loads(wanted[model])
                    self.assertEqual(a["candidates"], b["candidates"])
            self.assertEqual(d.stop()[0], 0)

    def ask_until_it_ends(self, d, models):
        try:
            for model in models:
                d.ask("POST", "/estimate", question(model))
        except Exception:  # in the middle of an answer
            pass


main(unittest, 2)
