"""What deploy/ and docs/operations.md say of the daemon, held against the daemon: options, defaults, metrics, times. Python's standard library only."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
from daemon import LLMEMD, Daemon  # noqa: E402


def read(path):
    with open(path) as f:
        return f.read()


HELP = subprocess.run([LLMEMD, "--help"], capture_output=True, text=True, check=True).stdout
ROWS = re.findall(r"^  (--[a-z-]+) (.*?) +(LLMEMD_[A-Z_]+) +(.*)$", HELP, re.M)
DEFAULTS = {flag: int(found.group(1)) for flag, _, _, text in ROWS for found in [re.search(r"\((\d+)\)$", text)] if found}
OPERATIONS = read("docs/operations.md")
UNIT = "deploy/systemd/llmemd@.service"


class Deploy(unittest.TestCase):
    def test_options_that_are_named_exist(self):
        known = {row[2] for row in ROWS} | {"LLMEMD"}
        for path in glob.glob("deploy/*/*") + ["Dockerfile", "docs/operations.md"]:
            self.assertLessEqual(set(re.findall(r"\bLLMEMD_[A-Z_]+\b", read(path))), known, path)
        foreign = {"--now", "--build", "--json", "--offline=true", "--connections=0"}  # other programs'
        flags = {f for f in re.findall(r"(?<![\w-])--[a-z][a-z-]+", OPERATIONS)} - foreign
        self.assertLessEqual(flags, {row[0] for row in ROWS} | {"--help"})

    def test_every_option_stands_in_operations(self):
        self.assertEqual([row[0] for row in ROWS if "`%s" % row[0] not in OPERATIONS and "%s`" % row[0] not in OPERATIONS], [])

    def test_limits_have_the_program_s_defaults(self):
        table = OPERATIONS.split("## Limits")[1].split("\n## ")[0]
        checked = 0
        for row in re.findall(r"^\| (`--.*?) \| (.*?) \|", table, re.M):
            flags, defaults = re.findall(r"--[a-z-]+", row[0]), re.findall(r"\b\d+\b", row[1])
            for flag, default in zip(flags, defaults):
                if DEFAULTS.get(flag):  # 0 has a meaning of its own
                    self.assertEqual(int(default), DEFAULTS[flag], flag)
                    checked += 1
        self.assertGreater(checked, 10)

    def test_one_licence(self):
        self.assertIn("license: {name: Apache-2.0, identifier: Apache-2.0}", read("openapi.yaml"))
        self.assertRegex(read("LICENSE"), r"^\s*Apache License\s+Version 2\.0,")

    def test_codes_that_are_named_exist(self):
        codes = {c for c in re.findall(r'^ERR\(\w+, *\d+, *"([a-z-]+)"', read("core/base/err.def"), re.M)} | {"budget"}
        self.assertLessEqual(set(re.findall(r"(?:\b[45]\d\d|code) `([a-z-]+)`", OPERATIONS)), codes)

    def test_figures_that_are_asked_for_exist(self):
        d = Daemon("--offline")
        d.ask("GET", "/gpus")
        families = set(re.findall(r"^# TYPE (\S+)", d.ask("GET", "/metrics")[2].decode(), re.M))
        d.stop()
        families |= {f + s for f in families for s in ("_bucket", "_sum", "_count")}
        for path in ("deploy/prometheus/llmemd.rules.yml", "deploy/prometheus/llmemd.rules.test.yml", "deploy/grafana/llmemd.json", "docs/operations.md"):
            names = set(re.findall(r"\b(?:llmemd|process)_[a-z]+(?:_[a-z]+)*\b", read(path)))
            self.assertTrue(names or "test" in path)
            self.assertEqual(names - families, set(), path)

    def test_alerts_are_tested_and_told(self):
        alerts = re.findall(r"- alert: (\w+)", read("deploy/prometheus/llmemd.rules.yml"))
        for alert in alerts:
            self.assertIn("alertname: %s\n" % alert, read("deploy/prometheus/llmemd.rules.test.yml"))
            self.assertIn(alert, OPERATIONS)

    def test_whoever_ends_it_waits_long_enough(self):
        drains = DEFAULTS["--drain"]
        wait = int(re.search(r"LLMEMD_DRAIN_WAIT=(\d+)", read(UNIT)).group(1))
        self.assertGreaterEqual(int(re.search(r"TimeoutStopSec=(\d+)", read(UNIT)).group(1)), wait + drains + 5)
        self.assertGreaterEqual(int(re.search(r"stop_grace_period: (\d+)s", read("deploy/compose/compose.yaml")).group(1)), drains + 5)
        k = read("deploy/kubernetes/llmemd.yaml")
        stated = sum(int(n) for n in re.findall(r'LLMEMD_DRAIN(?:_WAIT)?: "(\d+)"', k))
        self.assertGreaterEqual(int(re.search(r"terminationGracePeriodSeconds: (\d+)", k).group(1)), stated + 5)

    def test_nginx_knows_the_limits(self):
        n = read("deploy/nginx/llmemd.conf")
        self.assertEqual(int(re.search(r"client_max_body_size (\d+)m;", n).group(1)) << 20, DEFAULTS["--max-body"])
        self.assertGreater(int(re.search(r"proxy_read_timeout (\d+)s;", n).group(1)), DEFAULTS["--deadline"])
        self.assertLess(int(re.search(r"\n    keepalive_timeout (\d+)s;", n).group(1)), DEFAULTS["--idle"])

    def test_probes_ask_what_there_is(self):
        paths = set(re.findall(r"path: (/\w+)", read("deploy/kubernetes/llmemd.yaml")))
        self.assertEqual(paths, {"/healthz", "/readyz", "/metrics"} & paths)
        self.assertEqual(len(json.loads(read("deploy/grafana/llmemd.json"))["panels"]), len({p["title"] for p in json.loads(read("deploy/grafana/llmemd.json"))["panels"]}))
        self.assertRegex(read("Dockerfile"), r"\nUSER \d+:\d+\n")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_the_unit_is_walled_in(self):
        said = float(re.search(r"\*\*exposure (\d\.\d)\*\*", OPERATIONS).group(1))
        r = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=%d" % (said * 10), UNIT], capture_output=True, text=True)
        if "--offline" in r.stderr or "unrecognized" in r.stderr:
            self.skipTest("systemd-analyze is older than 250")
        self.assertEqual(r.returncode, 0, r.stdout[-600:] + r.stderr)
        self.assertIn(": %.1f " % said, r.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=0)
