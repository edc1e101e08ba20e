"""An installed transformers of a few lines: answered from its files, refused where they are broken. DIR is never written."""
import json
import os
import resource
import shutil
import subprocess
import tempfile
import threading
import unittest

import hostile_folders
from daemon import LLMEMD, SLOW, Daemon, main

FILES = {
    "__init__.py": '"""x"""\n__version__ = "5.23.0"\n',
    "modeling_utils.py": "raise SystemExit('never read')\n",
    "modeling_rope_utils.py": "",
    "pytorch_utils.py": "ALL_LAYERNORM_LAYERS = []\n",
    "integrations/__init__.py": "",
    "integrations/sdpa_attention.py": "def sdpa_attention_forward(*args, **kwargs):\n    pass\n",
    "utils/__init__.py": "",
    "utils/generic.py": "class GeneralInterface(dict):\n    pass\n\n\nclass ModelOutput:\n    def __init__(self, loss, logits):\n"
                        "        self.loss, self.logits = loss, logits\n",
    "loss/__init__.py": "",
    "loss/loss_utils.py": "from torch.nn import functional as F\n\n\ndef lm_loss(logits, labels):\n"
                          "    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.reshape(-1))\n\n\n"
                          "LOSS_MAPPING = {'ForCausalLM': lm_loss}\n",
    "models/__init__.py": "",
    "models/auto/modeling_auto.py": 'MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(\n    [\n        ("tiny", "TinyForCausalLM"),\n    ]\n)\n',
    "models/auto/auto_mappings.py": 'CONFIG_MAPPING_NAMES = OrderedDict(\n    [\n        ("tiny", "TinyConfig"),\n    ]\n)\n'
                                    'SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict(\n    [\n    ]\n)\n',
    "models/tiny/__init__.py": "import os\n",
    "models/tiny/configuration_tiny.py": "from ...configuration_utils import PreTrainedConfig\n\n\nclass TinyConfig(PreTrainedConfig):\n"
                                         "    model_type = 'tiny'\n    vocab_size: int = 100\n    hidden_size: int = 64\n    num_hidden_layers: int = 2\n"
                                         "    num_attention_heads: int = 2\n    tie_word_embeddings: bool = False\n    use_cache: bool = False\n",
    "models/tiny/modeling_tiny.py": """from torch import nn

from ...modeling_utils import PreTrainedModel
from ...utils import ModelOutput, logging
from .configuration_tiny import TinyConfig

logger = logging.get_logger(__name__)


class TinyLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.hidden_size, 4 * config.hidden_size)
        self.down = nn.Linear(4 * config.hidden_size, config.hidden_size)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class TinyForCausalLM(PreTrainedModel):
    config_class = TinyConfig
    supports_gradient_checkpointing = False

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([TinyLayer(config) for _ in range(config.num_hidden_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(x)
        return ModelOutput(self.loss_function(logits, labels), logits)
""",
}
MODELING = "models/tiny/modeling_tiny.py"
REQUEST = {"config": {"model_type": "tiny", "hidden_size": 128}, "cluster": {"gpu": "A100-40GB"},
           "training": {"seq_len": 64, "micro_batch_size": 1, "attention": "eager"}}
PARAMETERS = 2 * 100 * 128 + 2 * (128 * 512 + 512 + 512 * 128 + 128)


def lay(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())


class Installed(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.room.name, "transformers")
        lay(self.folder, FILES)

    def tearDown(self):
        self.room.cleanup()

    def ask(self, request=REQUEST, *folders, at=None):
        options = [word for f in folders or (self.folder,) for word in ("--transformers", f)]
        done = subprocess.run([os.path.abspath(LLMEMD), "estimate", "--offline", *options], input=json.dumps(request), capture_output=True, text=True, timeout=120,
                              cwd=at)
        return done, json.loads(done.stdout) if done.stdout.startswith("{") else None

    def test_answers_from_its_files(self):
        for folder in (self.folder, self.room.name):
            done, answer = self.ask(REQUEST, folder)
            self.assertIsNotNone(answer, done.stderr)
            self.assertIs(answer.get("fits"), True, answer)
            self.assertEqual(answer["model"]["parameters"], PARAMETERS)
            program = answer["model"]["program"]
            self.assertEqual((program["source"], program["version"]), ("installed", "5.23.0"))
            self.assertEqual(program["files"][0]["name"], "transformers/" + MODELING)
            self.assertTrue(all(len(f["sha256"]) == 64 for f in program["files"]))

    def test_a_type_of_another_type_s_classes(self):
        """Named beside the tables, without a file of its own."""
        auto = "models/auto/modeling_auto.py"
        lay(self.folder, {auto: FILES[auto].replace('("tiny",', '("tiny-old", "TinyForCausalLM"),\n        ("tiny",'),
                          "models/auto/configuration_auto.py":
                          'CONFIG_MAPPING_NAMES = OrderedDict(**{"tiny-old": "TinyConfig"}, **CONFIG_MAPPING_NAMES)\n'})
        done, answer = self.ask({**REQUEST, "config": {**REQUEST["config"], "model_type": "tiny-old"}})
        self.assertIsNotNone(answer, done.stderr)
        self.assertEqual(answer.get("model", {}).get("parameters"), PARAMETERS, answer)

    AUTO = "models/auto/modeling_auto.py"

    def test_a_stage_trains_the_class_of_its_table(self):
        lay(self.folder, {self.AUTO: FILES[self.AUTO] + 'MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES = OrderedDict(\n    [\n'
                          '        ("tiny", "TinyForSequenceClassification"),\n    ]\n)\n',
                          MODELING: FILES[MODELING] + """

class TinyForSequenceClassification(TinyForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        del self.lm_head
        self.score = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        assert labels.shape == input_ids.shape[:1]
        logits = self.score(self.embed_tokens(input_ids)[:, -1])
        return ModelOutput(nn.functional.cross_entropy(logits, labels), logits)
"""})
        head = {**REQUEST, "training": {**REQUEST["training"], "stage": "classification"}}
        _, answer = self.ask(head)
        self.assertIs(answer.get("fits"), True, answer)
        named = {**REQUEST, "config": {**REQUEST["config"], "architectures": ["TinyForSequenceClassification"]}}
        _, answer = self.ask(named)
        self.assertIs(answer.get("fits"), True, answer)
        self.assertEqual(answer["model"]["parameters"], PARAMETERS - 100 * 128 + 2 * 128 + 2)
        _, answer = self.ask({**REQUEST, "training": {**REQUEST["training"], "stage": "question_answering"}})
        self.assertIn("question_answering", json.dumps(answer))
        self.assertIsNot(answer.get("fits"), True)

    def test_a_type_of_images_and_text_is_trained_on_text(self):
        """No placeholder stands in the text; a number that may end it does or does not."""
        auto = FILES[self.AUTO].replace("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT")
        config = {**REQUEST["config"], "image_token_id": 7, "eos_token_id": 2}
        for line, fits in (("assert not (input_ids == self.config.image_token_id).any() and 7 not in input_ids", True),
                           ("x = x.masked_fill((input_ids.view(-1) != 7).view(input_ids.shape).logical_not().unsqueeze(-1), 0)", True),
                           ("assert not (input_ids == 2).any()", False)):
            text = FILES[MODELING].replace("        for layer in", f"        {line}\n        for layer in")
            lay(self.folder, {self.AUTO: auto, MODELING: text})
            _, answer = self.ask({**REQUEST, "config": config})
            self.assertIs(answer.get("fits"), True if fits else None, answer)
        self.assertIn("leaves-the-language", json.dumps(answer))

    def test_a_class_of_images_and_text_that_is_pretrained_too(self):
        """Configs of llava, paligemma and mllama name a class that stands in both tables: no head of an encoder's is asked for."""
        one = FILES[self.AUTO].replace("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT")
        lay(self.folder, {self.AUTO: one.replace("IMAGE_TEXT_TO_TEXT", "PRETRAINING") + one})
        _, answer = self.ask({**REQUEST, "config": {**REQUEST["config"], "architectures": ["TinyForCausalLM"]}})
        self.assertIs(answer.get("fits"), True, answer)

    def test_a_layer_in_a_dtype_of_its_own(self):
        def static():
            _, answer = self.ask({**REQUEST, "training": {**REQUEST["training"], "precision": "bf16"}})
            self.assertIs(answer.get("fits"), True, answer)
            return answer["candidates"][0]["memory"]["peak_allocated_bytes"]

        plain = static()
        lay(self.folder, {MODELING: FILES[MODELING].replace("self.up = nn.Linear(config.hidden_size, 4 * config.hidden_size)",
                                                            "self.up = nn.Linear(config.hidden_size, 4 * config.hidden_size, dtype=torch.float32)")
                          .replace("self.up(x)", "self.up(x.float()).to(x.dtype)").replace("from torch import nn", "import torch\nfrom torch import nn")})
        self.assertGreater(static(), plain)

    def test_heads_are_tied_before_5(self):
        """tie_weights(): what get_output_embeddings() gives, whatever _tied_weights_keys lists; before 4.54 a class has none that does not say so"""
        config = FILES["models/tiny/configuration_tiny.py"].replace("tie_word_embeddings: bool = False", "tie_word_embeddings: bool = True")
        for release, text, tied in (("4.57.0", FILES[MODELING].replace("supports_gradient", '_tied_weights_keys = ["lm_head.weight"]\n    supports_gradient'), 1),
                                    ("4.54.0", FILES[MODELING], 1), ("4.53.0", FILES[MODELING], 0), ("5.23.0", FILES[MODELING], 0)):
            lay(self.folder, {**FILES, "__init__.py": '"""x"""\n__version__ = "%s"\n' % release, "models/tiny/configuration_tiny.py": config, MODELING: text})
            done, answer = self.ask({**REQUEST, "stack": {"transformers": release[:4]}})
            self.assertEqual((answer or {}).get("model", {}).get("parameters"), PARAMETERS - tied * 100 * 128, answer or done.stderr)

    def test_what_classes_record_is_registered(self):
        """PreTrainedModel.__init__() notes _can_record_outputs where its release's hooks look: router logits are None without, and their loss raises."""
        plain = "_CAN_RECORD_REGISTRY = {}\n"
        by_class = ("class Registry(dict):\n    def __setitem__(self, model, v):\n        super().__setitem__(str(model.__class__), v)\n\n\n"
                    "_CAN_RECORD_REGISTRY = Registry()\n")
        for release, file, registry in (("4.57.0", "utils/generic.py", FILES["utils/generic.py"] + plain), ("5.2.0", "utils/output_capturing.py", plain),
                                        ("5.23.0", "utils/output_capturing.py", by_class)):
            module = file.split("/")[1].removesuffix(".py")
            text = FILES[MODELING].replace("from ...utils import", f"from ...utils.{module} import _CAN_RECORD_REGISTRY\nfrom ...utils import").replace(
                "        x = self.embed_tokens(input_ids)\n", "        x = self.embed_tokens(input_ids)\n        if 'router_logits' not in _CAN_RECORD_REGISTRY[str(self.__class__)]:\n"
                "            raise ValueError('not recorded')\n").replace("    config_class", "    _can_record_outputs = {'router_logits': TinyLayer}\n    config_class")
            lay(self.folder, {**FILES, "__init__.py": '"""x"""\n__version__ = "%s"\n' % release, file: registry, MODELING: text})
            done, answer = self.ask({**REQUEST, "stack": {"transformers": release[:-2]}})
            self.assertIs((answer or {}).get("fits"), True, answer or done.stderr)

    def test_layers_that_a_model_within_ties(self):
        """zamba: the model within says which of its modules are others, and its config that they are tied"""
        inner = FILES[MODELING].replace("class TinyForCausalLM", """class TinyModel(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.layers = nn.ModuleList([TinyLayer(config) for _ in range(config.num_hidden_layers)])
        self._tied_weights_keys = {"layers.1": "layers.0"}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class TinyForCausalLM""").replace("self.layers = nn.ModuleList([TinyLayer(config) for _ in range(config.num_hidden_layers)])\n        self.lm_head",
                                  "self.model = TinyModel(config)\n        self.lm_head").replace("        for layer in self.layers:\n            x = layer(x)\n        logits",
                                                                                            "        x = self.model(x)\n        logits")
        config = FILES["models/tiny/configuration_tiny.py"]
        for tied in (False, True):
            lay(self.folder, {MODELING: inner, "models/tiny/configuration_tiny.py": config.replace("embeddings: bool = False", f"embeddings: bool = {tied}")})
            done, answer = self.ask()
            self.assertEqual((answer or {}).get("model", {}).get("parameters"), PARAMETERS - tied * (128 * 512 + 512 + 512 * 128 + 128), answer or done.stderr)

    def test_a_checkpoint_of_ten_arguments(self):
        """mixtral's layers of 4.48 take nine"""
        text = FILES[MODELING].replace("from torch import nn\n", "from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n").replace(
            "def forward(self, x):", "def forward(self, x, *rest):").replace("x = layer(x)", "x = checkpoint(layer.__call__, x, *[None] * 9, use_reentrant=False)")
        lay(self.folder, {MODELING: text})
        done, answer = self.ask()
        self.assertIs((answer or {}).get("fits"), True, answer or done.stderr)

    def test_kinds_of_layers_are_renamed_from_5_13(self):
        """Before, bamba's are a property that nobody sets."""
        config = FILES["models/tiny/configuration_tiny.py"] + ("    attribute_map = {'layer_types': 'layers_block_type'}\n\n    @property\n    def layers_block_type(self):\n"
                                                               "        return ['mamba'] * 2\n")
        for release, code in (("5.12.0", None), ("5.13.0", "modeling-raised")):
            lay(self.folder, {"__init__.py": '\n__version__ = "%s"\n' % release, "models/tiny/configuration_tiny.py": config})
            self.assertEqual(self.ask({**REQUEST, "stack": {"transformers": release[:4]}})[1].get("code"), code, release)

    def test_serves(self):
        d = Daemon("--offline", "--transformers", self.folder)
        try:
            answers = [json.loads(d.ask("POST", "/estimate", json.dumps(REQUEST))[2]) for _ in range(2)]
            self.assertEqual(answers[0]["model"]["program"]["source"], "installed")
            self.assertEqual(answers[0]["candidates"], answers[1]["candidates"])
        finally:
            self.assertEqual(d.stop()[0], 0)

    def test_reads_the_folder_that_was_opened_and_writes_nothing(self):
        def state(folder):
            return sorted((os.path.join(p, n), os.lstat(os.path.join(p, n)).st_mtime_ns) for p, ds, fs in os.walk(folder) for n in ds + fs)

        d = Daemon("--offline", "--transformers", self.folder)
        try:
            away = self.folder + ".away"
            os.rename(self.folder, away)
            lay(self.folder, {**FILES, MODELING: "raise SystemExit\n"})  # whoever looks it up by its name finds this one
            before = state(away)
            answer = json.loads(d.ask("POST", "/estimate", json.dumps(REQUEST))[2])
            self.assertEqual(answer["model"]["parameters"], PARAMETERS, answer)
            self.assertEqual(state(away), before)
        finally:
            self.assertEqual(d.stop()[0], 0)

    def test_files_beside_it_that_are_broken(self):
        """Not the model's own: those that it imports of the package."""
        for name, content, says in (("utils/generic.py", b"\xff\xfe", "not UTF-8"), ("loss/loss_utils.py", "def (", "invalid syntax"),
                                    ("loss/loss_utils.py", "#" * (3 << 20), "more than 2 MiB")):
            lay(self.folder, {**FILES, name: content})
            done, answer = self.ask()
            self.assertIn((answer or {}).get("code"), ("leaves-the-language", "modeling-raised"), done)
            self.assertIn(says, answer["detail"])

    def test_another_release_is_not_taken(self):
        _, answer = self.ask({**REQUEST, "stack": {"transformers": "4.53"}})
        self.assertEqual((answer["code"], answer["pointer"]), ("field-missing", "/config/num_hidden_layers"))  # what a decoder by the usual keys lacks
        done, answer = self.ask({**REQUEST, "stack": {"transformers": "4.53"}, "program": "installed"})
        self.assertEqual((answer or {}).get("pointer"), "/program", done)

    def test_builtin_types_stay_builtin_unless_asked(self):
        config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100}
        _, answer = self.ask({**REQUEST, "config": config})
        self.assertEqual(answer["model"]["program"]["source"], "builtin")
        _, answer = self.ask({**REQUEST, "config": config, "program": "installed"})
        self.assertEqual(answer["code"], "arch-unknown")

    def broken(self, says, code="leaves-the-language"):
        before = sorted((p, os.lstat(os.path.join(p, f)).st_mtime_ns, f) for p, _, fs in os.walk(self.folder) for f in fs)
        done, answer = self.ask()
        self.assertIsNotNone(answer, done.stderr)
        self.assertEqual(answer.get("code"), code, answer)
        self.assertIn(says, answer["detail"])
        self.assertEqual(answer["pointer"], "/config")
        self.assertEqual(before, sorted((p, os.lstat(os.path.join(p, f)).st_mtime_ns, f) for p, _, fs in os.walk(self.folder) for f in fs))

    def test_broken_files_are_refused(self):
        path = os.path.join(self.folder, MODELING)
        text = FILES[MODELING]
        cases = ((text.encode() + b"# \xe9\n", "not UTF-8"), (text.encode() + b"\0", "not UTF-8"), (text + "#" * (10 << 20), "more than 2 MiB"))
        for content, says in cases:
            lay(self.folder, {MODELING: content})
            self.broken(says)
        lay(self.folder, {MODELING: text[: text.index("super().__init__(") + 17]})
        self.broken("modeling_tiny.py:12: invalid syntax")
        os.unlink(path)
        os.mkdir(path)
        self.broken("no regular file")
        os.rmdir(path)
        os.mkfifo(path)
        self.broken("no regular file")
        os.unlink(path)

    def test_hostile_folders_end_soon(self):
        for name, wanted, files, *more in hostile_folders.cases(FILES):
            spoil, members = (*more, None, None)[:2]
            with self.subTest(name), tempfile.TemporaryDirectory() as room:
                folder = os.path.join(room, "transformers")
                lay(folder, {**FILES, **files})
                if spoil:
                    spoil(folder)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                done, answer = self.ask({**REQUEST, "config": {"model_type": "tiny", **(members or {})}}, folder)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                if wanted == "not taken":
                    self.assertIn("modeling_auto.py", done.stderr)
                    continue
                self.assertIsNotNone(answer, done.stderr)
                self.assertEqual(answer.get("code") or ("fits" if answer.get("fits") else answer["candidates"][0]["reason"]["code"]), wanted, answer)
                self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 30 if SLOW else 1)

    def test_files_that_change_while_they_are_read(self):
        ends = threading.Event()

        def change():
            for i in range(1 << 30):
                if ends.is_set():
                    return
                lay(self.folder, {MODELING: FILES[MODELING][: (i * 37) % 2000]})
                lay(self.folder, {MODELING: FILES[MODELING]})

        changes = threading.Thread(target=change)
        changes.start()
        try:
            for _ in range(12):
                done, answer = self.ask()
                self.assertIsNotNone(answer, done.stderr)
                self.assertIn(answer.get("code"), (None, "leaves-the-language", "modeling-raised"), answer)
        finally:
            ends.set()
            changes.join()

    def test_links_stay_within(self):
        path = os.path.join(self.folder, MODELING)
        outside = os.path.join(self.room.name, "outside.py")
        lay(self.room.name, {"outside.py": FILES[MODELING]})
        os.unlink(path)
        os.symlink(outside, path)
        self.broken("out of the folder")
        os.unlink(path)
        os.symlink("../../../outside.py", path)
        self.broken("out of the folder")
        os.unlink(path)
        lay(self.folder, {"models/tiny/same.py": FILES[MODELING]})
        os.symlink("same.py", path)
        self.assertIs(self.ask()[1].get("fits"), True)

    def test_files_reach_for_nothing(self):
        for line in ("from ... import secret\nsecret()", "from ...models import secret", "open('/etc/passwd')", "import os\nos.system('x')"):
            lay(self.folder, {MODELING: line + "\n" + FILES[MODELING]})
            done, answer = self.ask()
            self.assertIn((answer or {}).get("code"), ("leaves-the-language", "modeling-raised"), done)

    def test_folders_that_are_none(self):
        for make, says in ((lambda p: None, "cannot be opened"), (lambda p: open(p, "w").close(), "no folder"), (os.mkdir, "no transformers")):
            folder = os.path.join(self.room.name, "other%d" % len(says))
            make(folder)
            done, answer = self.ask(REQUEST, folder)
            self.assertIsNone(answer)
            self.assertIn(says, done.stderr)
            self.assertNotEqual(done.returncode, 0)
        done, answer = self.ask(REQUEST, *[self.folder] * 9)
        self.assertIn("at most 8", done.stderr)
        for text in ("pass\n", "\nfrom .v import __version__\n", '\n__version__ = "5.23.0', *('\n__version__ = "%s"\n' % v for v in (
                "", "4", "abc", "5..", "-1.2", "1e9.3", "../../etc", "18446744073709551616.0", "5.23rc1", "5.23.0 or newer", "5.23." + "0" * 100))):
            lay(self.folder, {"__init__.py": text})
            done, answer = self.ask()
            self.assertIsNone(answer, text)
            self.assertIn("__version__", done.stderr)
        for version in ("5.23", "5.23.0rc1", "5.23.0.dev0", "99.1.0", "4.57.6.post1"):
            lay(self.folder, {"__init__.py": '\n__version__ = "%s"\n' % version})
            self.assertEqual(self.ask()[1]["model"]["program"]["version"], version)

    def test_folders_said_in_other_ways(self):
        for at, said in ((self.room.name, "transformers"), (self.folder, "."), (self.folder, "../transformers/")):
            self.assertIs(self.ask(REQUEST, said, at=at)[1].get("fits"), True, said)
        for i in range(4000):
            os.mkdir(os.path.join(self.folder, "models", "t%d" % i))
        self.assertIs(self.ask()[1].get("fits"), True)

    def test_a_folder_that_is_removed_while_it_serves(self):
        d = Daemon("--offline", "--transformers", self.folder)
        try:
            shutil.rmtree(self.folder)
            answer = json.loads(d.ask("POST", "/estimate", json.dumps(REQUEST))[2])
            self.assertIn(answer.get("code"), ("field-missing", "arch-unknown"), answer)
            self.assertEqual(d.ask("GET", "/healthz")[0], 200)
        finally:
            self.assertEqual(d.stop()[0], 0)

    @unittest.skipIf(os.geteuid() == 0 and not shutil.which("setpriv"), "root may read everything")
    def test_files_that_may_not_be_read(self):
        """Also: who may write nothing in the folder is answered."""
        nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        os.chmod(self.room.name, 0o755)

        def ask():
            done = subprocess.run([*nobody, LLMEMD, "estimate", "--offline", "--transformers", self.folder], input=json.dumps(REQUEST), capture_output=True, text=True)
            return done, json.loads(done.stdout or "{}")

        self.assertIs(ask()[1].get("fits"), True)
        for name, mode in ((MODELING, 0), ("models/tiny", 0)):
            path = os.path.join(self.folder, name)
            was = os.stat(path).st_mode
            os.chmod(path, mode)
            done, answer = ask()
            os.chmod(path, was)
            self.assertEqual(answer.get("code"), "leaves-the-language", done)
            self.assertIn("cannot be opened", answer["detail"])
        os.chmod(self.folder, 0)
        done, _ = ask()
        os.chmod(self.folder, 0o755)
        self.assertIn("cannot be opened", done.stderr)

    def test_the_example_needs_it(self):
        """The type of README's example has no program here."""
        example = os.path.join(os.path.dirname(__file__), "../../examples/installed")
        done = subprocess.run([LLMEMD, "estimate", "--offline", "--model", example, "--gpu", "A100-80GB", "--json"], capture_output=True, text=True)
        self.assertNotEqual((json.loads(done.stdout)["model"].get("program") or {}).get("source"), "builtin", done)

    def test_versions_as_files_write_them(self):
        for text in ('__version__ = "5.23.0"\n', "# what\n__version__ = '5.23.0'\n"):
            lay(self.folder, {"__init__.py": text})
            self.assertEqual(self.ask()[1]["model"]["program"]["version"], "5.23.0", text)
        lay(self.folder, {"__init__.py": '__version__ = "today"\n'})
        self.assertIn("a __version__ that is a release", self.ask()[0].stderr)

    def test_without_its_tables(self):
        table = os.path.join(self.folder, "models/auto/modeling_auto.py")
        for spoil, says in ((lambda: os.symlink("/etc/passwd", table), "leads out of the folder"), (lambda: None, "not there"),
                            (lambda: os.mkfifo(table), "no regular file")):
            if os.path.lexists(table):
                os.unlink(table)
            spoil()
            done = self.ask()[0]
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)
            self.assertIn("modeling_auto.py", done.stderr)
        os.unlink(table)
        lay(self.folder, {"models/auto/modeling_auto.py": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(\n    [\n    ]\n)\n"})
        answer = self.ask({**REQUEST, "config": {**REQUEST["config"], "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100,
                                                 "intermediate_size": 256}})[1]
        self.assertTrue([w for w in answer["warnings"] if "as installed, has no language model of the type 'tiny'" in w], answer["warnings"])


main(unittest)
