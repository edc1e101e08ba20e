"""What a client of the hub must survive, by number. hub.py HUB_PROBE [unittest's arguments]"""
import contextlib
import ctypes
import glob
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lookalike import COMMIT, CONFIG, OTHER, Hub, Repo  # noqa: E402

PROBE = os.path.abspath(sys.argv.pop(1))


class Probe:
    """hub_probe with an environment of its own."""

    def __init__(self, endpoint, *flags, home=None, env=None, **popen):
        self.own = None if home else tempfile.TemporaryDirectory()
        home = home or self.own.name
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")}
        everything = {**keep, "HOME": home, "HF_ENDPOINT": endpoint, "NO_PROXY": "*", **(env or {})}
        self.process = subprocess.Popen([*popen.pop("under", []), PROBE, *map(str, flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=everything, **popen)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answers(self):
        got = []
        for line in self.process.stdout:
            if line.startswith("done "):
                self.ms = int(line.split()[1])
                return got
            got.append(json.loads(line))
        raise AssertionError("the probe is gone: %s" % self.process.stderr.read())

    def ask_all(self, n, model, revision="main", token="-", file=""):
        self.say("ask %d %s %s %s %s" % (n, model, revision, token, file))
        return self.answers()

    def ask(self, model, revision="main", token="-", file=""):
        return self.ask_all(1, model, revision, token, file)[0]

    def counts(self):
        self.say("counts")
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self.errors = self.process.communicate(timeout=60)[1]
        if self.own:
            self.own.cleanup()
        if how[0] is None and self.process.returncode:
            raise AssertionError("exit status %d: %s" % (self.process.returncode, self.errors))


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.hub = self.enterContext(Hub()) if hasattr(self, "enterContext") else self.enter(Hub())
        self.dir = self.enter(tempfile.TemporaryDirectory())

    def enter(self, manager):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        return stack.enter_context(manager)

    def probe(self, *flags, **more):
        return Probe(more.pop("endpoint", self.hub.endpoint), *flags, **more)

    def one(self, model, revision="main", token="-", flags=(), file="", **more):
        with self.probe(*flags, **more) as p:
            return p.ask(model, revision, token, file)

    def fails(self, answer, error, *words):
        self.assertEqual(answer["error"], error, answer)
        for word in words:
            self.assertIn(word, answer["detail"])

    def came(self, answer, source="hub", tier="hub", **more):
        self.assertIsNone(answer["error"], answer)
        self.assertEqual({k: answer[k] for k in ("source", "tier", *more)}, {"source": source, "tier": tier, **more})


class Names(Case):
    def test_01_bad_id_asks_nothing(self):
        with self.probe() as p:
            for name in "a--b", "a/b/c", "-a", "a.git", "../x", "a/..", "a" * 97, "a/b%2f", "/a", "a/", "org/.name":
                self.fails(p.ask(name), "field-value")
            for revision in "../main", "a//b", "/x", "x/", "a..b", "a?b", "a^b", ".x", "x.lock", "@{1}a@{", "a" * 256:
                self.fails(p.ask("org/plain", revision), "field-value")
            self.fails(p.ask("org/plain", "main", "t" * 1500), "hub-token-refused")
        self.assertEqual(self.hub.connections, 0)

    def test_revision_is_quoted(self):
        self.hub.repos["org/plain"].revisions.add("refs/pr/4")
        self.came(self.one("org/plain", "refs/pr/4"))
        self.assertEqual({r["path"].split("?")[0] for r in self.hub.requests},
                         {"/org/plain/resolve/refs%2Fpr%2F4/config.json", "/api/models/org/plain/revision/refs%2Fpr%2F4"})

    def test_plain(self):
        a = self.one("org/plain")
        self.came(a, commit=COMMIT, parameters=1000, note=None, is_private=False)
        self.assertEqual(json.loads(a["text"]), CONFIG)
        for r in self.hub.requests:
            self.assertNotIn("authorization", r["headers"])
            self.assertTrue(r["headers"]["user-agent"].startswith("llmemd/"))

    def test_moved_id(self):
        self.came(self.one("gpt2"), commit=COMMIT)

    def test_endpoint_with_path(self):
        self.came(self.one("org/plain", endpoint=self.hub.endpoint + "/mirror//"))
        self.assertTrue(all(r["path"].startswith("/mirror/") and "//" not in r["path"] for r in self.hub.requests))

    def test_endpoints_refused(self):
        for endpoint in "http://huggingface.co", "file:///etc", "ftp://127.0.0.1", "http://10.0.0.1", "https://u:p@x.org", "https://x.org/?a", "x y":
            with self.subTest(endpoint), self.assertRaises(AssertionError), self.probe(endpoint=endpoint):
                pass


class Refusals(Case):
    def test_02_typo(self):
        self.fails(self.one("org/plian"), "model-not-found", "or is private")

    def test_02_typo_with_token(self):
        self.fails(self.one("org/plian", token="good"), "model-not-found", "not open to this token")

    def test_03_gated_anonymous(self):
        self.hub.repos["org/gated"] = Repo(gated="manual", allowed=["good"])
        self.fails(self.one("org/gated"), "model-gated", "X-HF-Token", self.hub.endpoint + "/org/gated")

    def test_03_gated_without_access(self):
        self.hub.repos["org/gated"] = Repo(gated="manual", allowed=["good"])
        self.fails(self.one("org/gated", token="stranger"), "model-gated", "has no access")

    def test_03_gated_with_access(self):
        self.hub.repos["org/gated"] = Repo(gated="manual", allowed=["good"])
        self.came(self.one("org/gated", token="good"), is_private=True)

    def test_03_gated_but_carried(self):
        name = "meta-llama/Meta-Llama-3-8B"
        self.hub.repos[name] = Repo(gated="manual", allowed=["good"], parameters=8030261248)
        with self.probe() as p:
            a = p.ask(name)
            self.came(a, "builtin", "builtin", commit=None, parameters=8030261248)
            self.assertIn("gated", a["note"])
            self.fails(p.ask(name, COMMIT), "model-gated")
            self.fails(p.ask(name, token="stranger"), "model-gated")
            self.came(p.ask(name, token="good"))

    def test_04_private(self):
        self.hub.repos["org/private"] = Repo(private=True, allowed=["good"])
        with self.probe() as p:
            self.came(p.ask("org/private", token="good"), is_private=True)
            self.fails(p.ask("org/private"), "model-not-found")
            self.fails(p.ask("org/private", token="stranger"), "model-not-found")
            self.came(p.ask("org/private", token="good"), tier="memory", is_private=True)

    def test_04_open_model_with_token_is_not_private(self):
        self.came(self.one("org/plain", token="good"), is_private=False)

    def test_05_bad_token(self):
        self.fails(self.one("org/plain", token="bad"), "hub-token-refused")
        self.fails(self.one("fault/expired", token="old"), "hub-token-refused")

    def test_05_bad_token_is_not_answered_with_what_is_carried(self):
        self.fails(self.one("facebook/opt-125m", token="bad"), "hub-token-refused")

    def test_05_bad_token_of_the_server(self):
        with self.probe("--share-token", env={"HF_TOKEN": "bad"}) as p:
            self.fails(p.ask("org/plain"), "hub-failed", "server's token")
            self.came(p.ask("facebook/opt-125m"), "builtin", "builtin")
        self.assertEqual(p.errors.count("token"), 1)
        self.assertNotIn("bad", p.errors)

    def test_disabled(self):
        self.hub.repos["org/off"] = Repo(disabled=True)
        self.fails(self.one("org/off"), "model-not-found", "disabled")

    def test_forbidden(self):
        self.fails(self.one("fault/forbidden", token="scopeless"), "hub-forbidden")
        self.fails(self.one("fault/forbidden"), "hub-failed", "lacks a scope")

    def test_revision(self):
        self.fails(self.one("org/plain", "nope"), "revision-not-found", "nope")

    def test_no_config(self):
        self.hub.repos["org/none"] = Repo(has_config=False)
        self.hub.repos["org/gguf"] = Repo(has_config=False, files=["a.gguf"], card={"base_model": "org/plain"})
        self.hub.repos["org/lora"] = Repo(has_config=False, files=["adapter_config.json"], card={"base_model": ["org/plain", "x"]})
        self.hub.repos["org/evil"] = Repo(has_config=False, files=["adapter_config.json"], card={"base_model": "<script>"})
        with self.probe() as p:
            self.fails(p.ask("org/none"), "config-not-found")
            self.fails(p.ask("org/gguf"), "config-not-found", "GGUF", "org/plain")
            self.fails(p.ask("org/lora"), "config-not-found", "adapter", "org/plain")
            evil = p.ask("org/evil")
            self.fails(evil, "config-not-found", "adapter")
            self.assertNotIn("script", evil["detail"])

    def test_errors_are_remembered(self):
        with self.probe("--absent-s", 3600) as p:
            for _ in range(3):
                self.fails(p.ask("org/plian"), "model-not-found")
            self.assertEqual(len(self.hub.configs()), 1)

    def test_errors_are_forgotten(self):
        with self.probe("--absent-s", 1) as p:
            self.fails(p.ask("org/plian"), "model-not-found")
            self.hub.repos["org/plian"] = Repo()
            time.sleep(1.1)
            self.came(p.ask("org/plian"))

    def test_400_is_ours(self):
        self.fails(self.one("fault/bad-request"), "hub-failed", "unknown expand")
        self.fails(self.one("fault/teapot"), "hub-failed", "418")


class Redirects(Case):
    def test_06_token_stays_at_home(self):
        a = self.one("fault/cross-host", token="sesame")
        self.came(a, commit=COMMIT)
        away = [r for r in self.hub.requests if r["host"] == "127.0.0.2"]
        self.assertEqual([r["path"] for r in away], ["/cdn/config.json?sig=1"])
        self.assertNotIn("sesame", json.dumps(away))
        self.assertIn("sesame", json.dumps(self.hub.requests))

    def test_06_token_does_not_come_back(self):
        self.came(self.one("fault/and-back", token="sesame"))
        last = self.hub.configs()[-1]
        self.assertEqual((last["host"], last["path"].split("?")[0]), ("127.0.0.1", "/api/resolve-cache/x"))
        self.assertNotIn("authorization", last["headers"])

    def test_06_another_port_is_another_host(self):
        self.came(self.one("fault/other-port", token="sesame"))
        self.assertNotIn("authorization", self.hub.configs()[-1]["headers"])

    def test_07_relative_with_query(self):
        self.came(self.one("fault/relative", token="sesame"), commit=COMMIT)
        self.assertEqual(self.hub.configs()[-1]["headers"]["authorization"], "Bearer sesame")

    def test_08_loop(self):
        self.fails(self.one("fault/loop"), "hub-failed", "too often")
        self.assertLessEqual(len(self.hub.configs()), 6)

    def test_08_forbidden_places(self):
        for name in "to-file", "to-gopher", "to-user", "to-inside", "to-port", "to-nowhere":
            with self.subTest(name):
                self.fails(self.one("fault/" + name), "hub-failed", "redirects")
        self.assertEqual([r for r in self.hub.requests if r["host"] != "127.0.0.1"], [])


class Bodies(Case):
    def test_09_commit(self):
        for name in "no-commit", "bad-commit", "two-commits":
            with self.subTest(name):
                self.fails(self.one("fault/" + name), "hub-failed", "X-Repo-Commit")

    def test_11_endless_body(self):
        self.fails(self.one("fault/endless"), "hub-failed", "larger")

    def test_12_gzip(self):
        a = self.one("fault/gzipped")
        self.came(a)
        self.assertEqual(json.loads(a["text"]), CONFIG)

    def test_12_gzip_broken(self):
        self.fails(self.one("fault/gzip-truncated"), "hub-failed")
        self.fails(self.one("fault/gzip-broken"), "hub-failed")

    def test_12_bomb(self):
        with self.probe() as p:
            self.fails(p.ask("fault/bomb"), "hub-failed", "larger")
            with open("/proc/%d/status" % p.process.pid) as status:
                peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
        self.assertLess(peak, 150 << 10 if "ASAN_OPTIONS" not in os.environ else 1 << 30)

    def test_15_html(self):
        self.fails(self.one("fault/proxy"), "hub-failed", "502")
        self.fails(self.one("fault/portal"), "hub-failed", "HTML")
        self.fails(self.one("fault/portal-with-commit"), "hub-failed", "HTML")

    def test_16_odd_but_fine(self):
        for name in "bom", "nan", "duplicates":
            with self.subTest(name):
                self.came(self.one("fault/" + name))

    def test_16_not_a_config(self):
        for name, word in ("deep", ""), ("latin", "UTF-8"), ("a-list", "array"), ("empty", ""), ("huge", "larger"):
            with self.subTest(name):
                self.fails(self.one("fault/" + name), "hub-failed", word)

    def test_17_nested_text_config(self):
        self.assertEqual(json.loads(self.one("fault/nested")["text"])["text_config"], CONFIG)

    def test_18_cut(self):
        for name in "short", "cut-header", "not-http":
            with self.subTest(name):
                self.fails(self.one("fault/" + name), "hub-failed")

    def test_18_cut_once_is_tried_again(self):
        self.came(self.one("fault/cut-once"))

    def test_18_slow_drip(self):
        with self.probe("--total-ms", 700) as p:
            self.fails(p.ask("fault/drip"), "hub-timeout")
            self.assertLess(p.ms, 1500)

    def test_18_endless_headers(self):
        self.fails(self.one("fault/endless-headers"), "hub-failed")


class Limits(Case):
    def test_14_used_up(self):
        with self.probe() as p:
            a = p.ask("fault/limited")
            self.fails(a, "hub-rate-limited")
            self.assertEqual(a["retry_after_s"], 8)
            self.fails(p.ask("org/plain"), "hub-rate-limited")
            self.came(p.ask("facebook/opt-125m"), "builtin", "builtin")
            self.assertEqual(len(self.hub.configs()), 1)
            self.assertEqual(p.counts()["limited"], 1)

    def test_14_retry_after(self):
        self.assertEqual(self.one("fault/limited-later")["retry_after_s"], 42)

    def test_14_untold(self):
        a = self.one("fault/limited-mutely")
        self.fails(a, "hub-rate-limited")
        self.assertTrue(1 <= a["retry_after_s"] <= 60)

    def test_14_stale_is_shown(self):
        with self.probe("--fresh-s", 1) as p:
            self.came(p.ask("org/plain"))
            time.sleep(1.1)
            self.hub.repos["org/plain"].status = 429
            a = p.ask("org/plain")
            self.came(a, tier="memory", commit=COMMIT)
            self.assertIn("limits", a["note"])

    def test_14_backs_off_before_the_last(self):
        with self.probe() as p:
            self.came(p.ask("fault/nearly-limited"))
            a = p.ask("org/plain")
            self.fails(a, "hub-rate-limited")
            self.assertTrue(70 < a["retry_after_s"] <= 78)
            self.assertEqual(len(self.hub.configs()), 1)

    def test_14_a_callers_quota_is_his(self):
        with self.probe() as p:
            self.fails(p.ask("fault/limited", token="his"), "hub-rate-limited")
            self.came(p.ask("org/plain"))

    def test_api_quota_spares_the_config(self):
        self.hub.rate = '"api";r=0;t=300'
        with self.probe() as p:
            self.came(p.ask("org/plain"), parameters=1000)
            self.hub.repos["org/two"] = Repo()
            self.came(p.ask("org/two"), parameters=0)


class Facts(Case):
    def test_both_at_once(self):
        self.hub.repos["org/slow"] = Repo(delay=0.5, api_delay=0.5)
        with self.probe() as p:
            self.came(p.ask("org/slow"), parameters=1000)
            self.assertLess(p.ms, 900)

    def test_api_that_hangs(self):
        self.hub.repos["org/slow"] = Repo(api_delay=6)
        with self.probe() as p:
            self.came(p.ask("org/slow"), parameters=0)
            self.assertLess(p.ms, 3000)

    def test_buffers_and_packed_weights(self):
        for dtypes, n in ({"F32": 7, "BF16": 5, "I64": 3}, 12), ({"F16": 7, "I32": 9}, 0), ({"U8": 9}, 0), ({"BF16": -1}, 0):
            self.hub.repos["org/x"] = Repo(dtypes=dtypes)
            self.came(self.one("org/x"), parameters=n)

    def test_22_branch_moves_between_two_requests(self):
        repo = self.hub.repos["org/plain"]
        repo.next_commit = OTHER
        a = self.one("org/plain")
        self.came(a, commit=COMMIT, parameters=1000)
        self.assertIn("/api/models/org/plain/revision/" + COMMIT, {r["path"].split("?")[0] for r in self.hub.requests})

    def test_revalidation_asks_the_api_only_for_a_new_commit(self):
        with self.probe("--fresh-s", 1) as p:
            self.came(p.ask("org/plain"), parameters=1000)
            time.sleep(1.1)
            self.hub.forget()
            self.came(p.ask("org/plain"), parameters=1000)
            self.assertEqual(len(self.hub.requests), 1)
            self.assertIn("if-none-match", self.hub.requests[0]["headers"])
            time.sleep(1.1)
            self.hub.repos["org/plain"] = Repo(commit=OTHER, parameters=2000)
            self.came(p.ask("org/plain"), parameters=2000, commit=OTHER)


class Down(Case):
    def test_19_refused(self):
        with self.probe(endpoint="http://127.0.0.1:%d" % closed_port()) as p:
            self.fails(p.ask("org/plain"), "hub-failed", "could not be reached")
            a = p.ask("facebook/opt-125m")
            self.came(a, "builtin", "builtin")
            self.assertIn("could not be reached", a["note"])
            self.assertLessEqual(p.counts()["transfers"], 2)

    def test_19_no_such_host(self):
        with self.probe(endpoint="https://hub.invalid") as p:
            self.came(p.ask("gpt2"), "builtin", "builtin")
            self.assertLess(p.ms, 4000)
            self.came(p.ask("facebook/opt-125m"), "builtin", "builtin")
            self.assertLess(p.ms, 100)

    def test_19_no_tls(self):
        a = self.one("gpt2", endpoint="https://127.0.0.1:%d" % self.hub.port)
        self.came(a, "builtin", "builtin")

    def test_19_nobody_accepts(self):
        with socket.socket() as s, socket.socket() as filler:
            s.bind(("127.0.0.1", 0))
            s.listen(0)
            filler.connect(s.getsockname())
            with self.probe("--total-ms", 600, endpoint="http://127.0.0.1:%d" % s.getsockname()[1]) as p:
                self.came(p.ask("gpt2"), "builtin", "builtin")
                self.assertLess(p.ms, 3500)

    def test_proxies(self):
        with self.probe(endpoint="https://hub.invalid", env={"NO_PROXY": "", "HTTPS_PROXY": self.hub.endpoint}) as p:
            self.fails(p.ask("org/plain", token="sesame"), "hub-failed")
        self.assertEqual({(r["path"], "authorization" in r["headers"]) for r in self.hub.requests}, {("CONNECT hub.invalid:443", False)})

    def test_loopback_needs_no_proxy(self):
        nowhere = "http://127.0.0.1:%d" % closed_port()
        self.came(self.one("org/plain", env={"NO_PROXY": "", "http_proxy": nowhere, "ALL_PROXY": nowhere}))

    def test_comes_back(self):
        port = closed_port()
        with self.probe("--down-s", 3, endpoint="http://127.0.0.1:%d" % port) as p:
            self.fails(p.ask("org/plain"), "hub-failed")
            with Hub(port):
                self.fails(p.ask("org/plain"), "hub-failed")
                time.sleep(3.1)
                self.came(p.ask("org/plain"))

    def test_stale_while_down(self):
        port = closed_port()
        with self.probe("--fresh-s", 1, endpoint="http://127.0.0.1:%d" % port) as p:
            with Hub(port):
                self.came(p.ask("org/plain"))
            time.sleep(1.1)
            a = p.ask("org/plain")
            self.came(a, tier="memory", commit=COMMIT)
            self.assertIn("reached", a["note"])

    def test_20_offline_makes_no_socket(self):
        for name in "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE":
            with self.probe(env={name: "1"}) as p:
                self.came(p.ask("gpt2"), "builtin", "builtin")
                self.fails(p.ask("org/plain"), "model-not-found", "offline")
        self.assertEqual(self.hub.connections, 0)

    def test_20_the_newer_name_decides(self):
        self.came(self.one("org/plain", env={"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"}))

    @unittest.skipUnless(shutil.which("openssl"), "no openssl to make a certificate with")
    def test_19_certificates(self):
        key, cert = (os.path.join(self.dir, n) for n in ("key.pem", "cert.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=hub",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
        with Hub(certificate=(cert, key)) as hub:
            self.fails(self.one("org/plain", endpoint=hub.endpoint), "hub-failed", "could not be reached")
            self.assertEqual(hub.requests, [])
            for name in "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE":
                self.came(self.one("org/plain", endpoint=hub.endpoint, env={name: cert}), commit=COMMIT)

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_20_offline_traced(self):
        log = os.path.join(self.dir, "strace")
        env = {"HF_HUB_OFFLINE": "1", "ASAN_OPTIONS": "detect_leaks=0"}
        with self.probe(env=env, under=["strace", "-f", "-o", log, "-e", "trace=network"], endpoint="https://huggingface.co") as p:
            try:
                a = p.ask("gpt2")
            except AssertionError:
                self.skipTest("strace may not trace here")
            self.came(a, "builtin", "builtin")
        with open(log) as f:
            calls = [line for line in f if "socket(" in line or "connect(" in line or "sendto(AF_INET" in line]
        self.assertEqual([c for c in calls if "AF_UNIX" not in c and "socketpair" not in c], [])


class Together(Case):
    def test_21_one_fetch(self):
        self.hub.repos["org/slow"] = Repo(delay=0.3)
        with self.probe("--loops", 4) as p:
            for a in p.ask_all(64, "org/slow"):  # on a busy machine the last of them ask when it has come
                self.came(a, tier=a["tier"] if a["tier"] == "memory" else "hub", commit=COMMIT)
        self.assertEqual(len(self.hub.requests), 2)  # the config, and the API's facts beside it

    def test_21_failure_has_one_new_leader(self):
        with self.probe("--loops", 4) as p:
            for a in p.ask_all(64, "fault/proxy"):
                self.fails(a, "hub-failed")
        self.assertEqual(len(self.hub.configs()), 2)

    def test_21_leader_leaves(self):
        self.hub.repos["org/slow"] = Repo(delay=0.5)
        with self.probe("--loops", 3) as p:
            p.say("open 1 org/slow main -")  # loop 0 leads
            time.sleep(0.2)
            p.say("open 6 org/slow main -")
            time.sleep(0.1)
            p.say("leave 0")
            p.say("wait")
            got = p.answers()
        self.assertEqual(sorted(a["error"] or "" for a in got), [""] * 4 + ["hub-failed"] * 3)

    def test_all_leave(self):
        self.hub.repos["org/slow"] = Repo(delay=0.5)
        with self.probe("--loops", 3) as p:
            p.say("open 12 org/slow main -")
            time.sleep(0.2)
            for i in range(3):
                p.say("leave %d" % i)
            p.say("wait")
            for a in p.answers():
                self.fails(a, "hub-failed", "going away")

    def test_many_models(self):
        for i in range(60):
            self.hub.repos["org/m%d" % i] = Repo({"n": i})
        with self.probe("--loops", 4) as p:
            for i in range(60):
                p.say("open 3 org/m%d main -" % i)
            p.say("wait")
            got = p.answers()
        self.assertEqual(len(got), 180)
        for a in got:
            self.assertEqual(json.loads(a["text"]), {"n": int(a["model"][5:])})


class Tokens(Case):
    def test_servers_token_is_not_for_strangers(self):
        self.hub.repos["org/gated"] = Repo(gated="auto", allowed=["owners"])
        with self.probe(env={"HF_TOKEN": " owners\n"}) as p:
            self.fails(p.ask("org/gated"), "model-gated")
        self.assertNotIn("owners", json.dumps(self.hub.requests))

    def test_servers_token_shared(self):
        self.hub.repos["org/gated"] = Repo(gated="auto", allowed=["owners"])
        with open(os.path.join(self.dir, "t"), "w") as f:
            f.write("\n owners \n")
        self.came(self.one("org/gated", flags=["--share-token"], env={"HF_TOKEN_PATH": f.name}), is_private=True)

    def test_token_is_cleaned(self):
        self.one("org/plain", flags=["--share-token"], env={"HF_TOKEN": "\t own\r\ners \n"})
        self.assertEqual({r["headers"]["authorization"] for r in self.hub.requests}, {"Bearer owners"})

    def test_blank_token_leaves_the_file(self):
        os.makedirs(os.path.join(self.dir, "hf"))
        with open(os.path.join(self.dir, "hf", "token"), "w") as f:
            f.write("of-the-file")
        self.one("org/plain", flags=["--share-token"], env={"HF_TOKEN": " ", "HF_HOME": os.path.join(self.dir, "hf")})
        self.assertEqual({r["headers"]["authorization"] for r in self.hub.requests}, {"Bearer of-the-file"})

    def test_callers_token_wins(self):
        self.one("org/plain", token="callers", flags=["--share-token"], env={"HF_TOKEN": "owners"})
        self.assertEqual({r["headers"]["authorization"] for r in self.hub.requests}, {"Bearer callers"})

    def test_implicit_token_disabled(self):
        self.came(self.one("org/plain", flags=["--share-token"], env={"HF_TOKEN": "owners", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "yes"}))
        self.assertNotIn("owners", json.dumps(self.hub.requests))

    def test_old_names(self):
        self.one("org/plain", flags=["--share-token"], env={"HUGGING_FACE_HUB_TOKEN": "old", "HF_HUB_USER_AGENT_ORIGIN": "tests/1"})
        self.assertIn("Bearer old", json.dumps(self.hub.requests))
        self.assertTrue(self.hub.requests[0]["headers"]["user-agent"].endswith("; origin/tests/1"))

    def test_token_is_nowhere_on_disk(self):
        cache = os.path.join(self.dir, "c")
        self.one("org/plain", token="sesame-sesame", flags=["--cache-dir", cache])
        files = glob.glob(cache + "/*")
        self.assertEqual(len(files), 1)
        with open(files[0], "rb") as f:
            self.assertNotIn(b"sesame", f.read())
        self.assertEqual(os.stat(files[0]).st_mode & 0o077, 0)

    def test_disk_is_by_token_too(self):
        cache = os.path.join(self.dir, "c")
        self.hub.repos["org/private"] = Repo(private=True, allowed=["good"])
        self.came(self.one("org/private", token="good", flags=["--cache-dir", cache]))
        self.fails(self.one("org/private", flags=["--cache-dir", cache]), "model-not-found")
        self.came(self.one("org/private", token="good", flags=["--cache-dir", cache]), tier="disk", is_private=True)


class Code(Case):
    """Files that a config names: the same ladder, and nothing of the API."""

    FILE = "modeling_x.py"
    TEXT = "x = '\u00e9'\n"

    def setUp(self):
        super().setUp()
        self.hub.repos["org/code"] = Repo(code={self.FILE: self.TEXT, "bad.py": b"x = '\xe9'", "nul.py": b"\0", "large.py": b"#" * (1 << 20 | 1),
                                                "page.py": b"<html>", "slow.py": lambda h: (time.sleep(0.3), h.send(200, b"pass", commit=COMMIT))})

    def test_names(self):
        with self.probe() as p:
            for name in "x.txt", "a/b.py", "..py", ".py", "a.b.py", "config.json", "x" * 61 + ".py", "a%2f.py":
                self.fails(p.ask("org/code", file=name), "field-value")
        self.assertEqual(self.hub.connections, 0)

    def test_file(self):
        a = self.one("org/code", COMMIT, file=self.FILE)
        self.came(a, commit=COMMIT)
        self.assertEqual(a["text"], self.TEXT)
        self.assertEqual([r["path"] for r in self.hub.requests], ["/org/code/resolve/%s/%s" % (COMMIT, self.FILE)])

    def test_refused(self):
        with self.probe() as p:
            for name, says in ("bad.py", "not UTF-8 at byte 5"), ("nul.py", "NUL"), ("large.py", "larger than"), ("page.py", "HTML"):
                self.fails(p.ask("org/code", COMMIT, file=name), "hub-failed", says)
            self.fails(p.ask("org/code", COMMIT, file="none.py"), "config-not-found", "has no none.py")
            self.fails(p.ask("org/typo", COMMIT, file="none.py"), "model-not-found")

    def test_one_fetch(self):
        with self.probe("--loops", 4) as p:
            for a in p.ask_all(32, "org/code", COMMIT, file="slow.py"):
                self.came(a, tier=a["tier"] if a["tier"] == "memory" else "hub")
        self.assertEqual(len(self.hub.requests), 1)

    def test_kept_on_disk(self):
        for tier in "hub", "disk":
            self.came(self.one("org/code", COMMIT, flags=("--cache-dir", self.dir), file=self.FILE), tier=tier)
        self.assertEqual(len(self.hub.requests), 1)
        a = self.one("org/code", COMMIT, flags=("--cache-dir", self.dir), file=self.FILE, env={"HF_HUB_OFFLINE": "1"})
        self.came(a, tier="disk")

    def test_tokens(self):
        self.hub.repos["org/gated"] = Repo(gated="auto", allowed=("good",), code={self.FILE: self.TEXT})
        with self.probe() as p:
            self.fails(p.ask("org/gated", COMMIT, file=self.FILE), "model-gated")
            self.came(p.ask("org/gated", COMMIT, "good", self.FILE), is_private=True)
            self.fails(p.ask("org/gated", COMMIT, file=self.FILE), "model-gated")

    def test_offline(self):
        a = self.one("org/code", COMMIT, file=self.FILE, env={"HF_HUB_OFFLINE": "1"})
        self.fails(a, "model-not-found", self.FILE, "`modeling`")
        self.fails(self.one("openai-community/gpt2", file=self.FILE, env={"HF_HUB_OFFLINE": "1"}), "model-not-found")  # its config is carried, no code
        self.assertEqual(self.hub.connections, 0)


class Disk(Case):
    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.dir, "a", "cache")
        self.flags = ["--cache-dir", self.cache]

    def file(self):
        [name] = glob.glob(self.cache + "/*")
        return name

    def test_survives_a_restart(self):
        self.came(self.one("org/plain", flags=self.flags), parameters=1000)
        self.hub.forget()
        self.came(self.one("org/plain", flags=self.flags), tier="disk", parameters=1000, commit=COMMIT)
        self.assertEqual(self.hub.connections, 0)

    def test_offline(self):
        self.came(self.one("org/plain", flags=self.flags))
        a = self.one("org/plain", flags=[*self.flags, "--fresh-s", 0], env={"HF_HUB_OFFLINE": "TRUE"})
        self.came(a, tier="disk", commit=COMMIT)

    def test_commit_is_never_asked_again(self):
        with self.probe(*self.flags, "--fresh-s", 0) as p:
            self.came(p.ask("org/plain", COMMIT))
            self.came(p.ask("org/plain", COMMIT), tier="memory")
        self.came(self.one("org/plain", COMMIT, flags=[*self.flags, "--fresh-s", 0]), tier="disk")
        self.assertEqual(len(self.hub.configs()), 1)

    def test_stale_is_confirmed(self):
        self.one("org/plain", flags=self.flags)
        self.hub.forget()
        self.came(self.one("org/plain", flags=[*self.flags, "--fresh-s", 0]), commit=COMMIT, parameters=1000)
        [asked] = self.hub.requests
        self.assertEqual(asked["headers"]["if-none-match"], '"%s"' % self.hub.repos["org/plain"].etag)

    def test_redirect_that_names_the_known_commit_is_enough(self):
        self.came(self.one("fault/relative", flags=self.flags))
        self.hub.forget()
        self.came(self.one("fault/relative", flags=[*self.flags, "--fresh-s", 0]), commit=COMMIT)
        self.assertEqual(len(self.hub.configs()), 1)

    def test_vanished_is_not_shown(self):
        self.one("org/plain", flags=self.flags)
        del self.hub.repos["org/plain"]
        self.fails(self.one("org/plain", flags=[*self.flags, "--fresh-s", 0]), "model-not-found")

    def test_broken_hub_shows_what_was_kept(self):
        self.one("org/plain", flags=self.flags)
        for status in 500, 502, 503, 429:
            self.hub.repos["org/plain"].status = status
            self.came(self.one("org/plain", flags=[*self.flags, "--fresh-s", 0]), tier="disk")

    def test_23_damaged(self):
        self.one("org/plain", flags=self.flags)
        with open(self.file(), "rb") as f:
            whole = f.read()
        lines = whole.split(b"\n")
        damaged = [whole[:n] for n in (0, 1, 20, 100, len(whole) - 1)] + [whole.replace(b"llama", b"lloma"), whole + b" ", b"\0" * 500]
        damaged += [b"\n".join(lines[:i] + [wrong] + lines[i + 1:]) for i, wrong in
                    ((1, b"org/other"), (6, b"-5"), (7, b"x"), (10, b"18446744073709551615"), (10, b"0"), (11, b"0" * 64))]
        for data in damaged:
            with open(self.file(), "wb") as f:
                f.write(data)
            self.came(self.one("org/plain", flags=self.flags))

    def test_23_full(self):
        def tiny():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        with self.probe(*self.flags, preexec_fn=tiny, restore_signals=False) as p:
            self.came(p.ask("org/plain"))
            self.came(p.ask("org/plain"), tier="memory")
        self.assertIn("File too large", p.errors)
        self.assertEqual(glob.glob(self.cache + "/*"), [])

    def test_23_unusable(self):
        for where in "/proc/nowhere/x", "/dev/null/x":
            with self.probe("--cache-dir", where) as p:
                self.came(p.ask("org/plain"))
            self.assertIn("cache directory", p.errors)

    def test_23_goes_away(self):
        with self.probe(*self.flags) as p:
            self.came(p.ask("org/plain"))
            self.came(p.ask("org/plain", COMMIT))
            shutil.rmtree(self.cache, ignore_errors=True)  # a file may be being written
            self.hub.repos["org/two"] = Repo()
            self.came(p.ask("org/two"))

    def test_23_each_pid_is_one(self):
        """As in containers that share a directory: what they write at once has names of its own."""
        alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
        if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
            self.skipTest("no namespaces of processes here")
        os.makedirs(self.cache, 0o700)
        for i in range(4):
            self.hub.repos["org/m%d" % i] = Repo()
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        self.assertGreaterEqual(libc.inotify_add_watch(watch, self.cache.encode(), 0x100), 0)  # IN_CREATE: what is renamed into its place is not
        for _ in range(2):  # one after another: serial numbers begin anew, as pids do
            with self.probe(*self.flags, "--fresh-s", 0, under=alone) as p:
                for i in range(4):
                    self.came(p.ask("org/m%d" % i))
            for name in os.listdir(self.cache):
                os.remove(os.path.join(self.cache, name))
        data, names = os.read(watch, 1 << 16), []
        os.close(watch)
        while data:
            n = struct.unpack_from("=iIII", data)[3]
            names.append(data[16:16 + n].rstrip(b"\0"))
            data = data[16 + n:]
        self.assertEqual((len(names), len(set(names))), (8, 8), names)

    def test_23_abandoned(self):
        os.makedirs(self.cache)
        for name, age in ("new-1-1", 7200), ("new-1-2", 60):
            with open(os.path.join(self.cache, name), "w") as f:
                f.write("half")
            os.utime(f.name, (time.time() - age,) * 2)
        self.came(self.one("org/plain", flags=self.flags))
        self.assertEqual(sorted(os.listdir(self.cache))[-1], "new-1-2")

    def test_23_fifo(self):
        self.one("org/plain", flags=self.flags)
        name = self.file()
        os.remove(name)
        os.mkfifo(name)
        self.came(self.one("org/plain", flags=self.flags))

    def test_24_written_in_the_future(self):
        self.one("org/plain", flags=self.flags)
        with open(self.file(), "rb") as f:
            lines = f.read().split(b"\n")
        lines[6] = b"%d" % (int(time.time()) + 10 ** 6)
        with open(self.file(), "wb") as f:
            f.write(b"\n".join(lines))
        self.hub.forget()
        self.came(self.one("org/plain", flags=self.flags))
        self.assertEqual(len(self.hub.configs()), 1)


class HfCache(Case):
    """$HF_HOME/hub as huggingface_hub lays it out."""

    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.dir, "hf")
        self.repo = os.path.join(self.home, "hub", "models--org--local")
        self.text = json.dumps({"model_type": "gpt2", "local": 1}).encode()
        self.etag = Repo(self.text).etag
        self.snapshot = os.path.join(self.repo, "snapshots", COMMIT)
        for part in "blobs", "refs", "snapshots/" + COMMIT:
            os.makedirs(os.path.join(self.repo, part))
        with open(os.path.join(self.repo, "blobs", self.etag), "wb") as f:
            f.write(self.text)
        os.symlink("../../blobs/" + self.etag, os.path.join(self.snapshot, "config.json"))
        with open(os.path.join(self.repo, "refs", "main"), "w") as f:
            f.write(COMMIT)
        self.env = {"HF_HOME": self.home}

    def offline(self, model="org/local", revision="main", **more):
        return self.one(model, revision, env={**self.env, "HF_HUB_OFFLINE": "1"}, **more)

    def test_offline(self):
        a = self.offline()
        self.came(a, "hf_cache", "hf_cache", commit=COMMIT)
        self.assertEqual(a["text"].encode(), self.text)
        self.came(self.offline(revision=COMMIT), "hf_cache", "hf_cache", commit=COMMIT, note=None)

    def test_commit_asks_nothing(self):
        self.came(self.one("org/local", COMMIT, env=self.env), "hf_cache", "hf_cache")
        self.assertEqual(self.hub.connections, 0)

    def test_branch_is_confirmed(self):
        self.hub.repos["org/local"] = Repo(self.text)
        self.came(self.one("org/local", env=self.env), "hf_cache", "hub", commit=COMMIT, note=None, parameters=1000)
        self.assertEqual(self.hub.configs()[0]["headers"]["if-none-match"], '"%s"' % self.etag)

    def test_branch_has_moved(self):
        self.hub.repos["org/local"] = Repo(commit=OTHER)
        self.came(self.one("org/local", env=self.env), "hub", "hub", commit=OTHER)

    def test_hub_is_down(self):
        a = self.one("org/local", env=self.env, endpoint="http://127.0.0.1:%d" % closed_port())
        self.came(a, "hf_cache", "hf_cache", commit=COMMIT)

    def test_gated_is_not_for_strangers(self):
        self.hub.repos["org/local"] = Repo(self.text, gated="auto")
        self.fails(self.one("org/local", env=self.env), "model-gated")

    def test_renamed_is_the_same(self):
        """The cache holds a repository by the name that it was fetched by; offline no redirect tells the other."""
        os.rename(self.repo, os.path.join(self.home, "hub", "models--meta-llama--Meta-Llama-3.1-8B"))
        for name in "meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B":
            a = self.offline(name)
            self.came(a, "hf_cache", "hf_cache", commit=COMMIT)
            self.assertEqual(a["text"].encode(), self.text)

    def test_nested_ref(self):
        os.makedirs(os.path.join(self.repo, "refs", "refs", "pr"))
        with open(os.path.join(self.repo, "refs", "refs", "pr", "4"), "w") as f:
            f.write(COMMIT + "\n")
        self.came(self.offline(revision="refs/pr/4"), "hf_cache", "hf_cache", commit=COMMIT)

    def test_file_instead_of_link(self):
        os.remove(os.path.join(self.snapshot, "config.json"))
        with open(os.path.join(self.snapshot, "config.json"), "wb") as f:
            f.write(self.text)
        self.came(self.offline(), "hf_cache", "hf_cache")

    def test_known_to_be_absent(self):
        os.remove(os.path.join(self.snapshot, "config.json"))
        os.makedirs(os.path.join(self.repo, ".no_exist", COMMIT))
        open(os.path.join(self.repo, ".no_exist", COMMIT, "config.json"), "w").close()
        self.fails(self.offline(), "config-not-found")
        self.fails(self.one("org/local", COMMIT, env=self.env), "config-not-found")
        self.assertEqual(self.hub.connections, 0)

    def test_code(self):
        with open(os.path.join(self.snapshot, "modeling_x.py"), "w") as f:
            f.write("pass")
        os.symlink("/etc/passwd", os.path.join(self.snapshot, "away.py"))
        self.came(self.one("org/local", COMMIT, env=self.env, file="modeling_x.py"), "hf_cache", "hf_cache", commit=COMMIT)
        self.fails(self.offline(revision=COMMIT, file="away.py"), "model-not-found")
        self.assertEqual(self.hub.requests, [])

    def test_links_lead_nowhere(self):
        secret = os.path.join(self.dir, "secret.json")
        with open(secret, "w") as f:
            f.write('{"secret": 1}')
        link = os.path.join(self.snapshot, "config.json")
        os.mkdir(os.path.join(self.repo, "blobs", "d"))
        for target in (secret, "../../../../../secret.json", "../../blobs/../../../../secret.json", "../../blobs/d/../../../../../secret.json",
                       "../../blobs/..", "../../blobs/d", "/etc/passwd"):
            os.remove(link)
            os.symlink(target, link)
            with self.subTest(target):
                self.fails(self.offline(), "model-not-found")
        os.remove(link)
        os.symlink("../../blobs/x", link)
        os.symlink(secret, os.path.join(self.repo, "blobs", "x"))
        self.fails(self.offline(), "model-not-found")
        os.rename(self.snapshot, self.snapshot + "x")
        os.symlink(self.dir, self.snapshot)
        self.fails(self.offline(), "model-not-found")

    def test_nonsense(self):
        for text in b"", b"[1]", b"<html>", b'{"a":', b" " * (2 << 20):
            with open(os.path.join(self.repo, "blobs", self.etag), "wb") as f:
                f.write(text)
            self.fails(self.offline(), "model-not-found")
        with open(os.path.join(self.repo, "refs", "main"), "w") as f:
            f.write("../../../x")
        self.fails(self.offline(), "model-not-found")

    def test_places(self):
        hub = os.path.join(self.home, "hub")
        for env in {"HF_HUB_CACHE": hub}, {"HUGGINGFACE_HUB_CACHE": hub}, {"XDG_CACHE_HOME": self.dir}, {"HF_HOME": "~/hf"}:
            if "XDG_CACHE_HOME" in env:
                os.symlink(self.home, os.path.join(self.dir, "huggingface"))
            with self.subTest(env):
                self.came(self.one("org/local", home=self.dir, env={**env, "HF_HUB_OFFLINE": "on"}), "hf_cache", "hf_cache")


class ModelsOnDisk(Case):
    """--models: what the owner has lies before the hub."""

    def setUp(self):
        super().setUp()
        self.text = json.dumps({"model_type": "gpt2", "mine": 1})
        for path in "org/folder/config.json", "org/file.json", "org__flat.json", "bare/config.json":
            self.put(path, self.text)

    def put(self, path, text):
        path = os.path.join(self.dir, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def ask(self, model, revision="main"):
        return self.one(model, revision, flags=("--models", self.dir))

    def test_every_layout(self):
        for model in "org/folder", "org/file", "org/flat", "bare":
            a = self.ask(model)
            self.came(a, "directory", "directory", commit=None, note=None, is_private=False)
            self.assertEqual(a["text"], self.text)
        self.assertEqual(self.hub.connections, 0)

    def test_the_hub_has_the_rest(self):
        self.came(self.ask("org/plain"), commit=COMMIT)

    def test_another_revision_is_the_hubs(self):
        self.hub.repos["org/folder"] = Repo(commit=OTHER)
        self.came(self.ask("org/folder", OTHER), commit=OTHER)

    def test_what_is_broken_is_told_and_passed_over(self):
        self.hub.repos["org/folder"] = self.hub.repos["org/plain"]
        for text in "{", "[]", " " * (2 << 20):
            self.put("org/folder/config.json", text)
            with self.probe("--models", self.dir) as p:
                self.came(p.ask("org/folder"), commit=COMMIT)
            self.assertIn("org/folder/config.json", p.errors)

    def test_a_directory_is_no_file(self):
        os.makedirs(os.path.join(self.dir, "org", "dir", "config.json"))
        self.hub.repos["org/dir"] = self.hub.repos["org/plain"]
        self.came(self.ask("org/dir"), commit=COMMIT)

    def test_no_way_out(self):
        for model in "../x", "org/../../etc", "/etc":
            self.fails(self.ask(model), "field-value")


if __name__ == "__main__":
    unittest.main()
