"""Nothing that a request states is taken without a word: every member of openapi.yaml's request and every name of other tools moves a figure, is named, or is
refused. silent.py"""
import collections
import concurrent.futures
import glob
import json
import re
import unittest

from daemon import Daemon, main

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
          "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 4096, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
          "tie_word_embeddings": False}


def question(gpus, training=None, nodes=1, **more):
    return dict({"config": CONFIG, "cluster": {"gpu": "A100-40GB", "gpus_per_node": gpus, "nodes": nodes},
                 "training": dict({"seq_len": 256, "micro_batch_size": 2, "gradient_checkpointing": False}, **(training or {}))}, **more)


def generation(gpus, **inference):
    return {"config": CONFIG, "cluster": {"gpu": "A100-40GB", "gpus_per_node": gpus}, "workload": "inference",
            "inference": dict({"prompt_tokens": 64, "new_tokens": 32, "batch_size": 2}, **inference)}


# What is asked beside the member: one GPU, several, what is around a step, a generation.
ASKED = {
    "full": question(1, {"tuning": "full"}),
    "fp32, evaluated": question(1, {"tuning": "full", "precision": "fp32", "prediction_loss_only": False, "eval_batches": 4}),
    "qlora": question(1, {"tuning": "qlora", "quantization": "nf4"}),
    "dpo": question(1, {"tuning": "full", "stage": "dpo"}),
    "packed": question(1, {"tuning": "full", "packing": True, "attention": "flash_attention_2"}),
    "plain loop": question(1, {"tuning": "full"}, stack={"framework": "torch"}),
    "ddp, 2 nodes": question(4, {"tuning": "full", "methods": "ddp"}, nodes=2),
    "zero3, offloaded": question(8, {"tuning": "full", "methods": "zero3", "offload": "optimizer+params"}),
    "zero3, lora": question(8, {"tuning": "lora", "methods": "zero3"}),
    "fsdp, lora": question(8, {"tuning": "lora", "methods": "fsdp"}),
    "hsdp2": question(8, {"tuning": "full", "methods": "hsdp2", "shard_group": 4}),
    "tp+fsdp2": question(8, {"tuning": "full", "methods": "tp+fsdp2", "tensor_parallel": 2}),
    "pp": question(4, {"tuning": "full", "methods": "pp", "pipeline_parallel": 4, "micro_batch_size": 1, "gradient_accumulation_steps": 4}),
    "llmem_adp": question(4, {"tuning": "full", "methods": "llmem_adp"}),
    "generate": generation(1),
    "vllm": generation(2, engine="vllm"),
}

WHOLE = ("full", "ddp, 2 nodes", "generate")

# Of what is neither a flag nor a list of words: values that do not mean the same.
VALUES = {
    "cluster.gpus_per_node": [2, 4], "cluster.nodes": [2, 4], "cluster.free_memory_bytes": [8 << 30, 20 << 30],
    "cluster.host_memory_bytes_per_node": [1 << 26, 1 << 40],
    "cluster.host_memory_gbs": [50, 400], "cluster.intra_node": ["pcie3", "nvlink4"], "cluster.inter_node": ["ib-hdr", "ethernet-10g"],
    "cluster.intra_node_gbs": [10, 100], "cluster.inter_node_gbs": [1, 50], "llmem.base_bytes": [300 << 20, 900 << 20], "margin": [0, 0.999],
    "training.seq_len": [128, 192], "training.micro_batch_size": [1, 3], "training.global_batch_size": [24, 48], "training.gradient_accumulation_steps": [2, 3],
    "training.tensor_parallel": [2, 4], "training.pipeline_parallel": [2, 4], "training.context_parallel": [2, 4], "training.expert_parallel": [2, 4],
    "training.methods": ["single", "ddp", "zero0", "zero1", "zero2", "zero3", "fsdp", "fsdp_grad_op", "hsdp", "fsdp2", "hsdp2", "tp", "pp", "tp+cp", "ep+ddp",
                         "llmem_cdp", "llmem_tp"],
    "training.optim_args": ["rank=64", "weight_decay=0.1"], "training.max_grad_norm": [0, 2], "training.shard_group": [2, 4],
    "training.lora.rank": [4, 16], "training.lora.alpha": [1, 64], "training.lora.dropout": [0.0, 0.1], "training.lora.target_modules": ["all-linear", ["q_proj"]],
    "training.lora.target_parameters": [["nothing.here"], []], "training.lora.modules_to_save": [["lm_head"], []],
    "training.lora.layers_to_transform": [[0], [0, 1]], "training.lora.layers_pattern": [["layers"], ["h"]], "training.lora.exclude_modules": [["v_proj"], []],
    "training.lora.rank_pattern": [{"q_proj": 2}, {}], "training.lora.alpha_pattern": [{"q_proj": 2}, {}],
    "training.freeze": [["embed_tokens"], ["layers.0"]], "training.trainable": [["layers.0"], ["layers.1"]], "training.freeze_ratio": [0.3, 0.6],
    "training.buckets.reuse_elems": [0, 1000000000], "training.lengths": [[64], [32, 96]], "training.images": [{"per_sequence": 1}, {"per_sequence": 2}],
    "training.images.per_sequence": [1, 2], "training.images.height": [8, 16], "training.images.width": [8, 16], "training.expert_skew": [1.5, 2],
    "training.buckets.reduce_elems": [20000, 50000000], "training.buckets.allgather_elems": [20000, 50000000], "training.buckets.prefetch_elems": [0, 50000000],
    "training.buckets.max_live_elems": [0, 1000000000], "training.buckets.sub_group_elems": [500, 1000000000],
    "training.buckets.persistence_elems": [0, 1000000000], "training.buckets.ddp_bytes": [100000, 26214400],
    "training.eval_batch_size": [1, 16], "training.eval_batches": [2, 9], "training.eval_accumulation_steps": [1, 3],
    "inference.prompt_tokens": [32, 96], "inference.new_tokens": [48, 96], "inference.batch_size": [1, 4], "inference.tensor_parallel": [1, 2],
    "inference.gpu_memory_utilization": [0.5, 0.8], "inference.max_model_len": [512, 1024], "inference.max_num_batched_tokens": [512, 4096],
    "inference.temperature": [0.5, 2], "inference.top_k": [10, 50], "inference.top_p": [0.5, 0.9], "inference.num_return_sequences": [2, 3],
    "inference.pipeline_parallel": [2, 4], "inference.data_parallel": [2, 4], "inference.cpu_offload_gb": [1, 4],
    "inference.max_memory": [{"0": "8GiB"}, {"0": "4GiB"}],
    "inference.num_beams": [2, 4], "inference.prefill_chunk_size": [16, 32], "inference.assistant_model": ["a/b", "a/c"], "inference.num_speculative_tokens": [2, 4],
    "stack.torch": ["2.2", "2.15"], "stack.transformers": ["4.40", "5.23"], "stack.peft": ["0.10", "0.21"], "stack.accelerate": ["0.28", "1.15"],
    "stack.bitsandbytes": ["0.43", "0.50"], "stack.deepspeed": ["0.14", "0.19"], "stack.flash_attn": ["2.5", "2.8"], "stack.liger": ["0.3", "0.8"],
    "stack.trl": ["0.8", "1.16"], "stack.cuda": ["11.8", "12.4"], "stack.causal_conv1d": ["1.4", "1.6"], "stack.mamba_ssm": ["2.2", "2.3"], "stack.fla": ["0.4", "0.5"],
}
# Words that a figure of these small questions does not tell apart, and why that is no silence.
SAME = {
    "training.stage": {"pretrain"},  # trained as sft is
    "training.quantization": {"fp4"},  # stored as nf4 is
    "training.tuning": {"lora"},  # beside a quantization it is qlora
    "training.fsdp.wrap": {"titan"},  # without resharding of the tail, as accelerate wraps
    "training.precision": {"bf16-autocast", "bf16-mixed"},  # under FSDP and DeepSpeed the same
    "training.reference": {"none"},
    "stack.framework": {"colossalai"},  # what llmem_* run on anyway
    "training.optimizer": {"adamw_torch"},  # under DeepSpeed its own AdamW
    "training.buckets.reuse_elems": {"0"},  # of what is not gathered again before the step, or stands whole
    "inference.compute_dtype": {"bf16"},  # as loaded
    "inference.kv_cache": {"bf16"},  # what is computed in
    "inference.device_map": {"cuda"},  # on one GPU
    "objective": {"fewest_gpus", "least_memory"},  # one candidate is as good
    "llmem.variant": {"paper"},
}
# What the question itself needs, what is itself a config, and which model it is.
NOT_ASKED = {"model", "revision", "config", "modeling", "program", "workload", "cluster.name", "cluster.gpu", "deepspeed_config", "accelerate_config",
             "training_arguments", "framework_config.framework", "framework_config.text"}


def schemas(text):
    """components/schemas of the contract, as a tree of names whose text is under "": as much of YAML as the contract has."""
    tree = {"": ""}
    above = [(-1, tree)]
    for line in text[text.index("\n  schemas:\n"):].split("\n")[2:]:
        indent = len(line) - len(line.lstrip())
        found = re.match(r" +([A-Za-z_][\w.+-]*):(?: (.*)|)$", line)
        while line.strip() and above[-1][0] >= indent:
            above.pop()
        if not found:
            above[-1][1][""] += line.strip() + " "
            continue
        node = {"": (found[2] or "") + " "}
        above[-1][1][found[1]] = node
        above.append((indent, node))
    return tree


class Contract:
    def __init__(self, text):
        self.schemas = schemas(text)

    def followed(self, node):
        """The node that `$ref` means, where it is nothing but that."""
        found = re.match(r"\{\$ref: '#/components/schemas/(\w+)'\} $", node[""])
        return self.followed(self.schemas[found[1]]) if found else node

    def members(self, node, path=()):
        node = self.followed(node)
        if "properties" not in node:
            yield ".".join(path), node
        for name, inner in node.get("properties", {}).items():
            if name:
                yield from self.members(inner, path + (name,))

    def text(self, node):
        whole = node[""] + " ".join("%s: %s" % (name, self.text(inner)) for name, inner in node.items() if name)
        return re.sub(r"\{?\$ref: '#/components/schemas/(\w+)'\}?", lambda m: self.text(self.schemas[m[1]]), whole)

    def values(self, node):
        text = re.sub(r"description: ('[^']*'|\"[^\"]*\"|[^,}]*)", "", self.text(node))
        listed = [w.strip().strip('"') for words in re.findall(r"enum: \[([^\]]*)\]", text) for w in words.split(",")]
        flags = [True, False] if "type: boolean" in text else []
        return [[w] for w in listed] if text.startswith("{type: array") else flags + listed


def put(body, dotted, value):
    body = json.loads(json.dumps(body))
    at = body
    *above, last = dotted.split(".")
    for name in above:
        at = at.setdefault(name, {})
    at[last] = value
    return body


def got(body, dotted):
    for name in dotted.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


def figures(answer):
    if "figures" not in answer:
        candidates = [{k: v for k, v in c.items() if k != "launch"} for c in answer["candidates"]]
        answer["figures"] = json.dumps([answer["fits"], answer["method"], answer.get("llmem"), candidates], sort_keys=True)
    return answer["figures"]


def is_named(answer, dotted):
    said = "\n".join(answer["assumptions"] + answer["warnings"])
    pointer = "/" + dotted.replace(".", "/")
    names = "|".join(re.escape(name) for name in (dotted, pointer[1:], dotted.split(".")[-1]))
    return "%s says nothing here" % dotted.split(".")[0] in said or re.search(r"(?m)(^|[ /.(])(%s)\b" % names, said) is not None or \
        any(p.startswith(pointer) for p in answer["not_in_figures"] + answer["ignored"])


class Silent(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon("--offline")
        cls.contract = Contract(cls.d.ask("GET", "/openapi.yaml")[2].decode())
        cls.known = {}
        cls.pool = concurrent.futures.ThreadPoolExecutor(4)

    @classmethod
    def tearDownClass(cls):
        cls.d.stop()

    def ask(self, body):
        text = json.dumps(body)
        if text not in self.known:
            status, _, answer = self.d.ask("POST", "/estimate?top=3", text)
            self.known[text] = status, json.loads(answer)
        return self.known[text]

    def judge(self, asked, dotted, value):
        """"refused", "named", "moves", "default", or "" where nothing says what became of it."""
        _, plain = self.ask(asked)
        status, answer = self.ask(put(asked, dotted, value))
        if status != 200:
            self.assertEqual(status, 422, (dotted, value, answer))
            self.assertGreater(len(answer["detail"]), 20, (dotted, value, answer))
            return "refused"
        if figures(answer) != figures(plain):
            return "moves"
        if is_named(answer, dotted) or is_named(plain, dotted):
            return "named"
        resolved = got(plain["resolved"], dotted)
        return "default" if value in (resolved, [resolved]) or (isinstance(resolved, list) and (value in resolved or value == resolved)) else ""

    def test_every_member(self):
        """Of two values that are not the default one at least is not taken in silence, whatever is asked beside them."""
        members = [(m, n) for m, n in self.contract.members(self.contract.schemas["EstimateRequest"]) if m not in NOT_ASKED]
        self.assertGreater(len(members), 100)
        heard = collections.Counter()
        silent = []
        for dotted, node in members:
            values = VALUES.get(dotted) or self.contract.values(node)
            self.assertGreaterEqual(len(values), 2, "%s: which two values does it have? say so in VALUES" % dotted)
            for name, asked in ASKED.items():
                if "workload" in asked and dotted.startswith("training."):
                    continue  # one warning speaks of all of them
                tried = values if name in WHOLE else values[:3]  # all words of a long list beside one GPU and beside several
                judged = list(zip(tried, self.pool.map(lambda v: self.judge(asked, dotted, v), tried)))
                heard.update((dotted, j) for _, j in judged)
                words = [v for v, j in judged if not j and not (SAME.get(dotted, set()) & {str(v)})]
                one_sided = len(values) == 2 and any(j not in ("", "default") for _, j in judged)  # the other value is what happens anyway
                if words and not one_sided and not (set(map(type, values)) == {bool} and len(words) == 1):
                    silent.append("%s %s under %s" % (dotted, words, name))
        self.assertEqual(len(silent), 0, "\n".join(silent))
        for dotted, _ in members:  # a member that moves nothing anywhere is named wherever it is asked
            self.assertTrue(heard[dotted, "moves"] + heard[dotted, "refused"] + heard[dotted, "named"], dotted)

    def test_every_name_of_other_tools(self):
        """Fields of TrainingArguments, SFTConfig, LLaMA-Factory and axolotl as members of `training`: what has no model, what is harmless, what is ours."""
        names = {}
        for path in glob.glob("tests/data/members/*.txt"):
            if not re.search(r"/(transformers|trl|llama_factory|axolotl)_", path):
                continue
            for line in open(path, encoding="utf-8"):
                name, value = line.split(None, 1)
                if not line.startswith("#"):
                    names.setdefault(name, value.strip())
        self.assertGreater(len(names), 600)
        quick = dict(question(1), config={"model_type": "xlnet"})
        read = [name for name in sorted(names) if self.ask(put(quick, "training." + name, 7))[0] == 200]
        self.assertGreater(len(read), 300)
        plain = {k: v for k, v in self.ask(question(1, {"tuning": "full"}))[1].items() if k != "resolved"}
        named = set()
        for i in range(0, len(read), 8):
            body = question(1, {"tuning": "full"})
            body["training"].update((name, 7) for name in read[i:i + 8])
            status, answer = self.ask(body)
            named.update(name for name in read[i:i + 8] if status == 200 and is_named(answer, "training." + name))
        for name in sorted(set(read) - named):  # another spelling of ours
            status, alone = self.ask(put(question(1, {"tuning": "full"}), "training." + name, 7))
            self.assertTrue(status == 422 or {k: v for k, v in alone.items() if k != "resolved"} != plain, name)


main(unittest)
