"""A request's own modelling files over HTTP: answered, refused with file and line, and never for long, whatever they say."""
import hashlib
import json
import os
import re
import unittest

from costly_files import LOOPS
from daemon import SLOW, Daemon, main
from hostile_files import CASES, CLASSES, CONF, MODEL, request

EXAMPLE = "examples/modeling"
MOST_CPU_S = 30 if SLOW else 1


def files_of(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name)) as f:
                found[name] = f.read()
    return found


def example(**training):
    with open(os.path.join(EXAMPLE, "config.json")) as f:
        config = json.load(f)
    return {"config": config, "modeling": files_of(EXAMPLE), "cluster": {"gpu": "A100-80GB"}, "training": training}

# What they raise stands in no line of theirs: it is what the Trainer does with what forward returned.
NOWHERE = ("checkpoint rec", "loss none", "int forward", "no gradient")


class Modeling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--offline", "--log", "none")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def post(self, body, path="/estimate"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, headers, got = self.daemon.ask("POST", path, data)
        return status, json.loads(got), headers

    def cpu_s(self, d=None):
        with open("/proc/%d/stat" % (d or self.daemon).process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_hostile_files_end_soon(self):
        for name, wanted, says in CASES:
            with self.subTest(name):
                before = self.cpu_s()
                status, answer, _ = self.post(request(**says))
                self.assertLess(self.cpu_s() - before, MOST_CPU_S)
                reason = (answer["candidates"][0].get("reason") or {}) if status == 200 else {}
                self.assertEqual(answer["code"] if status != 200 else reason.get("code", "fits"), wanted)
                if wanted in ("leaves-the-language", "modeling-raised") and name not in NOWHERE:
                    where = answer if status != 200 else reason
                    self.assertTrue(where.get("construct") or "/" in where.get("pointer", ""), where)
        self.assertEqual(self.post(request())[0], 200)

    def test_the_gpu_that_is_asked_about_is_the_one_that_files_see(self):
        """When they are imported, when the model is made, and in a step; and of an operator that is registered, and called by its name."""
        old = "if torch.cuda.get_device_capability() < (8, 0): raise ValueError('old')"
        named = "torch.library.custom_op('a::twice', lambda x, n: x * n, mutates_args=(), schema='(Tensor x, int n) -> Tensor')\n" \
                "torch.library.register_autograd('a::twice', lambda ctx, g: (g * 2, None))"
        for says in (dict(top=old), dict(init=old), dict(fwd=old)):
            for gpu, wanted in (("A100-80GB", "fits"), ("T4", "modeling-raised")):
                with self.subTest(says=says, gpu=gpu):
                    status, answer, _ = self.post({**request(**says), "cluster": {"gpu": gpu}})
                    reason = (answer["candidates"][0].get("reason") or {}) if status == 200 else {}
                    self.assertEqual(answer["code"] if status != 200 else reason.get("code", "fits"), wanted, answer)
        status, answer, _ = self.post(request(top=named, fwd="x = torch.ops.a.twice(x, n=2)"))
        self.assertEqual((status, answer["candidates"][0].get("reason")), (200, None), answer)

    def test_what_is_repeated_is_paid_for(self):
        """A million events are some 80 ms of a core: nothing that a file may do takes long beside what it is charged for."""
        d = Daemon("--offline", "--log", "none", "--threads", "1", "--work-budget", "1000000")
        for name, says in LOOPS:
            with self.subTest(name):
                before = self.cpu_s(d)
                status, _, body = d.ask("POST", "/estimate", json.dumps(request(**says)))
                self.assertLess(self.cpu_s(d) - before, 60 if SLOW else 0.6)
                answer = json.loads(body)
                reason = answer["code"] if status != 200 else (answer["candidates"][0].get("reason") or {}).get("code")
                self.assertIn(reason, ("budget", "arch-invalid", "modeling-too-long"))
        d.stop()

    def test_numbers_of_a_config_are_python_s(self):
        """json.loads makes a float of 2.0 and an int of 2: files ask which (`rope_scaling`'s factor field must be a float)."""
        for number, kind in ((2.0, "float"), (2, "int"), (0.0, "float"), (1e3, "float")):
            body = request(init="assert type(config.factor) is %s" % kind)
            body["config"]["factor"] = number
            self.assertEqual(self.post(body)[0], 200)

    def test_no_utf8(self):
        body = json.dumps(request(files={"modeling_h.py": "@@"})).encode().replace(b"@@", b"\xff\xfe")
        status, answer, _ = self.post(body)
        self.assertEqual((status, answer["code"]), (400, "malformed-json"))

    def test_says_where(self):
        status, answer, _ = self.post(request(top="import os", init="os.listdir('/')"))
        self.assertEqual((status, answer["code"], answer["pointer"], answer["file"]), (422, "leaves-the-language", "/modeling/modeling_h.py", "modeling_h.py"))
        self.assertEqual(answer["line"], 14)
        self.assertIn("os.listdir()", answer["construct"])
        status, answer, _ = self.post(request(fwd="assert x.shape[0] == 77, 'not so many'"))
        reason = answer["candidates"][0]["reason"]
        self.assertEqual((reason["code"], reason["file"], reason["line"]), ("modeling-raised", "modeling_h.py", 17))
        self.assertIn("AssertionError: not so many", reason["construct"])

    def test_no_address_is_told(self):
        """Nor is anything of an answer another in another process, whatever a file asks of its objects."""
        asked = [request(fwd="raise ValueError(repr(object()) + str(id(x)) + str(hash(int)) + repr(self.forward) + str(object.__hash__(self)))"),
                 request(init="self.d = {c: 1 for c in (int, str, nn.Linear, len, M, self)}; assert id(int) % 64 == 0 and hash(len) % 3, 'places'"),
                 request(top="raise ValueError(lambda: 1, type(object()), id(str), len)")]
        first = [self.post(q) for q in asked]
        for _ in range(3):
            d = Daemon("--offline", "--log", "none")
            for q, (status, answer, _) in zip(asked, first):
                again = d.ask("POST", "/estimate", json.dumps(q))
                self.assertEqual((again[0], json.loads(again[2])), (status, answer))
            d.stop()
        with open("/proc/%d/maps" % self.daemon.process.pid) as f:
            ranges = [[int(x, 16) for x in line.split()[0].split("-")] for line in f]
        told = [int(n, 0) for n in re.findall(r"0x[0-9a-f]+|[0-9]{9,}", json.dumps([answer for _, answer, _ in first]))]
        self.assertTrue(told)
        self.assertEqual([hex(n) for n in told if any(a <= n < b for a, b in ranges if b - a < 1 << 38)], [])  # but for a sanitizer's shadow

    def test_example(self):
        asked = example(seq_len=512, micro_batch_size=2)
        status, answer, headers = self.post(asked)
        self.assertEqual(status, 200)
        program = answer["model"]["program"]
        self.assertEqual(program["source"], "request")
        self.assertEqual({f["name"]: f["sha256"] for f in program["files"]},
                         {name: hashlib.sha256(text.encode()).hexdigest() for name, text in asked["modeling"].items()})
        again = dict(asked, config=dict(asked["config"]))
        again["modeling"] = {name: text + "# another file\n" for name, text in asked["modeling"].items()}
        self.assertNotEqual(self.post(again)[1]["model"]["program"]["files"], program["files"])
        self.assertEqual(self.post(dict(answer["resolved"], config=asked["config"], modeling=asked["modeling"]))[1]["candidates"], answer["candidates"])
        self.assertEqual(self.post(asked)[1], answer)

    def test_batch_is_the_same(self):
        asked = example(seq_len=512, micro_batch_size=2)
        alone = self.post(asked)[1]
        status, answer, _ = self.post({"requests": [asked, request(init="1 / 0"), asked]}, "/estimate/batch")
        self.assertEqual(status, 200)
        self.assertEqual([answer["results"][0], answer["results"][2]], [alone, alone])
        self.assertEqual(answer["results"][1]["code"], "modeling-raised")

    def test_parameters(self):
        asked = example()
        status, answer, _ = self.post({"config": asked["config"], "modeling": asked["modeling"]}, "/models")
        self.assertEqual(status, 200)
        self.assertEqual(answer["parameters"], sum(shape_product(t["shape"]) for t in answer["tensors"] if "tied_to" not in t))
        self.assertEqual(answer["program"]["source"], "request")

    def test_known_type_in_its_own_text(self):
        files = {"modeling_llama.py": MODEL.replace("configuration_h", "configuration_llama") % ("", "pass", "pass"), "configuration_llama.py": CONF}
        asked = {"config": {"model_type": "llama", "architectures": ["M"]}, "modeling": files, "cluster": {"gpu": "A100-80GB"}, "training": {"seq_len": 64}}
        status, answer, _ = self.post(asked)
        self.assertEqual((status, answer["model"]["parameters"]), (200, 2 * 100 * 64 + 100))

    def test_a_type_that_the_release_does_not_have_yet(self):
        """Files of the hub run wherever they are imported: DeepSeek-V3's were written for 4.33."""
        files = {"modeling_h.py": MODEL % ("", "pass", "pass"), "configuration_h.py": CONF}
        auto = {"AutoConfig": "configuration_h.C", "AutoModelForCausalLM": "modeling_h.M"}
        status, answer, _ = self.post({"config": {"model_type": "deepseek_v3", "auto_map": auto}, "modeling": files, "cluster": {"gpu": "A100-80GB"},
                                       "training": {"seq_len": 64}, "stack": {"transformers": "4.40", "torch": "2.2"}})
        self.assertEqual((status, answer.get("fits")), (200, True), answer)

    def test_experts_of_a_file(self):
        for name, loops in (("loops", True), ("experts", False)):
            folder = "tests/data/modeling/" + name
            with open(folder + "/config.json") as f:
                asked = {"config": json.load(f), "modeling": files_of(folder), "cluster": {"gpu": "A100-80GB"},
                         "training": {"seq_len": 64, "micro_batch_size": 1, "methods": "single"}}
            peaks = {}
            for layers, skew in ((3, None), (3, 1), (3, 1.5), (3, 4), (60, 4)):
                with self.subTest(name, layers=layers, skew=skew):
                    asked["config"]["num_hidden_layers"] = layers
                    asked["training"]["expert_skew"] = skew
                    status, answer, _ = self.post(asked)
                    self.assertEqual((status, answer["candidates"][0].get("reason")), (200, None))
                    said = [text for text in answer["assumptions"] if text.startswith("experts:")]
                    shares = "%.4g even shares" % skew if (skew or 1) > 1 else "each has an even share"
                    self.assertEqual([(shares in text, "reads no number" in text) for text in said], [(loops, not loops)])
                    self.assertFalse(any("/training/expert_skew" in text for text in answer["warnings"]))
                    peaks[layers, skew] = answer["candidates"][0]["memory"]["peak_allocated_bytes"]
            self.assertEqual(peaks[3, None], peaks[3, 1])
            self.assertEqual(peaks[3, 1] != peaks[3, 1.5], loops)

    def test_packed_rows_have_a_mask(self):
        """A branch that the positions of packed rows decide. The peak is PyTorch 2.15's of a row of 128 tokens, traced."""
        folder = "tests/data/modeling/packed"
        with open(folder + "/config.json") as f:
            asked = {"config": json.load(f), "modeling": files_of(folder), "cluster": {"gpu": "A100-80GB"},
                     "training": {"seq_len": 64, "micro_batch_size": 2, "methods": "single", "precision": "bf16", "optimizer": "adamw_torch",
                                  "attention": "sdpa", "packing": True}}
        status, answer, _ = self.post(asked)
        self.assertEqual((status, answer["candidates"][0].get("reason")), (200, None))
        self.assertEqual(answer["candidates"][0]["memory"]["peak_allocated_bytes"], 9782784)

    def test_builtin_is_named(self):
        status, answer, _ = self.post({"model": "facebook/opt-125m", "cluster": {"gpu": "A100-40GB"}, "training": {"seq_len": 128, "micro_batch_size": 1}})
        self.assertEqual(answer["model"]["program"]["source"], "builtin")
        self.assertEqual(answer["model"]["program"]["files"], [{"name": "models/opt/modeling_opt.py"}])


def shape_product(shape):
    n = 1
    for size in shape:
        n *= size
    return n


main(unittest)
