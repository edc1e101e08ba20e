"""Starts llmemd on a free port and asks it over real HTTP. serve.py OPENAPI.yaml"""
import concurrent.futures
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from daemon import LLMEMD, PATIENCE, QUESTION, Daemon, SlowHub, main, question

CONTRACT = sys.argv[1]


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon()

    @classmethod
    def tearDownClass(cls):
        code, rest = cls.d.stop()
        assert code == 0, (code, rest[-4000:])

    def problem(self, answer, status, code, pointer=None):
        self.assertEqual(answer[0], status, answer[2][:300])
        self.assertEqual(answer[1]["content-type"], "application/problem+json")
        p = json.loads(answer[2])
        self.assertEqual((p["status"], p["code"], p.get("pointer")), (status, code, pointer))
        self.assertTrue(p["type"] and p["title"] and p["detail"])
        return p

    def words(self):
        """Every vocabulary of the running server: name -> its words."""
        out = {}
        for path in ("/methods", "/optimizers", "/dtypes"):
            out.update((k, [w["name"] for w in v]) for k, v in json.loads(self.d.ask("GET", path)[2]).items())
        return out

    def test_answers(self):
        status, headers, body = self.d.ask("POST", "/estimate", json.dumps(QUESTION))
        self.assertEqual(status, 200, body[:300])
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(int(headers["content-length"]), len(body))
        answer = json.loads(body)
        self.assertIs(answer["fits"], True)
        recommendation = dict(answer["recommendation"])
        self.assertIn("command", recommendation.pop("launch"))
        self.assertEqual(recommendation, answer["candidates"][0])
        self.assertGreater(answer["recommendation"]["memory"]["peak_allocated_bytes"], 0)
        memory = answer["recommendation"]["memory"]
        self.assertEqual(sum(memory["breakdown_bytes"].values()), memory["peak_allocated_bytes"])

    def test_resolved_is_a_request_with_the_same_answer(self):
        first = json.loads(self.d.ask("POST", "/estimate", json.dumps(QUESTION))[2])
        again = json.loads(self.d.ask("POST", "/estimate", json.dumps(first["resolved"]))[2])
        self.assertEqual(again.get("warnings"), first["warnings"])
        self.assertEqual(again["candidates"], first["candidates"])
        self.assertEqual(again["resolved"], first["resolved"])

    def test_equal_requests_equal_bytes(self):
        body = json.dumps(QUESTION)
        self.assertEqual(len({self.d.ask("POST", "/estimate", body)[2] for _ in range(5)}), 1)

    def test_many_at_once(self):
        sizes = [dict(QUESTION, training={"seq_len": 64 * (1 + i % 5), "micro_batch_size": 1}) for i in range(60)]
        alone = [self.d.ask("POST", "/estimate", json.dumps(q))[2] for q in sizes[:5]]
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda q: self.d.ask("POST", "/estimate", json.dumps(q)), sizes))
        self.assertEqual({a[0] for a in answers}, {200})
        for i, a in enumerate(answers):
            self.assertEqual(a[2], alone[i % 5])

    def test_content_types(self):
        body = json.dumps(QUESTION)
        for kind in (None, "application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "application/vnd.x+json"):
            self.assertEqual(self.d.ask("POST", "/estimate", body, {"Content-Type": kind} if kind else {})[0], 200, kind)
        for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
            answer = self.d.ask("POST", "/estimate", body, {"Content-Type": kind})
            self.problem(answer, 415, "unsupported-media-type")
            self.assertEqual(answer[1]["accept-post"], "application/json")
        answer = self.d.ask("POST", "/estimate", "model=gpt2", {"Content-Type": "application/x-www-form-urlencoded"})
        self.assertIn("JSON object", self.problem(answer, 415, "unsupported-media-type")["detail"])

    def test_paths_and_methods(self):
        self.problem(self.d.ask("GET", "/nothing"), 404, "not-found")
        for path in ("/models/..%2F..%2Fetc%2Fpasswd", "/models/a/b/c", "/models/%2e%2e", "/models/" + "x" * 1000, "/models/%C3%A4"):
            self.problem(self.d.ask("GET", path), 422, "field-value", "/model")
        self.problem(self.d.ask("GET", "/models/nobody/nothing"), 404, "model-not-found", "/model")
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = self.d.ask(method, "/estimate")
            self.problem(answer, 405, "method-not-allowed")
            self.assertEqual(answer[1]["allow"], "GET, HEAD, POST")
        self.assertEqual(self.d.ask("GET", "/estimate/batch")[1]["allow"], "POST")
        status, headers, body = self.d.ask("HEAD", "/healthz")
        self.assertEqual((status, body), (200, b""))
        self.assertEqual(json.loads(self.d.ask("GET", "/healthz")[2])["status"], "ok")

    def test_bad_bodies(self):
        for body in ("", "{", "[1,", '{"a":}', "\x00", '{"a":"\\ud800"}'):
            self.problem(self.d.ask("POST", "/estimate", body), 400, "malformed-json")
        self.problem(self.d.ask("POST", "/estimate", '{"config":' + "[" * 100000), 400, "malformed-json")
        self.problem(self.d.ask("POST", "/estimate", b'{"model":"\xff"}'), 400, "malformed-json")
        self.problem(self.d.ask("POST", "/estimate", "{}"), 422, "field-missing", "/model")
        self.problem(self.d.ask("POST", "/estimate", json.dumps(dict(QUESTION, training={"seq_len": -5}))), 422, "field-range", "/training/seq_len")
        self.problem(self.d.ask("POST", "/estimate", json.dumps(dict(QUESTION, model="../x"))), 422, "field-value", "/model")

    def test_large_bodies(self):
        large = b'{"model":"' + b"x" * 10_000_000 + b'"}'
        self.problem(self.d.ask("POST", "/estimate", large), 413, "body-too-large")
        chunked = (large[i:i + 65536] for i in range(0, len(large), 65536))
        c = http.client.HTTPConnection("127.0.0.1", self.d.port, timeout=60 * PATIENCE)
        c.request("POST", "/estimate", chunked, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        self.assertEqual(c.getresponse().status, 413)
        c.close()
        self.assertIn(b" 413 ", self.d.raw(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"))

    def test_where_a_body_ends(self):
        head = b"POST /estimate HTTP/1.1\r\nHost: localhost\r\n"
        for lines in (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 2\r\nContent-Length: 3\r\n", b"Transfer-Encoding: gzip\r\n"):
            self.assertIn(b" 400 ", self.d.raw(head + lines + b"\r\n{}\r\n"), lines)

    def test_keep_alive(self):
        c = http.client.HTTPConnection("127.0.0.1", self.d.port, timeout=60 * PATIENCE)
        for _ in range(3):
            c.request("POST", "/estimate", json.dumps(QUESTION))
            r = c.getresponse()
            r.read()
            self.assertEqual(r.status, 200)
        c.close()

    def test_a_caller_who_leaves(self):
        for _ in range(10):
            s = socket.create_connection(("127.0.0.1", self.d.port))
            s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            s.close()
        self.assertEqual(self.d.ask("GET", "/healthz")[0], 200)

    def test_models(self):
        listed = [m["id"] for m in json.loads(self.d.ask("GET", "/models")[2])["models"]]
        self.assertGreaterEqual(len(listed), 60)
        one = json.loads(self.d.ask("GET", "/models/facebook/opt-125m")[2])
        self.assertEqual(one["parameters"], 125239296)
        posted = json.loads(self.d.ask("POST", "/models", json.dumps({"model": "facebook/opt-125m"}))[2])
        self.assertEqual(posted, one)
        self.assertEqual(json.loads(self.d.ask("GET", "/models/facebook%2Fopt-125m")[2]), one)

    def test_builtin_models_have_an_answer(self):
        for m in json.loads(self.d.ask("GET", "/models")[2])["models"][::4]:
            q = {"model": m["id"], "cluster": {"gpu": "H100-80GB"},
                 "training": {"seq_len": 128, "micro_batch_size": 1, "tuning": "full", "gradient_checkpointing": True}}
            status, _, body = self.d.ask("POST", "/estimate", json.dumps(q))
            self.assertEqual(status, 200, (m["id"], body[:400]))

    # ------------------------------------------------------------------------------------------ the contract

    def test_contract_is_served(self):
        status, headers, body = self.d.ask("GET", "/openapi.yaml")
        self.assertEqual((status, headers["content-type"]), (200, "application/yaml"))
        with open(CONTRACT, "rb") as f:
            self.assertEqual(body, f.read())

    def test_contract_has_the_servers_words(self):
        contract = self.d.ask("GET", "/openapi.yaml")[2].decode()
        words = self.words()
        name_of = {"methods": "MethodPart", "optimizers": "Optimizer", "liger_kernels": "LigerKernel", "lora_kernels": "LoraKernel",
                   "trainer": "StageTrainer", "links": None,
                   "gradient_checkpointing": None}
        for vocabulary, listed in words.items():
            schema = name_of.get(vocabulary, "".join(p.capitalize() for p in vocabulary.split("_")))
            if not schema:
                continue
            found = re.search(r"^    %s:\n(?:      .*\n)*?      enum: \[([^\]]*)\]" % schema, contract, re.M)
            self.assertTrue(found, "no enum of %s (%s)" % (schema, vocabulary))
            self.assertEqual([w.strip().strip('"') for w in found.group(1).split(",")], listed, schema)

    def test_contract_has_the_servers_paths(self):
        contract = self.d.ask("GET", "/openapi.yaml")[2].decode()
        paths = {}
        for line in contract[contract.index("\npaths:"):contract.index("\ncomponents:")].split("\n"):
            if re.match(r"  /", line):
                paths[line.strip().rstrip(":")] = methods = []
            elif re.match(r"    (get|post):$", line):
                methods.append(line.strip().rstrip(":").upper())
        self.assertIn("/estimate", paths)
        for path, methods in paths.items():
            allow = self.d.ask("BREW", path.replace("{id}", "x"))[1]["allow"]
            self.assertEqual(set(allow.split(", ")) - {"HEAD"}, set(methods), path)


class Life(unittest.TestCase):
    def test_stops_with_answers_under_way(self):
        d = Daemon()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(d.ask, "POST", "/estimate", json.dumps(QUESTION)) for _ in range(8)]
            concurrent.futures.wait(answers, return_when=concurrent.futures.FIRST_COMPLETED)
            idle = socket.create_connection(("127.0.0.1", d.port))
            code, _ = d.stop()
            idle.close()
        self.assertEqual(code, 0)
        for a in answers:
            if not a.exception():
                self.assertEqual(a.result()[0], 200)

    def test_closed_standard_files(self):
        """No socket takes their numbers; an answer that goes nowhere is no success."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "at")
            p = subprocess.Popen([LLMEMD, "serve", "--listen", "unix:" + path], preexec_fn=lambda: os.closerange(0, 3))
            self.addCleanup(p.kill)
            while not os.path.exists(path):
                self.assertIsNone(p.poll())
                time.sleep(0.01)
            self.assertEqual({os.readlink("/proc/%d/fd/%d" % (p.pid, fd)) for fd in range(3)}, {"/dev/null"})
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" * 2)
                self.assertTrue(s.recv(9).startswith(b"HTTP/1.1 "))
            p.terminate()
            self.assertEqual(p.wait(60), 0)
        done = subprocess.run([LLMEMD, "estimate", "--offline", "--json", "--model", "gpt2", "--gpu", "T4"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=lambda: os.close(1))
        self.assertNotEqual(done.returncode, 0)

    def test_a_limit_of_file_sizes(self):
        """What may not be written is not kept, and ends nothing."""
        hub = SlowHub(0)
        with tempfile.TemporaryDirectory() as cache:
            d = hub.daemon("--cache-dir", cache)
            resource.prlimit(d.process.pid, resource.RLIMIT_FSIZE, (0, 0))
            for i in range(3):
                self.assertEqual(d.ask("POST", "/estimate", question("org/m%d" % i))[0], 200)
            self.assertEqual(d.stop()[0], 0)
        hub.stop()

    def test_interrupt(self):
        self.assertEqual(Daemon("--log", "none").stop(signal.SIGINT), (0, ""))

    def test_options(self):
        d = Daemon(env={"LLMEMD_THREADS": "1", "LLMEMD_LOG": "none"})
        self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        self.assertEqual(d.stop()[0], 0)
        for bad in (["--no-such"], ["--threads", "x"], ["--threads"], ["--log=loud"], ["brew"]):
            self.assertEqual(subprocess.run([LLMEMD, *bad], capture_output=True).returncode, 2, bad)
        self.assertEqual(subprocess.run([LLMEMD, "--threads", "1"], capture_output=True, env=dict(os.environ, LLMEMD_LISTEN="nowhere")).returncode, 1)

    def test_ports_that_are_none(self):
        """getaddrinfo() takes 99999 for 34463."""
        for port in ("99999", "65536", "-1", "+80", "80x", " 80", "", "0x50", "18446744073709551696", "http"):
            for flag in ("--listen", "--admin-listen"):
                done = subprocess.run([LLMEMD, "--listen", "127.0.0.1:0", flag, "127.0.0.1:" + port], capture_output=True, timeout=20 * PATIENCE)
                self.assertEqual((done.returncode, b"not an address and port" in done.stderr), (1, True), (flag, port, done.stderr))

    def test_port_in_use(self):
        d = Daemon()
        second = subprocess.run([LLMEMD, "--listen", "127.0.0.1:%d" % d.port], capture_output=True, timeout=20 * PATIENCE)
        self.assertEqual(second.returncode, 1)
        self.assertIn(b"in use", second.stderr)
        d.stop()

    def test_slow_readers_do_not_hold_the_threads(self):
        d = Daemon("--threads", "1")
        lazy = []
        for _ in range(5):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", d.port))
            s.sendall(b"GET /models/facebook/opt-125m HTTP/1.1\r\nHost: localhost\r\n\r\n")
            lazy.append(s)
        time.sleep(0.2)
        self.assertEqual(d.ask("POST", "/estimate", json.dumps(QUESTION), timeout=20)[0], 200)
        for s in lazy:
            s.close()
        d.stop()


class CommandLine(unittest.TestCase):
    def run_estimate(self, body):
        return subprocess.run([LLMEMD, "estimate"], input=body.encode(), capture_output=True, timeout=120 * PATIENCE)

    def test_exit_codes(self):
        t = QUESTION["training"]
        self.assertEqual(self.run_estimate(json.dumps(QUESTION)).returncode, 0)
        self.assertEqual(self.run_estimate(json.dumps(dict(QUESTION, cluster={"gpu": {"memory_bytes": "600MiB"}}))).returncode, 3)
        self.assertEqual(self.run_estimate(json.dumps(dict(QUESTION, training=dict(t, methods="ep+ddp")))).returncode, 4)
        self.assertEqual(self.run_estimate("{").returncode, 2)
        self.assertEqual(self.run_estimate(json.dumps(dict(QUESTION, model="a/b/c"))).returncode, 2)

    def test_same_bytes_as_the_daemon(self):
        d = Daemon()
        self.assertEqual(self.run_estimate(json.dumps(QUESTION)).stdout, d.ask("POST", "/estimate", json.dumps(QUESTION))[2])
        d.stop()

    def test_a_directory_as_from_pretrained_takes_one(self):
        with tempfile.TemporaryDirectory() as d:
            os.makedirs(os.path.join(d, "my-run"))
            config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
                      "max_position_embeddings": 128}
            with open(os.path.join(d, "my-run", "config.json"), "w") as f:
                f.write(json.dumps(config)[:-1] + ', "limits": [0.0, Infinity]}')
            for words in (["--model", "./my-run", "--gpu", "T4", "--seq-len", "64"], ["--model=my-run/", "gpu=T4", "seq_len=64"],
                          ["model=" + d + "/my-run", "--gpu=T4", "--seq-len=64"]):
                done = subprocess.run([os.path.abspath(LLMEMD), "estimate", *words], capture_output=True, cwd=d, timeout=120 * PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr + done.stdout[:300])
                answer = json.loads(done.stdout)
                self.assertEqual((answer["model"]["id"], answer["model"]["source"], answer["resolved"]["training"]["seq_len"]), ("my-run", "directory", 64))
            for words in (["nonsense"], ["--models", d + "/none", "--model", "gpt2"], ["--model"]):
                self.assertNotEqual(subprocess.run([os.path.abspath(LLMEMD), "estimate", *words], capture_output=True, cwd=d).returncode, 0)

    def test_lists(self):
        for what, line in (("models", b"facebook/opt-1.3b"), ("gpus", b"A100-80GB"), ("methods", b"single"), ("--help", b"LLMEMD_LISTEN"), ("--version", b"llmemd ")):
            done = subprocess.run([LLMEMD, what], capture_output=True)
            self.assertEqual(done.returncode, 0)
            self.assertIn(line, done.stdout)


main(unittest, 4)
