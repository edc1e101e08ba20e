#!/usr/bin/env python3
"""Writes first inputs for each fuzz target, made of tests/data, below DIRECTORY. seed.py DIRECTORY

What fuzzing has found since then is kept in tests/fuzz/corpus (tests/fuzz/merge); this is how it began, and how a new target's may begin."""
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import urllib.parse

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DATA = os.path.join(ROOT, "tests", "data")
TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}


def lines(*path):
    with open(os.path.join(DATA, *path)) as f:
        return [line.rstrip("\n") for line in f]


def configs():
    folder = os.path.join(ROOT, "core", "catalog", "data", "configs")
    return [json.load(open(os.path.join(folder, n))) for n in sorted(os.listdir(folder))]


def draw():
    loader = importlib.machinery.SourceFileLoader("answers", os.path.join(ROOT, "tools", "answers"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("answers", loader))
    loader.exec_module(module)
    r = random.Random(7)
    return [module.draw(r, ["gpt2", "facebook/opt-125m", "Qwen/Qwen2-0.5B", "EleutherAI/pythia-160m"]) for _ in range(120)]


def request():
    for r in draw():
        yield json.dumps(r)
    for line in lines("accuracy", "cases.jsonl")[::40] + lines("accuracy", "dist.jsonl")[::20]:
        yield json.loads(line).get("body", "{}")


def query():
    for r in draw():
        flat = [("model", r["model"])] + [(k, v) for part in ("cluster", "training", "stack") for k, v in r.get(part, {}).items()]
        yield "&".join("%s=%s" % (k, urllib.parse.quote(",".join(map(str, v)) if isinstance(v, list) else str(v))) for k, v in flat)


def config():
    for c in configs():
        yield json.dumps(c)
    for line in lines("config", "arch_cases.jsonl"):
        yield json.dumps(json.loads(line)["config"])


def theirs():
    def value(text):
        return "null" if text == "-" else text
    for name in sorted(os.listdir(os.path.join(DATA, "members"))):
        rows = [line.split(" ", 1) for line in lines("members", name) if line and line[0] != "#"]
        letter = "a" if name.startswith("accel") else "d" if name.startswith("deep") else "l" if name.startswith("peft") else "t"
        for i in range(0, len(rows), 12):
            part = rows[i:i + 12]
            yield letter + "{" + ",".join('"%s":%s' % (k, value(v)) for k, v in part) + "}"
            if letter in "at":
                yield letter + "".join("%s: %s\n" % (k, value(v)) for k, v in part)
    yield "aa: 1\n"
    yield ("acompute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
           "  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_version: 2\nmixed_precision: 'bf16'\nnum_machines: 1\nnum_processes: 8\n")
    yield 'd{"zero_optimization":{"stage":3,"offload_optimizer":{"device":"cpu"},"stage3_param_persistence_threshold":"auto"},"bf16":{"enabled":true},"train_micro_batch_size_per_gpu":"auto"}'


def pattern():
    for line in lines("pattern", "cases.txt")[::37]:
        _, name, text = line.split("\t", 2)
        yield text + "\n" + name


def head():
    yield "Host: localhost:8080\r\nContent-Type: application/json\r\nContent-Length: 12\r\nX-HF-Token: hf_abc\r\nX-Request-Id: a-b.c\r\n"
    yield "Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"
    yield "Host: [::1]:80\r\nIf-None-Match: W/\"a\", \"0123456789abcdef0123456789abcdef\"\r\nX-Forwarded-For: 1.2.3.4, 10.0.0.9\r\nX-HF-Tokenhf_a:\r\n"


def hub():
    yield ("hHTTP/1.1 307 Temporary Redirect\r\nLocation: /a/b/resolve/x?y=1\r\nX-Repo-Commit: %s\r\n\r\nHTTP/1.1 200 OK\r\nETag: W/\"abc\"\r\n"
           "X-Linked-Etag: \"def\"\r\nRateLimit: \"api\";r=499;t=123\r\nContent-Type: application/json\r\nRetry-After: 5\r\n\r\n{}" % ("0123456789" * 4))
    yield "hHTTP/1.1 401 Unauthorized\r\nX-Error-Code: GatedRepo\r\nX-Error-Message: Invalid credentials in Authorization header\r\nX-Request-Id: r\r\n\r\n<html>"
    yield 'f{"sha":"%s","gated":false,"private":false,"safetensors":{"parameters":{"BF16":123,"I64":4},"total":127}}' % ("0123456789" * 4)
    yield 'a{"siblings":[{"rfilename":"adapter_config.json"},{"rfilename":"x.gguf"}],"library_name":"peft","cardData":{"base_model":["meta-llama/Llama-3.1-8B"]}}'
    for c in configs()[::20]:
        yield "c" + json.dumps(c)
    text = json.dumps(TINY)
    yield "dllmemd config 1\norg/model\nmain\n-\n%s\nabc\n1700000000\n0\n1\n0\n%d\n%s\n%s" % ("0123456789" * 4, len(text), hashlib.sha256(text.encode()).hexdigest(), text)
    yield "nmeta-llama/Llama-3.1-8B\nrefs/pr/4\n127.0.0.1\nhf_abc\n../x\n[::1]"


def estimate():
    for r in draw()[::4]:
        r = dict(r, config=dict(TINY))
        r.pop("model")
        yield "POST /estimate\n" + json.dumps(r)
    for r in draw()[::12]:
        yield "POST /estimate?top=3\n" + json.dumps(dict(r, training=dict(r["training"], methods="single", micro_batch_size=1)))
    q = {"config": TINY, "cluster": {"gpu": "A100-80GB", "gpus_per_node": 4}, "training": {"seq_len": 64}}
    yield "POST /estimate/batch\n" + json.dumps({"requests": [q, {}, dict(q, training={"seq_len": 32, "methods": "fsdp2"})]})
    yield "POST /models\n" + json.dumps({"config": TINY, "lora": {"rank": 4}, "dtype": "bf16"})
    for path in ("/models", "/models/gpt2", "/gpus", "/clusters", "/methods", "/healthz", "/", "/nothing", "/estimate?model=gpt2&gpu=T4&methods=single&micro_batch_size=1&seq_len=64"):
        yield "GET " + path + "\n"


for target in (request, query, config, theirs, pattern, head, hub, estimate):
    folder = os.path.join(sys.argv[1], target.__name__)
    os.makedirs(folder, exist_ok=True)
    for text in target():
        data = text.encode()
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), "wb") as f:
            f.write(data)
