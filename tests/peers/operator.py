"""What an operator does to the unit, under a real systemd: installs, kills, reloads, upgrades under load, limits. Runs inside boot.sh's machine.

    operator.py MAKE_INSTALL...     the command that installs
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from callers import CONFIG, Callers, question

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../hub"))
from lookalike import Hub, Repo  # noqa: E402

PORT, INSTALL = 8080, sys.argv[1:]
ENVIRONMENT = "/etc/llmemd/llmemd.env"


def sh(*command, check=True):
    r = subprocess.run(command, capture_output=True, text=True)
    if check and r.returncode:
        raise AssertionError("%s: %s" % (" ".join(command), r.stdout + r.stderr + sh("journalctl", "-n", "30", "--no-pager", check=False)))
    return r.stdout.strip()


def systemctl(*args, check=True):
    return sh("systemctl", *args, check=check)


def show(what, n=1):
    return systemctl("show", "-P", what, "llmemd@%d" % n)


def ask(path, body=None, port=PORT, headers=None):
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), body and body.encode(), headers or {})
    try:
        with urllib.request.urlopen(request, timeout=90) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def metric(name, port=9081):
    found = re.search(r"^%s (\S+)$" % re.escape(name), ask("/metrics", port=port)[1], re.M)
    return float(found.group(1))


def configure(*lines):
    with open(ENVIRONMENT, "w") as f:
        f.write("\n".join(lines) + "\n")


def log(n=1):
    sh("journalctl", "--sync")
    return sh("journalctl", "-u", "llmemd@%d" % n, "--no-pager", "-o", "cat")


def wait_until(true, what, seconds=20):
    end = time.time() + seconds
    while not true():
        if time.time() > end:
            raise AssertionError("not within %d s: %s\n%s" % (seconds, what, sh("journalctl", "-n", "30", "--no-pager", check=False)))
        time.sleep(0.02)


def callers(**how):
    return Callers(PORT, model="lab/open", **how)


class Operator(unittest.TestCase):
    """In the order of their names, on one machine."""

    @classmethod
    def setUpClass(cls):
        cls.hub = Hub(0).__enter__()
        cls.hub.repos["lab/open"] = Repo(CONFIG)
        cls.hub.repos["lab/gated"] = Repo(CONFIG, gated="auto", allowed={"hf_first"})
        sh(*INSTALL)
        # A name, not a number: the resolver works within the unit's walls too.
        configure("HF_ENDPOINT=http://localhost:%d" % cls.hub.port, "LLMEMD_SHARE_TOKEN=1")
        with open("/etc/llmemd/hf-token", "w") as f:
            f.write("hf_first\n")
        os.chmod("/etc/llmemd/hf-token", 0o600)
        systemctl("daemon-reload")

    def test_01_installed_and_started(self):
        systemctl("enable", "--now", "llmemd@1")
        self.assertEqual(show("ActiveState"), "active")
        self.assertEqual(systemctl("is-enabled", "llmemd@1"), "enabled")
        self.assertEqual(ask("/readyz")[0], 200)
        self.assertEqual(ask("/estimate", question(1, "lab/open"))[0], 200)

    def test_02_the_walls(self):
        pid = show("MainPID")
        with open("/proc/%s/status" % pid) as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        self.assertTrue(all(int(uid) > 60000 for uid in status["Uid"].split()))
        self.assertEqual({status[c] for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {"0" * 16})
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        with open("/proc/%s/limits" % pid) as f:
            limits = f.read()
        self.assertRegex(limits, r"Max core file size +0 +0 ")
        self.assertRegex(limits, r"Max open files +16384 +16384 ")
        self.assertGreater(metric("process_resident_memory_bytes"), 1 << 20)  # /proc, as the unit shows it, still has the daemon

    def test_03_token_and_cache(self):
        status, body = ask("/estimate", json.dumps({"model": "lab/gated", "cluster": {"gpu": "A100-40GB"}, "training": {"seq_len": 128, "methods": "single"}}))
        self.assertEqual(status, 200, body)
        self.assertIn("Bearer hf_first", [r["headers"].get("authorization") for r in self.hub.requests])
        self.assertEqual(ask("/models/lab/open")[0], 200)
        self.assertTrue(any(files for _, _, files in os.walk("/var/cache/private/llmemd")))
        self.assertNotIn("hf_first", systemctl("show", "llmemd@1") + log())

    def test_04_reload(self):
        pid, before = show("MainPID"), len(self.hub.requests)
        with callers() as c:
            c.wait_for(50)
            systemctl("reload", "llmemd@1")
            c.wait_for(50)
        self.assertEqual(set(c.answers), {200}, c.lost[:5])
        self.assertEqual(show("MainPID"), pid)
        self.assertEqual(ask("/models/lab/open")[0], 200)
        self.assertGreater(len(self.hub.requests), before)  # asked anew

    def test_05_killed(self):
        for how in (signal.SIGKILL, signal.SIGSEGV):
            pid = show("MainPID")
            with callers(keep=2, new=6) as c:
                c.wait_for(50)
                os.kill(int(pid), how)
                wait_until(lambda: show("MainPID") not in ("0", pid) and show("ActiveState") == "active", "a new process")
                c.wait_for(100)
            # What was under way or had been accepted is gone with the process; nobody was refused: the address is systemd's.
            self.assertTrue(all("ConnectionRefused" not in why for _, why in c.lost), c.lost)
            self.assertLessEqual(c.answers["lost"], 8, c.lost)
        self.assertNotIn("code=dumped", log())

    def test_06_upgraded_alone(self):
        """Restarted as it stands: callers wait in the socket's queue, nothing is lost."""
        for _ in range(3):
            pid = show("MainPID")
            with callers() as c:
                c.wait_for(50)
                sh(*INSTALL)
                systemctl("restart", "llmemd@1")
                c.wait_for(100)
            self.assertNotEqual(show("MainPID"), pid)
            self.assertEqual(set(c.answers), {200}, c.lost[:5])

    def test_07_upgraded_in_turn(self):
        """Two instances share the socket: while one ends the long question that it has, the other answers."""
        systemctl("enable", "--now", "llmemd@2")
        with callers() as c:
            c.wait_for(100)
            for n in (1, 2, 1, 2):
                systemctl("restart", "llmemd@%d" % n)
                wait_until(lambda: ask("/readyz", port=9080 + n)[0] == 200, "ready")
                c.wait_for(50)
        self.assertEqual(set(c.answers), {200}, c.lost[:5])
        self.assertLess(c.slowest, 5)
        systemctl("disable", "--now", "llmemd@2")

    def test_08_token_changed(self):
        self.hub.repos["lab/gated"].allowed = {"hf_second"}
        with open("/etc/llmemd/hf-token", "w") as f:
            f.write("hf_second\n")
        systemctl("restart", "llmemd@1")
        self.hub.forget()
        self.assertEqual(ask("/models/lab/gated?revision=" + self.hub.repos["lab/gated"].commit)[0], 200)
        systemctl("stop", "llmemd.socket", "llmemd@1")
        os.unlink("/etc/llmemd/hf-token")
        systemctl("start", "llmemd@1")  # without the file: no token
        self.hub.forget()
        self.assertEqual(ask("/models/lab/open?revision=main")[0], 200)
        self.assertEqual({r["headers"].get("authorization") for r in self.hub.requests}, {None})

    def test_09_stopped_under_load(self):
        for _ in range(4):
            began = time.time()
            with callers(keep=2, new=2) as c:
                c.wait_for(20)
                systemctl("stop", "llmemd.socket")  # together with the service it would be the last to go, and whoever waits in it reset
                systemctl("stop", "llmemd@1")
                self.assertEqual(show("Result"), "success")
                self.assertEqual(show("ExecMainStatus"), "0")
            self.assertTrue(all("ConnectionRefused" in why for _, why in c.lost), c.lost[:5])
            self.assertLess(time.time() - began, 45)
            systemctl("start", "llmemd@1")

    def test_10_a_word_it_does_not_know(self):
        configure("LLMEMD_THREADS=many")
        systemctl("restart", "llmemd@1", check=False)
        wait_until(lambda: show("ActiveState") == "failed", "failed")
        self.assertEqual(show("ExecMainStatus"), "2")
        time.sleep(1.5)
        self.assertEqual(show("NRestarts"), "0")
        self.assertIn("LLMEMD_THREADS: not a value it can have", log())
        configure("")
        systemctl("reset-failed")
        systemctl("start", "llmemd@1")
        self.assertEqual(ask("/readyz")[0], 200)

    def drop_in(self, *lines):
        os.makedirs("/etc/systemd/system/llmemd@.service.d", exist_ok=True)
        with open("/etc/systemd/system/llmemd@.service.d/test.conf", "w") as f:
            f.write("[Service]\n" + "".join(line + "\n" for line in lines))
        systemctl("daemon-reload")
        systemctl("restart", "llmemd@1")

    def test_11_stands_still(self):
        self.drop_in("WatchdogSec=2")
        time.sleep(5)
        self.assertEqual(show("NRestarts"), "0")  # who turns is left alone
        pid = show("MainPID")
        os.kill(int(pid), signal.SIGSTOP)
        wait_until(lambda: show("MainPID") not in ("0", pid) and show("ActiveState") == "active", "a new process")
        self.assertEqual(ask("/readyz")[0], 200)

    def test_12_too_much_memory(self):
        self.drop_in("MemoryMax=12M", "Environment=LLMEMD_THREADS=2")
        pid = show("MainPID")
        with callers(keep=0, new=2, distinct=100000):
            wait_until(lambda: show("MainPID") not in ("0", pid), "a new process", 60)
        # Where control groups are of the first version systemd sees the signal alone.
        self.assertRegex(sh("journalctl", "_PID=1", "--no-pager", "-o", "cat", "-n", "30"), "oom-kill|status=9/KILL")
        self.drop_in()
        self.assertEqual(ask("/readyz")[0], 200)

    def test_13_nothing_was_denied(self):
        self.assertNotRegex(sh("journalctl", "--no-pager", "-o", "cat"), "SECCOMP|audit.*llmemd|Failed to set up")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2, failfast=True)
