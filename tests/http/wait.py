"""Requests that wait for a slow hub, and everybody else. wait.py"""
import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from daemon import BODY, SLOW, Daemon, SlowHub, main, question, request

WAITING = 32


class Wait(unittest.TestCase):
    def ask_many(self, d, pool, n, prefix="slow"):
        return [pool.submit(d.ask, "POST", "/estimate", question("%s/m%d" % (prefix, i))) for i in range(n)]

    def test_fast_ones_stay_fast(self):
        hub = SlowHub(1.5)
        d = hub.daemon("--threads", "1", "--event-threads", "1")
        d.ask("POST", "/estimate", question("facebook/opt-125m"))
        with concurrent.futures.ThreadPoolExecutor(WAITING) as pool:
            slow = self.ask_many(d, pool, WAITING)
            d.wait_for("llmemd_requests_waiting", WAITING)
            times = []
            while not any(f.done() for f in slow):
                began = time.time()
                self.assertEqual(d.ask("GET", "/gpus")[0], 200)
                self.assertEqual(d.ask("POST", "/estimate", question("facebook/opt-125m"))[1]["cache-status"], "llmemd; hit")
                times.append(time.time() - began)
            if not SLOW:
                self.assertGreater(len(times), 10)
                self.assertLess(sorted(times)[len(times) // 2], 0.1)
            answers = [f.result() for f in slow]
        self.assertEqual({a[0] for a in answers}, {200})
        self.assertTrue(all("fwd=miss" in a[1]["cache-status"] and "detail=hub" in a[1]["cache-status"] for a in answers))
        self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_equal_questions_share_the_fetch_and_the_bytes(self):
        hub = SlowHub(0.5)
        d = hub.daemon()
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: d.ask("POST", "/estimate", question("one/model")), range(20)))
        self.assertEqual({a[0] for a in answers}, {200})
        self.assertEqual(len({a[2] for a in answers}), 1)
        self.assertEqual(len({a[1]["etag"] for a in answers}), 1)
        self.assertEqual(len([p for p in hub.seen if p.endswith("config.json")]), 1)
        self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_stop_while_many_wait(self):
        hub = SlowHub(2)
        d = hub.daemon("--drain", "200")
        with concurrent.futures.ThreadPoolExecutor(WAITING) as pool:
            slow = self.ask_many(d, pool, WAITING)
            d.wait_for("llmemd_requests_waiting", WAITING)
            d.process.send_signal(signal.SIGTERM)
            statuses = [f.result()[0] for f in slow]
        self.assertEqual(statuses, [200] * WAITING)
        self.assertEqual(d.ended()[0], 0)
        hub.stop()

    def test_stop_refuses_who_waits_too_long(self):
        hub = SlowHub(6)
        d = hub.daemon("--drain", "1")
        with concurrent.futures.ThreadPoolExecutor(WAITING) as pool:
            slow = self.ask_many(d, pool, WAITING)
            d.wait_for("llmemd_requests_waiting", WAITING)
            began = time.time()
            d.process.send_signal(signal.SIGTERM)
            answers = [f.result() for f in slow]
        self.assertEqual(d.ended()[0], 0)
        self.assertLess(time.time() - began, 60 if SLOW else 7)
        for status, headers, body in answers:
            self.assertEqual((status, json.loads(body)["code"]), (503, "draining"))
            self.assertIn("retry-after", headers)
        hub.stop()

    def test_ready_is_red_while_draining(self):
        hub = SlowHub(6)
        d = hub.daemon("--drain-wait", "2")
        self.assertEqual(d.ask("GET", "/readyz")[0], 200)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = self.ask_many(d, pool, 1)
            d.wait_for("llmemd_requests_waiting", 1)
            d.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            status, headers, body = d.ask("GET", "/readyz")
            self.assertEqual((status, json.loads(body)["code"], headers["connection"]), (503, "draining", "close"))
            self.assertEqual(d.ask("GET", "/healthz")[0], 200)
            self.assertEqual(d.metrics()["llmemd_draining"], "1")
            time.sleep(2)
            self.assertRaises(ConnectionError, d.ask, "GET", "/healthz")
            self.assertEqual(slow[0].result()[0], 200)
        self.assertEqual(d.ended()[0], 0)
        hub.stop()

    def test_a_second_signal_ends_it_at_once(self):
        hub = SlowHub(30)
        d = hub.daemon("--hub-timeout", "40000", TSAN_OPTIONS="report_thread_leaks=0")  # nobody is joined
        s = d.connect()
        s.sendall(request(question("slow/one")))
        d.wait_for("llmemd_requests_waiting", 1)
        d.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        began = time.time()
        d.process.send_signal(signal.SIGTERM)
        self.assertEqual(d.ended()[0], 1)
        self.assertLess(time.time() - began, 20 if SLOW else 2)
        s.close()
        hub.stop()

    def test_who_leaves_while_waiting_disturbs_nobody(self):
        hub = SlowHub(1)
        d = hub.daemon()
        for i in range(10):
            s = d.connect()
            s.sendall(request(question("left/m%d" % i)))
            if i % 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
            time.sleep(0.02)
            s.close()
        self.assertEqual(d.ask("POST", "/estimate", question("left/m0"))[0], 200)
        d.wait_for("llmemd_requests_waiting", 0)
        self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_a_deadline_while_waiting(self):
        hub = SlowHub(8)
        d = hub.daemon("--deadline", "1")
        began = time.time()
        status, headers, body = d.ask("POST", "/estimate", question("slow/one"))
        self.assertLess(time.time() - began, 20 if SLOW else 5)
        self.assertEqual((status, json.loads(body)["code"]), (503, "overloaded"))
        self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_a_deadline_longer_than_the_machine_is_up(self):
        """Seen where the machine was started less than an hour ago: every request that waited was refused by the next sweep."""
        hub = SlowHub(2.5)
        d = hub.daemon("--deadline", "3600")
        self.assertEqual(d.ask("POST", "/estimate", question("slow/one"))[0], 200)
        self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_no_slot_is_a_503(self):
        hub = SlowHub(2)
        d = hub.daemon("--waiting", "4")
        self.assertEqual(d.ask("POST", "/estimate", BODY)[0], 200)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            slow = self.ask_many(d, pool, 4)
            d.wait_for("llmemd_requests_waiting", 4)
            status, headers, body = d.ask("POST", "/estimate", question("slow/more"))
            self.assertEqual((status, json.loads(body)["code"], headers["retry-after"]), (503, "overloaded", "1"))
            self.assertEqual(d.raw(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n").split()[1], b"503")
            # What is in the cache, and the pages of the server, are there for everyone.
            self.assertEqual(d.ask("POST", "/estimate", BODY)[1]["cache-status"], "llmemd; hit")
            self.assertEqual(d.ask("GET", "/healthz")[0], 200)
            self.assertEqual(float(d.metrics()['llmemd_refused_total{reason="waiting"}']), 2)
            self.assertEqual([f.result()[0] for f in slow], [200] * 4)
        self.assertEqual(d.ask("POST", "/estimate", question("slow/more"))[0], 200)
        self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_a_token_opens_for_its_owner_alone(self):
        hub = SlowHub(0)
        d = hub.daemon()
        asked = question("gated/model")
        first = d.ask("POST", "/estimate", asked, {"X-HF-Token": "hf_one"})
        again = d.ask("POST", "/estimate", asked, {"X-HF-Token": "hf_one"})
        other = d.ask("POST", "/estimate", asked, {"X-HF-Token": "hf_two"})
        nobody = d.ask("POST", "/estimate", asked)
        self.assertEqual([a[0] for a in (first, again, other, nobody)], [200] * 4)
        self.assertEqual(again[1]["cache-status"], "llmemd; hit")
        for a in (other, nobody):
            self.assertIn("fwd=miss", a[1]["cache-status"])
        for a in (first, again, other):
            self.assertEqual(a[1]["cache-control"], "private, no-store")
            self.assertIn("X-HF-Token", a[1]["vary"])
        self.assertEqual(first[2], nobody[2])
        self.assertIn("Bearer hf_one", hub.tokens)
        self.assertEqual(d.ask("POST", "/estimate", asked, {"X-HF-Token": "no token\tat all"})[0], 400)
        code, log = d.stop()
        self.assertEqual(code, 0)
        self.assertNotIn("hf_", log)
        hub.stop()

    def test_who_leaves_with_his_last_bytes_is_let_go(self):
        """The end comes together with half a request, and is no event of its own to the library."""
        d = Daemon("--idle", "300", "--deadline", "300")
        for _ in range(60):
            with d.connect() as s:
                s.sendall(request(BODY)[:-1])
        d.wait_for("llmemd_requests_in_flight", 1, 20)  # the one that asks for it
        d.wait_for("llmemd_connections", 1, 20)
        self.assertEqual(d.stop()[0], 0)

    def test_a_hangup_reloads(self):
        """What was remembered is asked for anew, with the token as it is now; who waits is not disturbed, and nobody is sent away."""
        hub = SlowHub(0.5)
        with tempfile.NamedTemporaryFile("w", suffix=".token") as token:
            token.write("hf_before")
            token.flush()
            kept = tempfile.TemporaryDirectory()  # what lies on a disk is asked for anew too
            d = hub.daemon("--share-token", "--cache-dir", kept.name, HF_TOKEN_PATH=token.name)
            asked = question("org/model")
            self.assertEqual(d.ask("POST", "/estimate", asked)[0], 200)
            self.assertEqual(d.ask("POST", "/estimate", asked)[1]["cache-status"], "llmemd; hit")
            self.assertEqual({t for t in hub.tokens}, {"Bearer hf_before"})
            seen = len(hub.tokens)
            with open(token.name, "w") as f:
                f.write("hf_after")
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(d.ask, "POST", "/estimate", question("org/other"))
                d.wait_for("llmemd_requests_waiting", 1)
                d.process.send_signal(signal.SIGHUP)
                self.assertEqual(waiting.result()[0], 200)
            for _ in range(100):
                if "reloaded\n" in d.log:
                    break
                time.sleep(0.05)
            before = hub.seen.count("/org/model/resolve/main/config.json")
            again = d.ask("POST", "/estimate", asked)
            self.assertEqual(again[0], 200)
            self.assertIn("fwd=miss", again[1]["cache-status"])
            self.assertGreater(hub.seen.count("/org/model/resolve/main/config.json"), before)
            self.assertIn("Bearer hf_after", hub.tokens[seen:])
            d.process.send_signal(signal.SIGHUP)
            self.assertEqual(d.ask("GET", "/readyz")[0], 200)
            self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_the_command_line_asks_the_same_hub(self):
        hub = SlowHub(0.2)
        d = hub.daemon()
        env = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
        env["HF_ENDPOINT"] = "http://127.0.0.1:%d" % hub.server.server_port
        done = subprocess.run([d.process.args[0], "estimate"], input=question("some/model").encode(), capture_output=True, timeout=60, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, d.ask("POST", "/estimate", question("some/model"))[2])
        self.assertEqual(d.stop()[0], 0)
        hub.stop()


main(unittest, 6)
