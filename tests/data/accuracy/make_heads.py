#!/usr/bin/env python3
"""Makes heads.jsonl of this folder: steps of classes with a head of their own (classifiers, masked language models, answers): transformers' own classes on the oracle's loop.

    make_heads.py ORACLE CONFIGS PYTHON [--only TEXT] [--stack NAME] [--sentences FOLDER]
    make_heads.py ORACLE CONFIGS PYTHON --small TYPE,.. [--steps NAME,..] [--stack NAME] [--sentences FOLDER] [--beside PROGRAM]

--small: the steps of STEPS with small models of SMALL; --beside writes no file and prints what PROGRAM (llmemd) answers beside each trace.

FOLDER is an unpacked sentence-transformers 6.2.0 wheel, whose loss and pooling run between the Trainer's loop and the model (cases of embeddings).

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21), with PYTHONPATH as make_hybrids_older.py says for 4.57 and 5.0. A batch holds what the tokenizer of the type hands out.
"""
import argparse
import json
import os
import subprocess
import sys

import make_releases

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")
STACKS = {"current": {"torch": "2.15", "transformers": "5.23", "peft": "0.21"}, "2025": {"torch": "2.7.1", "transformers": "4.53.3", "peft": "0.16"},
          "4.57": {"torch": "2.15", "transformers": "4.57", "peft": "0.21"},
          "5.20": {"torch": "2.15", "transformers": "5.20", "peft": "0.21"}, "5.22": {"torch": "2.15", "transformers": "5.22", "peft": "0.21"},
          "5.0": {"torch": "2.15", "transformers": "5.0", "peft": "0.21"}, "late-2024": {"torch": "2.4.1", "transformers": "4.48.1", "peft": "0.13"}, "2024": {"torch": "2.2.2", "transformers": "4.40.0", "peft": "0.10"}}
AUTO = {"classification": "AutoModelForSequenceClassification", "token_classification": "AutoModelForTokenClassification",
        "question_answering": "AutoModelForQuestionAnswering", "masked_lm": "AutoModelForMaskedLM", "masked_lm_nsp": "AutoModelForPreTraining",
        "embedding": "AutoModel"}
TASK_TYPE = {"classification": "SEQ_CLS", "token_classification": "TOKEN_CLS", "question_answering": "QUESTION_ANS"}
TYPES = ("bert", "electra", "deberta-v2", "ernie", "megatron-bert", "deberta", "nomic_bert", "roformer", "convbert", "mobilebert", "xlnet")  # whose tokenizers hand out token_type_ids
BERT = dict(model_type="bert", vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, max_position_embeddings=512,
            type_vocab_size=2, pad_token_id=0)
ROBERTA = dict(BERT, model_type="roberta", vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1, num_hidden_layers=6)
CAMEMBERT = dict(ROBERTA, model_type="camembert", vocab_size=32005)
XLM = dict(ROBERTA, model_type="xlm-roberta", vocab_size=250002, num_hidden_layers=3)
ELECTRA = dict(BERT, model_type="electra", embedding_size=128, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
DISTIL = dict(model_type="distilbert", vocab_size=30522, dim=768, hidden_dim=3072, n_heads=12, n_layers=6, max_position_embeddings=512, pad_token_id=0)
DEBERTA = dict(model_type="deberta-v2", vocab_size=128100, hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072, max_position_embeddings=512,
               type_vocab_size=0, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p",
               max_relative_positions=-1, position_biased_input=False, pooler_hidden_size=768, pooler_dropout=0, pooler_hidden_act="gelu", layer_norm_eps=1e-7)
DEBERTA_LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["query_proj", "value_proj"]})
GEMMA3 = dict(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"], image_token_index=262144, mm_tokens_per_image=256, torch_dtype="bfloat16",
              text_config=dict(model_type="gemma3_text", vocab_size=262208, hidden_size=1024, intermediate_size=4096, num_hidden_layers=6, num_attention_heads=8,
                               num_key_value_heads=4, head_dim=128, sliding_window=256, query_pre_attn_scalar=128, max_position_embeddings=131072),
              vision_config=dict(model_type="siglip_vision_model", hidden_size=1152, image_size=896, intermediate_size=4304, num_attention_heads=16,
                                 num_hidden_layers=3, patch_size=14, vision_use_head=False))
QWEN2 = dict(model_type="qwen2", vocab_size=151936, hidden_size=896, num_hidden_layers=8, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864,
             max_position_embeddings=32768, tie_word_embeddings=True, rope_theta=1000000.0, pad_token_id=151643)
GPT2 = dict(model_type="gpt2", vocab_size=50257, n_embd=768, n_layer=6, n_head=12, n_positions=1024)
OPT = dict(model_type="opt", vocab_size=50272, hidden_size=768, num_hidden_layers=6, ffn_dim=3072, num_attention_heads=12, max_position_embeddings=2048,
           do_layer_norm_before=True, word_embed_proj_dim=768, pad_token_id=1)
MPT = dict(model_type="mpt", d_model=1024, n_heads=16, n_layers=4, vocab_size=50432, max_seq_len=2048)
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["query", "value"]})
MODERN = dict(model_type="modernbert", vocab_size=50368, hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1152, pad_token_id=50283)

# name, config, rows, tokens of a row, the rest of `training`
CASES = [
    ("bert", BERT, 4, 128, dict(stage="classification", precision="bf16")),
    ("bert-mixed-pad", BERT, 8, 256, dict(stage="classification", precision="bf16-mixed", padded=True)),
    ("bert-ckpt-eager", BERT, 4, 512, dict(stage="classification", precision="fp16-mixed", gradient_checkpointing=True, attention="eager")),
    ("bert-eager-pad", BERT, 4, 256, dict(stage="classification", precision="fp32", attention="eager", padded=True)),
    ("bert-fa2-pad", BERT, 8, 256, dict(stage="classification", precision="bf16", attention="flash_attention_2", padded=True)),
    ("bert-lora", BERT, 8, 128, dict(stage="classification", precision="bf16-mixed", **LORA)),
    ("bert-regression", dict(BERT, num_labels=1), 8, 128, dict(stage="classification", precision="fp32")),
    ("bert-multi", dict(BERT, num_labels=7, problem_type="multi_label_classification"), 8, 128, dict(stage="classification", precision="bf16-mixed")),
    ("bert-mlm", BERT, 8, 128, dict(stage="masked_lm", precision="bf16-mixed")),
    ("bert-mlm-accumulated", BERT, 4, 128, dict(stage="masked_lm", precision="bf16", gradient_accumulation_steps=2)),
    ("bert-mlm-nsp", BERT, 4, 512, dict(stage="masked_lm_nsp", precision="fp16-mixed")),
    ("bert-qa", BERT, 4, 384, dict(stage="question_answering", precision="bf16")),
    ("roberta", ROBERTA, 4, 256, dict(stage="classification", precision="bf16-mixed", padded=True)),
    ("roberta-mlm", ROBERTA, 4, 256, dict(stage="masked_lm", precision="bf16", gradient_checkpointing=True)),
    ("xlm-roberta-lora", dict(XLM, num_labels=5), 8, 128, dict(stage="classification", precision="bf16", **LORA)),
    ("camembert", CAMEMBERT, 4, 256, dict(stage="classification", precision="bf16-mixed", padded=True)),
    ("camembert-mlm", CAMEMBERT, 4, 256, dict(stage="masked_lm", precision="bf16", gradient_checkpointing=True)),
    ("electra", ELECTRA, 8, 128, dict(stage="classification", precision="bf16-mixed")),
    ("electra-mlm", ELECTRA, 8, 256, dict(stage="masked_lm", precision="fp32", padded=True)),
    ("distil", DISTIL, 8, 128, dict(stage="classification", precision="fp16-mixed")),
    ("distil-mlm", DISTIL, 8, 128, dict(stage="masked_lm", precision="bf16", gradient_checkpointing=True)),
    ("distil-qa", DISTIL, 4, 384, dict(stage="question_answering", precision="bf16-mixed", attention="eager")),
    ("deberta", DEBERTA, 4, 128, dict(stage="classification", precision="bf16", attention="eager")),
    ("deberta-mixed-pad", DEBERTA, 8, 256, dict(stage="classification", precision="bf16-mixed", attention="eager", padded=True)),
    ("deberta-ckpt", DEBERTA, 4, 384, dict(stage="classification", precision="fp16-mixed", attention="eager", gradient_checkpointing=True)),
    ("deberta-lora", DEBERTA, 8, 128, dict(stage="classification", precision="bf16-mixed", attention="eager", **DEBERTA_LORA)),
    ("deberta-tokens", dict(DEBERTA, num_labels=9, share_att_key=False), 4, 256, dict(stage="token_classification", precision="fp32", attention="eager")),
    ("deberta-mlm", dict(DEBERTA, position_biased_input=True, type_vocab_size=2), 4, 128, dict(stage="masked_lm", precision="bf16-mixed", attention="eager")),
    ("deberta-plain", dict(DEBERTA, relative_attention=False, pos_att_type=None), 4, 128, dict(stage="question_answering", precision="bf16", attention="eager")),
    ("modernbert", MODERN, 4, 512, dict(stage="classification", precision="bf16")),
    ("modernbert-mixed-pad", dict(MODERN, classifier_pooling="mean", num_labels=3), 4, 512, dict(stage="classification", precision="bf16-mixed", padded=True)),
    ("modernbert-short", MODERN, 8, 48, dict(stage="classification", precision="bf16-mixed")),
    ("modernbert-ckpt-eager", MODERN, 2, 512, dict(stage="classification", precision="fp32", attention="eager", gradient_checkpointing=True)),
    ("modernbert-fa2-pad", MODERN, 4, 384, dict(stage="classification", precision="bf16", attention="flash_attention_2", padded=True)),
    ("modernbert-mlm", MODERN, 4, 512, dict(stage="masked_lm", precision="bf16-mixed")),
    ("modernbert-mlm-accumulated", dict(MODERN, attention_dropout=0.1, mlp_dropout=0.1, embedding_dropout=0.1), 2, 300, dict(stage="masked_lm", precision="bf16", gradient_accumulation_steps=2)),
    ("modernbert-tokens", dict(MODERN, num_labels=9, norm_bias=True), 4, 256, dict(stage="token_classification", precision="fp16-mixed", padded=True)),
    ("qwen2", QWEN2, 4, 512, dict(stage="classification", precision="bf16")),
    ("qwen2-one-row", dict(QWEN2, pad_token_id=None), 1, 1024, dict(stage="classification", precision="bf16-mixed", gradient_checkpointing=True)),
    ("qwen2-tokens", dict(QWEN2, num_labels=5), 4, 512, dict(stage="token_classification", precision="bf16-mixed")),
    ("qwen2-lora", dict(QWEN2, num_labels=3), 4, 512, dict(stage="classification", precision="bf16", tuning="lora", lora={"rank": 8, "target_modules": ["q_proj"]})),
    ("gpt2-row", GPT2, 1, 512, dict(stage="classification", precision="fp32")),
    ("opt", OPT, 4, 512, dict(stage="classification", precision="bf16")),
    ("mpt", MPT, 2, 512, dict(attention="eager", precision="bf16")),
    ("mpt-ckpt-pad", MPT, 2, 512, dict(attention="eager", precision="bf16-mixed", gradient_checkpointing=True, padded=True)),
    ("mpt-lora", dict(MPT, n_heads=12, d_model=768), 2, 512, dict(attention="eager", precision="bf16-autocast", tuning="lora", lora={"rank": 8, "target_modules": ["Wqkv"]})),
    ("gemma3", GEMMA3, 2, 512, dict(precision="bf16")),
    ("gemma3-ckpt-pad", GEMMA3, 2, 500, dict(precision="bf16-mixed", gradient_checkpointing=True, padded=True)),
    ("gemma3-lora", GEMMA3, 2, 512, dict(precision="bf16-autocast", tuning="lora", lora={"rank": 16, "target_modules": ["q_proj", "v_proj"]})),
    ("gemma3-eager", GEMMA3, 1, 640, dict(precision="bf16", attention="eager", optimizer="sgd")),
    ("embedding-bert", BERT, 8, 128, dict(stage="embedding", precision="bf16-mixed")),
    ("embedding-bert-half", BERT, 8, 256, dict(stage="embedding", precision="bf16", padded=True)),
    ("embedding-qwen2-ckpt", QWEN2, 4, 512, dict(stage="embedding", precision="bf16", gradient_checkpointing=True)),
    ("embedding-qwen2-lora", QWEN2, 4, 512, dict(stage="embedding", precision="bf16-autocast", tuning="lora", lora={"rank": 8, "target_modules": ["q_proj", "v_proj"]})),
    ("bert-tokens", dict(BERT, num_labels=9), 8, 128, dict(stage="token_classification", precision="bf16-mixed", gradient_checkpointing=True)),
]

OF_BERT = dict(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=704, max_position_embeddings=514, pad_token_id=1)
SMALL = {kind: dict(OF_BERT, model_type=kind) for kind in ("ernie", "data2vec-text", "xlm-roberta-xl", "roberta-prelayernorm", "megatron-bert", "mpnet", "roberta", "rembert", "deberta", "nomic_bert", "gte", "jina_embeddings_v3", "eurobert", "albert", "roformer", "mobilebert")}
SMALL["mobilebert"].update(embedding_size=64, intra_bottleneck_size=128, hidden_act="relu")
SMALL["albert"].update(embedding_size=64)
SMALL["eurobert"].update(num_key_value_heads=2)
SMALL["rembert"].update(input_embedding_size=64, output_embedding_size=320)
SMALL["deberta"].update(relative_attention=True, pos_att_type="c2p|p2c", position_biased_input=False, type_vocab_size=0, pad_token_id=0)
LABELS = dict(stage="classification")
STEPS = {  # training; what is changed of the config
    "class-pad": (dict(LABELS, precision="bf16-mixed", padded=True), {}),
    "mlm-ckpt": (dict(stage="masked_lm", precision="bf16", gradient_checkpointing=True), {}),
    "mlm-fp16": (dict(stage="masked_lm", precision="fp16-mixed", gradient_accumulation_steps=2), {}),
    "tokens-eager": (dict(stage="token_classification", precision="fp32", attention="eager", padded=True), dict(num_labels=9)),
    "qa": (dict(stage="question_answering", precision="bf16"), {}),
    "embedding": (dict(stage="embedding", precision="bf16-mixed"), {}),
    "lora": (dict(LABELS, precision="bf16-autocast", tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": "all-linear"}), dict(num_labels=5)),
    "lora-named": (dict(LABELS, precision="bf16-autocast", tuning="lora", lora={"rank": 16, "target_modules": ["query", "dense"]}), {}),
    "fa2": (dict(LABELS, precision="bf16", attention="flash_attention_2", padded=True), dict(num_labels=1)),
}


def sentences(folder):
    """SentenceTransformerTrainer.compute_loss over two columns: SentenceTransformer is the transformer and mean pooling."""
    import make_stages
    make_stages.STUBS += ["sklearn", "scipy"]
    sys.meta_path.append(make_stages.Finder)
    sys.path.insert(0, folder)
    import torch
    from one_gpu import step
    from sentence_transformers.sentence_transformer.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling

    class Transformer(torch.nn.Module):
        """base/modules/transformer.py: forward of text"""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, features):
            model_output = self.model(**{**features, "return_dict": True})
            embedding = model_output["last_hidden_state"]
            features["token_embeddings"] = embedding
            return features

    class Sentences(torch.nn.Module):
        """base/model.py"""

        def __init__(self, model, width):
            super().__init__()
            self.add_module("0", Transformer(model))
            self.add_module("1", Pooling(width, "mean"))

        def forward(self, input):
            for name, module in self.named_children():
                input = module(input)
            return input

        def get_output_embeddings(self):
            return None

    build, compute = step.build, step.Run.compute_loss

    def built(config, o):
        model, attention = build(config, o)
        return Sentences(model, config.hidden_size), attention

    def compute_loss(run, inputs, items=None):
        features = [{k[len(prefix):]: v for k, v in inputs.items() if k.startswith(prefix)} for prefix in ("sentence_0_", "sentence_1_")]
        return MultipleNegativesRankingLoss(run.model)(features, None)

    step.build, step.Run.compute_loss = built, compute_loss
    step.Run.count_items = lambda run, batches: None
    init = step.Run.__init__

    def begin(run, *a, **k):
        init(run, *a, **k)
        run.takes_count = False

    step.Run.__init__ = begin


def patch(stage):
    """The class that a stage trains in the place of the causal model, and its batch."""
    import torch
    import transformers
    from one_gpu import step
    made = getattr(transformers, AUTO[stage]).from_config

    def from_config(config, *a, **k):
        """deberta's q_bias is made in fp32 whatever is asked; from_pretrained() casts it."""
        model, dtype = made(config, *a, **k), k.get("dtype", k.get("torch_dtype"))
        for p in model.parameters() if config.model_type == "deberta" and dtype else ():
            p.data = p.data.to(dtype)
        return model

    transformers.AutoModelForCausalLM.from_config = from_config

    def make_batch(config, o):
        rows, shape = o["micro_batch_size"], (o["micro_batch_size"], o["seq_len"])

        def whole(*size):
            return torch.empty(size, dtype=torch.int64, device="cuda")

        batch = {"input_ids": whole(*shape)}
        if o["attention_mask"]:
            batch["attention_mask"] = whole(*shape)
            if config.model_type in TYPES:
                batch["token_type_ids"] = whole(*shape)
        if stage == "embedding":
            both = {"sentence_0_" + k: v for k, v in batch.items()}
            both.update({"sentence_1_" + k: torch.empty_like(v) for k, v in batch.items()})
            return both
        if stage == "question_answering":
            batch.update(start_positions=whole(rows), end_positions=whole(rows))
        elif stage == "classification":
            numbers = config.problem_type or ("regression" if config.num_labels == 1 else "")
            size = (rows, config.num_labels) if config.num_labels > 1 else (rows,)
            batch["labels"] = torch.empty(size, device="cuda") if numbers in ("regression", "multi_label_classification") else whole(rows)
        else:
            batch["labels"] = whole(*shape)
        if stage == "masked_lm_nsp":
            batch["next_sentence_label"] = whole(rows)
        return batch

    count = step.Run.count_items

    def count_items(run, batches):
        """Trainer._get_num_items_in_batch: no label of these is shifted; without labels nothing is counted."""
        if "labels" not in batches[0]:
            return None
        if step._major() < 5 or not run.prefetches or not run.takes_count:
            return count(run, batches)
        return sum(b["labels"].ne(-100).sum() for b in batches) / 1

    step.make_batch, step.Run.count_items = make_batch, count_items
    if stage == "question_answering":  # trainer.py training_step divides where nothing was counted
        init = step.Run.__init__

        def begin(run, *a, **k):
            init(run, *a, **k)
            run.takes_count = False

        step.Run.__init__ = begin
    import peft
    lora = peft.LoraConfig
    peft.LoraConfig = lambda **k: lora(**dict(k, task_type=TASK_TYPE.get(stage)))


MARK = "told: "  # before what a process of --trace tells


def trace(oracle):
    """Within the oracle's environment: a line of figures for each of the requests in STAGE_REQUESTS, each in a process of its own."""
    sys.path.insert(0, oracle)
    sys.argv[0] = os.path.abspath(__file__)
    os.environ.update(NULLCUDA_CC="80", NULLCUDA_SMS="108", NULLCUDA_TPM="2048", NULLCUDA_BPM="32", PYTHONHASHSEED="0")
    import environment
    environment.ensure()
    import ask
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report
    import torch
    torch.cuda.init()
    for request in json.loads(os.environ["STAGE_REQUESTS"]):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                told = {"result": figures(ask, report, request)}
            except BaseException as e:  # a class may refuse
                told = {"error": "%s: %s" % (type(e).__name__, str(e)[:300])}
            print("\n" + MARK + json.dumps(told, default=str), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def figures(ask, report, request):
    import tempfile
    import torch
    torch.cuda._is_in_bad_fork, torch.cuda._initialized = (lambda: False), True  # no driver is there to mind
    training = dict(request["training"])
    stage = training.pop("stage", None)  # none: a causal model as it is
    if stage:
        patch(stage)
    if stage == "embedding":
        sentences(os.environ["STAGE_SENTENCES"])
    options = ask.for_one(request, training, [])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        return report.trace(f.name, options, events=os.environ.get("STAGE_EVENTS"))


def request_of(case, configs, stack):
    name, config, rows, tokens, training = case
    if isinstance(config, str):
        with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
            config = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    return {"cluster": {"gpu": "A100-80GB"},
            "training": {"methods": "single", "tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch",
                         "micro_batch_size": rows, "seq_len": tokens, **training},
            "stack": STACKS[stack], "config": config}


def small_cases(types, steps):
    """Types by steps, the ids' ends with them."""
    for kind in types:
        for name in steps:
            training, over = STEPS[name]
            yield "%s/%s" % (kind, name), {**SMALL[kind], **over}, 4, 256, training


def traced(python, oracle, requests, folder):
    """What each request's process told, in order, by and by."""
    env = dict(os.environ, STAGE_REQUESTS=json.dumps(requests), STAGE_SENTENCES=folder)
    with subprocess.Popen([python, os.path.abspath(__file__), "--trace", oracle], env=env, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if line.startswith(MARK):
                yield json.loads(line[len(MARK):])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle"), a.add_argument("configs"), a.add_argument("python"), a.add_argument("--only", default=""), a.add_argument("--stack", default="current")
    a.add_argument("--sentences", default=""), a.add_argument("--small"), a.add_argument("--steps", default=",".join(STEPS)), a.add_argument("--beside")
    a = a.parse_args()
    prefix = "heads/" if a.stack == "current" else "heads-%s/" % a.stack
    cases = list(small_cases(a.small.split(","), a.steps.split(","))) if a.small else [case for case in CASES if a.only in case[0]]
    requests = [request_of(case, a.configs, a.stack) for case in cases]
    told = zip(cases, requests, traced(a.python, a.oracle, requests, a.sentences))
    if a.beside:
        for case, request, result in told:
            make_releases.beside(a.beside, *case[0].split("/"), request, result)
        return
    path, rows = os.path.join(HERE, "heads.jsonl"), {}
    with open(path, encoding="utf-8") as f:
        rows = {json.loads(line)["id"]: line for line in f}
    for case, request, result in told:
        if "error" in result:
            print("no figures: %s: %s" % (case[0], result["error"]), file=sys.stderr)
            continue
        row = {"id": prefix + case[0], "group": "one GPU, heads", "body": json.dumps(request, separators=(",", ":"))}
        row.update((k, result["result"][k]) for k in FIGURES if k in result["result"])
        rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(rows.values())


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
