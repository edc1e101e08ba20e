"""parsers.py URL: every field that the peers' own parsers have is known here; files that they refuse are refused, others are taken."""
import dataclasses
import json
import sys
import tempfile
import urllib.error
import urllib.request

import yaml
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig, DeepSpeedZeroOffloadParamConfig
from transformers import TrainingArguments

QUESTION = {"model": "facebook/opt-125m", "cluster": {"gpu": "A100-40GB"}, "training": {"seq_len": 64}}


def ask(**more):
    body = json.dumps(dict(QUESTION, **more)).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/estimate", body), timeout=120) as r:
            return r.status, json.load(r)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def unknown(answer):
    return answer[1].get("ignored") if answer[0] == 200 else [answer[1]["detail"]]


def fields_of(model):
    """Of a pydantic model, 2 or 1."""
    return getattr(model, "model_fields", None) or model.__fields__


# Every field, left at null: the name alone counts.
fields = {f.name: None for f in dataclasses.fields(TrainingArguments) if not f.name.startswith("_")}
assert not unknown(ask(training_arguments=fields)), unknown(ask(training_arguments=fields))
zero = {n: None for k, f in fields_of(DeepSpeedZeroConfig).items() for n in (k, f.alias) if n}
zero["offload_optimizer"] = dict.fromkeys(fields_of(DeepSpeedZeroOffloadOptimizerConfig))
zero["offload_param"] = dict.fromkeys(fields_of(DeepSpeedZeroOffloadParamConfig))
assert not unknown(ask(deepspeed_config={"zero_optimization": zero})), unknown(ask(deepspeed_config={"zero_optimization": zero}))
cluster = {f.name: None for f in dataclasses.fields(ClusterConfig)}
taken = ask(accelerate_config=dict(cluster, distributed_type="NO"))
assert taken[0] == 200, taken[1]

FILES = [
    "distributed_type: NO\n",
    "distributed_type: MULTI_GPU\nnum_processes: 8\nnum_machines: 2\nmixed_precision: bf16\n",
    "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: FSDP\ndowncast_bf16: 'no'\nenable_cpu_affinity: false\nfsdp_config:\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_cpu_ram_efficient_loading: true\n"
    "  fsdp_forward_prefetch: false\n  fsdp_offload_params: false\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
    "  fsdp_sync_module_states: true\n  fsdp_use_orig_params: true\nmachine_rank: 0\nmain_training_function: main\nmixed_precision: bf16\n"
    "num_machines: 1\nnum_processes: 8\nrdzv_backend: static\nsame_network: true\ntpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: false\n",
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 4\n"
    "  offload_optimizer_device: cpu\n  offload_param_device: none\n  zero3_init_flag: true\n  zero3_save_16bit_model: true\nnum_processes: 8\n",
    "mixed_precision: bf16\n",
    "distributed_type: NO\nfsdp_origin_params: true\n",
    "distributed_type: ELSEWHERE\n",
    "compute_environment: MULTI_GPU\ndistributed_type: NO\n",
]
for text in FILES:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(text)
        f.flush()
        try:
            load_config_from_file(f.name)
            theirs = 200
        except (ValueError, TypeError, KeyError):
            theirs = 422
    for value in (text, yaml.safe_load(text)):
        ours = ask(accelerate_config=value)
        assert ours[0] == theirs, (text, theirs, ours[0], ours[1].get("detail"))
print("parsers: %d fields known, %d files read alike" % (len(fields) + len(zero) + len(cluster), len(FILES)))
