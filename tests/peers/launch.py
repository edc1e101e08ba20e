"""launch.py URL: what an answer says to start a job is what accelerate, DeepSpeed, transformers and the shell understand by it, for every method that
has figures; and two processes on CPUs make a step with it."""
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import warnings
from unittest import mock

import torch
import transformers
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DeepSpeedPlugin, FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from deepspeed.runtime.config import DeepSpeedConfig
from transformers import HfArgumentParser, TrainingArguments

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
HERE = os.path.dirname(os.path.abspath(__file__))
CPU = not torch.cuda.is_available()
METHODS = ["single", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp_grad_op", "fsdp_no_shard", "hsdp", "fsdp2", "fsdp2_noreshard", "hsdp2", "tp",
           "tp+fsdp2", "pp"]
DEGREES = {"tp": {"tensor_parallel": 2}, "tp+fsdp2": {"tensor_parallel": 2}, "pp": {"pipeline_parallel": 2}, "hsdp": {"shard_group": 4},
           "hsdp2": {"shard_group": 2}}
TINY = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}


def ask(cluster, training, **more):
    body = json.dumps(dict({"cluster": cluster, "training": training}, **more)).encode()
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/estimate", body), timeout=120) as r:
        return json.load(r)["recommendation"]


def write_files(launch, where):
    """As `files` says: the texts of an answer as the files that its command names."""
    for name, member in launch["files"].items():
        value = launch[member]
        with open(os.path.join(where, name), "w") as f:
            f.write(value if isinstance(value, str) else json.dumps(value))


def words_of(launch, **variables):
    text = launch["command"].replace("\\\n", " ")
    for name, value in variables.items():
        text = text.replace("$" + name, value)
    return shlex.split(text)


def script_flags(words):
    return words[words.index("train.py") + 1:]


@dataclasses.dataclass
class ModelArguments:
    """What the scripts of transformers and trl call the model."""
    model_name_or_path: str = None
    model_revision: str = "main"


def check_arguments(launch, world):
    """The flags of the command and the object are the same TrainingArguments, and the real class takes them."""
    cpu = {"use_cpu": True} if CPU else {}
    flags = script_flags(words_of(launch)) + (["--use_cpu", "true"] if CPU else [])
    with mock.patch.object(TrainingArguments, "world_size", property(lambda self: world)):
        _, told = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses(flags)
        given = TrainingArguments(**launch["training_arguments"], **cpu)
    a, b = told.to_dict(), given.to_dict()
    differing = {k: (a[k], b[k]) for k in a if a[k] != b[k] and k not in ("logging_dir", "run_name")}
    assert not differing, differing
    for name, value in launch["training_arguments"].items():
        if not isinstance(value, dict) and name not in ("fsdp",):
            have = getattr(told, name)
            assert getattr(have, "value", have) == value, (name, value, have)
    return told


def launched_env(launch):
    """The environment that `accelerate launch` of this command hands to its processes."""
    words = words_of(launch, NODE_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29876")
    args = launch_command_parser().parse_args(words[2:])
    args.nondefault = {w[2:].replace("-", "_") for w in words[2:words.index("train.py")] if w.startswith("--")}
    args, defaults, from_file = _validate_launch_command(args)
    if args.use_deepspeed:
        fields = list(defaults.deepspeed_config) + (["mixed_precision"] if from_file else [])
        args.deepspeed_fields_from_accelerate_config = ",".join(fields)
        return args, prepare_deepspeed_cmd_env(args)[1]
    return args, prepare_multi_gpu_env(args)


def check_deepspeed(launch, recommendation, env):
    with mock.patch.dict(os.environ, env):
        plugin = DeepSpeedPlugin()
    there = mock.Mock(get_rank=lambda: 0, get_world_size=lambda: recommendation["data_parallel"])
    with mock.patch("deepspeed.runtime.config.dist", there):
        ds = DeepSpeedConfig(json.loads(json.dumps(launch["deepspeed_config"])))
    asked = launch["deepspeed_config"]["zero_optimization"]
    assert plugin.zero_stage == asked["stage"] == int(ds.zero_config.stage) == int(recommendation["method"][4:])
    assert ds.train_micro_batch_size_per_gpu == recommendation["micro_batch_size"], ds.train_micro_batch_size_per_gpu
    assert ds.gradient_accumulation_steps == recommendation["gradient_accumulation_steps"]
    assert ds.train_batch_size == recommendation["global_batch_size"]
    fields = type(ds.zero_config).model_fields
    names = {f.alias or n: n for n, f in fields.items()}
    for name, value in asked.items():
        if not isinstance(value, dict):
            assert getattr(ds.zero_config, names.get(name, name)) == value, name
    for part in ("offload_optimizer", "offload_param"):
        real = getattr(ds.zero_config, part)
        assert (part in asked) == bool(real and getattr(real.device, "value", real.device) == "cpu"), part


def check_fsdp(launch, method, env):
    if CPU:  # the version 1 plugin asks for a device to materialise on
        env = dict(env, FSDP_SYNC_MODULE_STATES="false", FSDP_CPU_RAM_EFFICIENT_LOADING="false")
    with mock.patch.dict(os.environ, env):
        plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == (2 if "fsdp2" in method or method == "hsdp2" else 1)
    if plugin.fsdp_version == 2:
        assert plugin.reshard_after_forward is (method != "fsdp2_noreshard")
    else:
        strategy = {"fsdp": "FULL_SHARD", "fsdp_grad_op": "SHARD_GRAD_OP", "fsdp_no_shard": "NO_SHARD", "hsdp": "HYBRID_SHARD"}[method]
        assert plugin.sharding_strategy.name == strategy, plugin.sharding_strategy
        said = yaml.safe_load(launch["accelerate_config"])["fsdp_config"]
        assert plugin.use_orig_params is said["fsdp_use_orig_params"] and plugin.forward_prefetch is said["fsdp_forward_prefetch"]
        assert plugin.backward_prefetch.name == said["fsdp_backward_prefetch"]
    assert plugin.auto_wrap_policy.__name__ == "transformer_auto_wrap_policy"


def check_mesh(launch, recommendation, env, world):
    with mock.patch.dict(os.environ, env):
        mesh = ParallelismConfig()
    assert mesh.total_size == world, mesh
    assert mesh.tp_size == recommendation["tensor_parallel"]
    if recommendation["method"] == "hsdp2":
        assert mesh.dp_shard_size == DEGREES["hsdp2"]["shard_group"], mesh


def check_script(launch, where):
    """The sbatch script in a shell whose srun is the first node: it leaves the same files and starts the same command."""
    stubs = os.path.join(where, "stubs")
    os.mkdir(stubs)
    for name, text in {"scontrol": "echo first", "srun": 'SLURM_NODEID=0 exec "$@"',
                       **dict.fromkeys(("accelerate", "torchrun", "python"), 'printf "%s\\n" "$(basename "$0")" "$@"')}.items():
        path = os.path.join(stubs, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)
    script = "module() { :; }\n" + launch["slurm"]
    run = subprocess.run(["bash", "-c", script], cwd=where, capture_output=True, text=True, timeout=20, check=True,
                         env={"PATH": stubs + ":" + os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "x[1-2]", "SLURM_CPUS_PER_TASK": "1"})
    meant = words_of(launch, NODE_RANK="0", MASTER_ADDR="first", MASTER_PORT="20007")
    assert run.stdout.split("\n")[:-1] == meant, (run.stdout, meant)
    for name, member in launch["files"].items():
        with open(os.path.join(where, name)) as f:
            text = f.read()
        assert (text == launch[member]) if isinstance(launch[member], str) else (json.loads(text) == launch[member]), name


def check(recommendation):
    launch, method = recommendation["launch"], recommendation["method"]
    world = recommendation["data_parallel"] * recommendation["tensor_parallel"] * recommendation["pipeline_parallel"]
    with tempfile.TemporaryDirectory() as where:
        check_script(launch, where)
        write_files(launch, where)
        back = os.getcwd()
        os.chdir(where)
        try:
            if "training_arguments" in launch:
                check_arguments(launch, world)
            if "accelerate_config" in launch and launch["command"].startswith("accelerate"):
                config = load_config_from_file("accelerate.yaml")
                assert config.num_processes == world, config
                args, env = launched_env(launch)
                assert int(args.nproc_per_node) * int(getattr(args, "nnodes", None) or 1) == world
                if "deepspeed_config" in launch:
                    check_deepspeed(launch, recommendation, env)
                if env.get("ACCELERATE_USE_FSDP") == "true":
                    check_fsdp(launch, method, env)
                if env.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
                    check_mesh(launch, recommendation, env, world)
        finally:
            os.chdir(back)


# What has no accelerator steps with gloo: the printed command, and what a test of one step needs beside it.
ON_CPU = ["--use_cpu", "true", "--max_steps", "1", "--report_to", "none", "--save_strategy", "no", "--disable_tqdm", "true"]


def run(launch, says, script="train.py"):
    """With a script of ours, or with the one that the answer brings (None), of a model without weights."""
    words = words_of(launch) + (ON_CPU if script in ("train.py", None) else [])
    bin_ = os.path.dirname(sys.executable)
    env = dict(os.environ, **launch["env"], CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", PATH=bin_ + ":" + os.environ["PATH"])
    with tempfile.TemporaryDirectory() as where:
        write_files(launch, where)
        if script:
            shutil.copy(os.path.join(HERE, script), os.path.join(where, "train.py"))
        with open(os.path.join(where, "config.json"), "w") as f:
            json.dump(TINY, f)
        p = subprocess.run(words, cwd=where, env=env, capture_output=True, text=True, timeout=900)  # DeepSpeed compiles once
    assert p.returncode == 0 and says in p.stdout, (words, p.stdout[-2000:], p.stderr[-3000:])
    print("  " + next(line for line in p.stdout.split("\n") if says in line))


if __name__ == "__main__":
    having = []
    for method in METHODS:
        training = dict({"methods": method, "seq_len": 64, "global_batch_size": 32, "tuning": "full", "gradient_checkpointing": True}, **DEGREES.get(method, {}))
        pair = method in ("tp", "pp")  # what lies beside their groups is not modelled
        cluster = dict({"name": "mahti", "nodes": 1 if method == "single" or pair else 2}, **({"gpus_per_node": 2} if pair else {}))
        candidates = [ask(cluster, training, config=TINY)]
        if method in ("zero2", "zero3"):
            offload = "optimizer" if method == "zero2" else "optimizer+params"
            candidates.append(ask({"name": "mahti", "nodes": 2}, dict(training, offload=offload), config=TINY))
        for r in filter(None, candidates):
            check(r)
            having.append(r["method"])
    print("launch: loaded by accelerate, transformers, deepspeed:", " ".join(having))
    runs = [("ddp", "transformers", "fp32", "DistributedDataParallel"), ("fsdp2", "transformers", "fp32", "FSDP"),
            ("ddp", "torch", "fp32", "DistributedDataParallel")]
    if shutil.which("g++"):  # for its communication in shared memory
        runs.append(("zero2", "transformers", "bf16-mixed", "DeepSpeedEngine"))
    for method, tuning, reentrant in (("ddp", "full", False), ("ddp", "lora", True), ("single", "lora", False)):  # the script that comes with the files
        training = {"methods": method, "seq_len": 16, "micro_batch_size": 2, "tuning": tuning, "gradient_checkpointing": reentrant, "precision": "fp32",
                    "checkpoint_reentrant": reentrant}
        r = ask({"gpu": "A100-40GB", "gpus_per_node": 1 if method == "single" else 2}, training, config=TINY)
        run(r["launch"], "steps 1, loss ", None)
    for method, framework, precision, wrapper in runs:
        training = {"methods": method, "seq_len": 16, "micro_batch_size": 2, "tuning": "full", "gradient_checkpointing": False, "precision": precision}
        r = ask({"gpu": "A100-40GB", "gpus_per_node": 2}, training, config=TINY, stack={"framework": framework})
        if r:
            run(r["launch"], "stepped 1 of 2 " + wrapper, "train.py" if framework == "transformers" else "plain.py")
