"""Where the daemon listens, whom it tells how it stands, and what it does when everything is full. door.py"""
import concurrent.futures
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

from daemon import BODY, LLMEMD, SLOW, Daemon, SlowHub, main, question, read_answer, request

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
PROBES = ("/healthz", "/readyz", "/metrics")


def ask_path(path, data=HEALTH):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(path)
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
        d = Daemon("--admin-listen", "127.0.0.1:0", "--connections", "16", "--per-address", "100", "--event-threads", "1")
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
