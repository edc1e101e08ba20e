"""clients.py URL: see clients.sh."""
import json
import sys
import urllib.request

from llmemd_client import Client
from llmemd_client.api.default import estimate, estimate_by_query, list_gpus, list_methods, list_optimizers
from llmemd_client.models import Candidate, EstimateAnswer, EstimateRequest, MethodRow, Problem, WordRow

import llmemd_types as types

url = sys.argv[1]
client = Client(url)
BODIES = [
    {"model": "Qwen/Qwen2.5-7B", "cluster": {"gpu": "RTX 4090"}},
    {"model": "Qwen/Qwen2.5-7B", "cluster": {"gpu": "RTX 4090"}, "training": {"tuning": "full"}},
    {"model": "facebook/opt-1.3b", "cluster": {"name": "mahti", "nodes": 2}, "training": {"seq_len": 512, "global_batch_size": 64}},
    {"model": "gpt2", "cluster": {"gpu": "T4"}, "training": {"optimizer": "adafactor"}},
    {"model": "gpt2", "cluster": {"gpu": "T4"}, "training": {"methods": ["llmem_cdp", "zero3"]}},
]


def post(body, query=""):
    request = urllib.request.Request(url + "/estimate" + query, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as r:
        return json.load(r)


for body in BODIES:  # the whole client: what is asked is typed, and so is what comes back
    answer = estimate.sync(client=client, body=EstimateRequest.from_dict(body))
    plain = post(body)
    assert isinstance(answer, EstimateAnswer), answer
    assert answer.summary == plain["summary"] and answer.to_dict() == plain, body
    assert all(isinstance(c, Candidate) for c in answer.candidates)
    if plain["recommendation"]:
        assert answer.recommendation.memory.peak_allocated_bytes == plain["recommendation"]["memory"]["peak_allocated_bytes"]
    types.EstimateAnswer.model_validate(plain)  # the other generator's types take the same
    types.EstimateAnswer.model_validate(post(body, "?timeline=true&launch=all"))

answer = estimate_by_query.sync(client=client, model="gpt2", gpu="T4", seq_len=512)
assert isinstance(answer, EstimateAnswer) and answer.fits
refused = estimate_by_query.sync(client=client, model="gpt2", gpu="nothing")
assert isinstance(refused, Problem) and refused.status == 422 and refused.pointer == "/cluster/gpu", refused

methods, optimizers = list_methods.sync(client=client), list_optimizers.sync(client=client)
assert all(isinstance(m, MethodRow) for m in methods.methods) and {"zero3", "fsdp2"} <= {m.name for m in methods.methods}
assert all(isinstance(o, WordRow) for o in optimizers.optimizers) and "adamw_torch_fused" in {o.name for o in optimizers.optimizers}
assert isinstance(methods.methods[0].part.value, str) and isinstance(methods.tuning[0], WordRow)
assert any(g.name == "RTX 4090" for g in list_gpus.sync(client=client).gpus)
print("clients of two generators: %d answers typed" % len(BODIES))
