"""Repositories with code of their own (auto_map): fetched with the config, of its commit, read as text. The hub is the look-alike."""
import json
import os
import sys
import tempfile
import time
import unittest

from daemon import Daemon, main

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "hub"))
from lookalike import COMMIT, OTHER, Hub, Repo  # noqa: E402

DATA = os.path.join(HERE, "..", "data", "modeling", "remote")
FILES = {name: open(os.path.join(DATA, name), encoding="utf-8").read() for name in os.listdir(DATA) if name.endswith(".py")}
CONFIG = json.load(open(os.path.join(DATA, "config.json"), encoding="utf-8"))
CLUSTER = {"gpu": "A100-40GB"}
TRAINING = {"seq_len": 128, "micro_batch_size": 2, "method": "single"}
MODELING = "modeling_remote.py"
ENV = {"NO_PROXY": "*", "HF_HUB_OFFLINE": "0", "HF_HUB_CACHE": "/nonexistent"}


def config_of(repository):
    return {**CONFIG, "auto_map": {k: repository + "--" + v for k, v in CONFIG["auto_map"].items()}}


class Code(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)
        self.hub.repos["org/own"] = Repo(CONFIG, code=FILES)
        self.daemon = None

    def serve(self, *options, **env):
        if self.daemon:
            self.daemon.stop()
        self.daemon = Daemon(*options,
                             env={**ENV, "HF_ENDPOINT": self.hub.endpoint, **env})
        self.addCleanup(self.daemon.process.kill)
        return self.daemon

    def post(self, request, headers=None):
        daemon = self.daemon or self.serve()
        status, _, body = daemon.ask("POST", "/estimate", json.dumps({"cluster": CLUSTER, "training": TRAINING, **request}), headers or {})
        return status, json.loads(body)

    def paths(self):
        return sorted(r["path"] for r in self.hub.configs())

    def peak(self, answer):
        return answer["recommendation"]["memory"]["peak_allocated_bytes"]

    def test_answered_as_its_files_in_the_request_are(self):
        status, answer = self.post({"model": "org/own"})
        self.assertEqual(status, 200, answer)
        program = answer["model"]["program"]
        self.assertEqual((program["source"], sorted(f["name"] for f in program["files"])), ("hub", sorted(FILES)))
        self.assertEqual(answer["model"]["commit"], COMMIT)
        self.assertTrue(any("trust_remote_code=True" in w and COMMIT in w for w in answer["warnings"]), answer["warnings"])
        _, same = self.post({"config": CONFIG, "modeling": FILES})
        self.assertEqual(self.peak(answer), self.peak(same))
        self.assertEqual(self.paths(), ["/org/own/resolve/%s/%s" % (COMMIT, f) for f in sorted(FILES)] + ["/org/own/resolve/main/config.json"])

    def test_models_and_batch(self):
        self.serve()
        status, _, body = self.daemon.ask("GET", "/models/org/own")
        self.assertEqual((status, json.loads(body)["program"]["source"]), (200, "hub"), body)
        request = {"model": "org/own", "cluster": CLUSTER, "training": TRAINING}
        _, _, body = self.daemon.ask("POST", "/estimate/batch", json.dumps({"requests": [request, request]}))
        self.assertEqual([r["model"]["program"]["source"] for r in json.loads(body)["results"]], ["hub"] * 2)
        self.assertEqual(len(self.paths()), 1 + len(FILES))  # each once

    def test_what_is_imported_comes_too(self):
        files = {**FILES, MODELING: FILES[MODELING] + "\nfrom .part_a import A\n", "part_a.py": "if True:\n    from .part_b import B as A\n",
                 "part_b.py": "from .part_a import x\nB = 1\nx = 2\n".replace("from .part_a import x\n", "") + "def late():\n    from .part_a import A\n",
                 "never.py": ""}
        self.hub.repos["org/parts"] = Repo(CONFIG, code=files)
        status, answer = self.post({"model": "org/parts"})
        self.assertEqual(status, 200, answer)
        self.assertEqual(sorted(f["name"] for f in answer["model"]["program"]["files"]), sorted(set(files) - {"never.py"}))

    def test_another_repository(self):
        self.hub.repos["org/borrows"] = Repo(config_of("org/lends"))
        self.hub.repos["org/lends"] = Repo(CONFIG, commit=OTHER, code=FILES)
        status, answer = self.post({"model": "org/borrows"})
        self.assertEqual(status, 200, answer)
        program = answer["model"]["program"]
        self.assertEqual((program["source"], program["repository"], program["commit"]), ("hub", "org/lends", OTHER))
        first, *rest = [r["path"] for r in self.hub.configs() if "lends" in r["path"]]
        self.assertIn("/resolve/main/", first)
        self.assertTrue(rest and all("/resolve/%s/" % OTHER in path for path in rest), rest)

    def test_its_own_name_is_no_other_repository(self):
        self.hub.repos["org/named"] = Repo(config_of("org/named"), code=FILES)
        self.assertNotIn("repository", self.post({"model": "org/named"})[1]["model"]["program"])
        self.assertEqual(sum(COMMIT in p for p in self.paths()), len(FILES))

    def test_names_that_are_none(self):
        for value in "../../etc--x.X", "a/b/c--x.X", "org/own--../x.X", "http://127.0.0.1/x--y.Z", "x/../y.Z", "modeling remote.X":
            config = {**CONFIG, "auto_map": {**CONFIG["auto_map"], "AutoModelForCausalLM": value}}
            self.hub.repos["org/odd"] = Repo(config, code=FILES)
            self.serve()
            self.post({"model": "org/odd"})
            self.assertTrue(all(p.startswith("/org/odd/") for p in self.paths()), self.paths())

    def test_two_repositories_are_refused(self):
        config = {**CONFIG, "auto_map": {**CONFIG["auto_map"], "AutoConfig": "org/lends--configuration_remote.RemoteConfig"}}
        self.hub.repos["org/two"] = Repo(config, code=FILES)
        status, answer = self.post({"model": "org/two", "program": "hub"})
        self.assertEqual((status, answer["pointer"]), (422, "/model"))
        self.assertIn("several repositories", answer["detail"])

    def test_a_type_of_ours_is_ours_unless_asked(self):
        llama = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100,
                 "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "auto_map": CONFIG["auto_map"]}
        self.hub.repos["org/llama"] = Repo(llama, code=FILES)
        self.assertEqual(self.post({"model": "org/llama"})[1]["model"]["program"]["source"], "builtin")
        self.assertEqual(self.paths(), ["/org/llama/resolve/main/config.json"])
        self.assertEqual(self.post({"model": "org/llama", "program": "hub"})[1]["model"]["program"]["source"], "hub")
        status, answer = self.post({"model": "org/plain", "program": "hub"})
        self.assertEqual((status, answer["pointer"]), (422, "/program"))
        status, answer = self.post({"config": CONFIG, "program": "hub"})
        self.assertEqual((status, answer["pointer"]), (422, "/program"))

    def test_what_it_says_is_told_with_file_and_line(self):
        line = FILES[MODELING].count("\n") + 1
        self.hub.repos["org/leaves"] = Repo(CONFIG, code={**FILES, MODELING: FILES[MODELING] + "open('/etc/passwd')\n"})
        status, answer = self.post({"model": "org/leaves"})
        self.assertEqual((status, answer["code"], answer["pointer"]), (422, "leaves-the-language", "/model"), answer)
        self.assertEqual((answer["file"], answer["line"]), (MODELING, line))

    def test_hostile_files(self):
        for text, says in ((b"x = '\xe9'", "not UTF-8"), (b"x\0", "NUL"), (b"#" * (1 << 20 | 1), "larger than"), (None, "has no " + MODELING)):
            files = {**FILES, MODELING: text}
            self.hub.repos["org/bad"] = Repo(CONFIG, code=files)
            self.serve()
            status, answer = self.post({"model": "org/bad"})
            self.assertEqual((status, answer["recommendation"]["memory"]["basis"]), (200, "generic"))
            self.assertTrue(any(says in w for w in answer["warnings"]), answer["warnings"])
            status, answer = self.post({"model": "org/bad", "program": "hub"})
            self.assertIn(status, (404, 502))
            self.assertIn(says, answer["detail"])

    def test_bounds(self):
        many = {**FILES, MODELING: "".join("from .p%d import x\n" % i for i in range(40)) + FILES[MODELING], **{"p%d.py" % i: "x = 1\n" for i in range(40)}}
        self.hub.repos["org/many"] = Repo(CONFIG, code=many)
        status, answer = self.post({"model": "org/many", "program": "hub"})
        self.assertEqual(status, 422)
        self.assertIn("more than 32", answer["detail"])
        self.assertLessEqual(len(self.paths()), 33)
        large = {**FILES, MODELING: "from .a import x\nfrom .b import x\nfrom .c import x\n" + FILES[MODELING], **{n + ".py": "#" * 1000000 for n in "abc"}}
        self.hub.repos["org/large"] = Repo(CONFIG, code=large)
        status, answer = self.post({"model": "org/large", "program": "hub"})
        self.assertEqual(status, 422)
        self.assertIn("2 MiB", answer["detail"])

    def test_tokens(self):
        self.hub.repos["org/gated"] = Repo(CONFIG, gated="auto", allowed=("good",), code=FILES)
        self.hub.repos["org/borrows"] = Repo(config_of("org/gated"))
        self.assertEqual(self.post({"model": "org/gated"})[0], 403)
        self.assertEqual(self.post({"model": "org/gated"}, {"X-HF-Token": "good"})[1]["model"]["program"]["source"], "hub")
        self.assertEqual(self.post({"model": "org/borrows", "program": "hub"})[0], 403)
        self.assertEqual(self.post({"model": "org/borrows", "program": "hub"}, {"X-HF-Token": "good"})[0], 200)
        self.assertEqual(self.post({"model": "org/borrows", "program": "hub"})[0], 403)

    def test_one_fetch_and_memory(self):
        self.hub.repos["org/slow"] = Repo(CONFIG, code=FILES, delay=0.3)
        self.serve()
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda i: self.post({"model": "org/slow", "training": {**TRAINING, "seq_len": 64 + i}})[0], range(8)))
        self.assertEqual(got, [200] * 8)
        self.assertEqual(len(self.paths()), 1 + len(FILES))

    def test_who_leaves_disturbs_nobody(self):
        self.hub.repos["org/slow"] = Repo(CONFIG, code=FILES, delay=0.5)
        self.serve()
        body = json.dumps({"model": "org/slow", "cluster": CLUSTER, "training": TRAINING}).encode()
        with self.daemon.connect() as s:
            s.sendall(b"POST /estimate HTTP/1.1\r\nHost: localhost\r\nX-HF-Token: mine\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                      % len(body) + body)
            time.sleep(0.7)  # the config is there, its code is under way
        time.sleep(1.5)
        self.assertEqual(self.post({"model": "org/slow"})[0], 200)

    def test_folders_of_the_owner(self):
        with tempfile.TemporaryDirectory() as room:
            folder = os.path.join(room, "my", "model")
            os.makedirs(folder)
            for name, text in {**FILES, "config.json": json.dumps(CONFIG)}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(text)
            self.serve("--models", room)
            status, answer = self.post({"model": "my/model"})
            self.assertEqual((status, answer["model"]["program"]["source"]), (200, "hub"), answer)
            os.unlink(os.path.join(folder, MODELING))
            self.hub.repos["my/model"] = Repo(CONFIG, code=FILES)
            self.serve("--models", room)
            status, answer = self.post({"model": "my/model"})
            self.assertEqual((status, answer["recommendation"]["memory"]["basis"]), (200, "generic"))  # what the hub has under that name is another model's
            self.assertEqual(self.hub.connections, 0)

    def test_a_snapshot_of_huggingface_hub(self):
        with tempfile.TemporaryDirectory() as room:
            snapshot = os.path.join(room, "models--org--kept", "snapshots", COMMIT)
            os.makedirs(snapshot)
            os.makedirs(os.path.join(room, "models--org--kept", "refs"))
            with open(os.path.join(room, "models--org--kept", "refs", "main"), "w", encoding="utf-8") as f:
                f.write(COMMIT)
            for name, text in {**FILES, "config.json": json.dumps(CONFIG)}.items():
                with open(os.path.join(snapshot, name), "w", encoding="utf-8") as f:
                    f.write(text)
            self.serve(HF_HUB_CACHE=room, HF_HUB_OFFLINE="1")
            status, answer = self.post({"model": "org/kept"})
            self.assertEqual((status, answer["model"]["program"]["source"]), (200, "hub"), answer)
            self.assertEqual(self.hub.connections, 0)


main(unittest)
