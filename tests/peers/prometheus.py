"""A real Prometheus scrapes the daemon by deploy/prometheus, and every expression of the rules and of the dashboard is asked of it."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from callers import question

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
from daemon import Daemon  # noqa: E402

PROMETHEUS = sys.argv[1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Watched(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.admin, cls.port, cls.dir = free_port(), free_port(), tempfile.mkdtemp()
        cls.daemon = Daemon("--offline", "--admin-listen", "127.0.0.1:%d" % cls.admin)
        for i in range(3):
            cls.daemon.ask("POST", "/estimate", question(i))
        with open("deploy/prometheus/prometheus.yml") as f:
            text = f.read()
        text = text.replace("127.0.0.1:9081", "127.0.0.1:%d" % cls.admin).replace(', "127.0.0.1:9082"', "").replace("scrape_interval: 15s", "scrape_interval: 1s")
        with open(cls.dir + "/prometheus.yml", "w") as f:
            f.write(text.replace("global:", "global:\n  evaluation_interval: 1s"))
        shutil.copy("deploy/prometheus/llmemd.rules.yml", cls.dir)
        cls.process = subprocess.Popen([PROMETHEUS, "--config.file", cls.dir + "/prometheus.yml", "--storage.tsdb.path", cls.dir + "/data", "--log.level", "error",
                                        "--web.listen-address", "127.0.0.1:%d" % cls.port], stdin=subprocess.DEVNULL)
        cls.wait(lambda: cls.query("sum(llmemd_requests_total)"))

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        cls.process.wait(20)
        shutil.rmtree(cls.dir)
        cls.daemon.stop()

    @staticmethod
    def wait(true, seconds=30):
        end = time.time() + seconds
        while True:
            try:
                if true():
                    return
            except (OSError, urllib.error.URLError):
                pass
            if time.time() > end:
                raise AssertionError("not in %d s" % seconds)
            time.sleep(0.2)

    @classmethod
    def api(cls, path, **query):
        with urllib.request.urlopen("http://127.0.0.1:%d/api/v1/%s?%s" % (cls.port, path, urllib.parse.urlencode(query)), timeout=20) as r:
            return json.load(r)["data"]

    @classmethod
    def query(cls, expression):
        return cls.api("query", query=expression)["result"]

    def test_it_is_scraped(self):
        target, = self.api("targets")["activeTargets"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        self.wait(lambda: self.query('up{job="llmemd"}')[0]["value"][1] == "1")

    def test_the_rules_are_evaluated(self):
        self.wait(lambda: all(r["health"] == "ok" for g in self.api("rules")["groups"] for r in g["rules"]))
        self.assertEqual(self.api("alerts")["alerts"], [])

    def test_every_panel_has_figures(self):
        with open("deploy/grafana/llmemd.json") as f:
            panels = json.load(f)["panels"]
        time.sleep(3)  # rates want two scrapes
        self.daemon.ask("POST", "/estimate", question(9))
        self.wait(lambda: self.query("sum(rate(llmemd_requests_total[10s])) > 0"))
        for expression in [t["expr"] for p in panels for t in p["targets"]]:
            asked = expression.replace("$__rate_interval", "10s").replace("$instance", ".*")
            self.assertTrue(self.query(asked), "nothing for " + asked)

    def test_nothing_that_is_measured_is_left_out(self):
        """Each family stands on the dashboard or in a rule."""
        with open("deploy/grafana/llmemd.json") as f, open("deploy/prometheus/llmemd.rules.yml") as g:
            shown = f.read() + g.read()
        families = re.findall(r"^# TYPE (\S+)", self.daemon.ask("GET", "/metrics")[2].decode(), re.M)
        self.assertEqual([n for n in families if n not in shown and n not in ("llmemd_answer_cache_entries", "llmemd_lane_busy", "llmemd_jobs_begun_anew_total")], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
