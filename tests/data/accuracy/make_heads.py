#!/usr/bin/env python3
"""Makes heads.jsonl of this folder: steps of classes with a head of their own (classifiers, masked language models, answers): transformers' own classes on the oracle's loop.

    make_heads.py ORACLE CONFIGS PYTHON [--only TEXT] [--stack NAME] [--sentences FOLDER]

FOLDER is an unpacked sentence-transformers 6.2.0 wheel, whose loss and pooling run between the Trainer's loop and the model (cases of embeddings).

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21), with PYTHONPATH as make_hybrids_older.py says for 4.57 and 5.0. A batch holds what the tokenizer of the type hands out.
"""
import json
import os
import subprocess
import sys

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
TYPES = ("bert", "electra", "deberta-v2")  # whose tokenizers hand out token_type_ids
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
    transformers.AutoModelForCausalLM.from_config = getattr(transformers, AUTO[stage]).from_config

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
    import peft
    lora = peft.LoraConfig
    peft.LoraConfig = lambda **k: lora(**dict(k, task_type=TASK_TYPE.get(stage)))


def trace(oracle):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    sys.path.insert(0, oracle)
    sys.argv[0] = os.path.abspath(__file__)
    import environment
    environment.ensure()
    import tempfile
    import ask
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report
    request = json.loads(os.environ["STAGE_REQUEST"])
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
        print("\n" + json.dumps(report.trace(f.name, options, events=os.environ.get("STAGE_EVENTS"))))


def request_of(case, configs, stack):
    name, config, rows, tokens, training = case
    if isinstance(config, str):
        with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
            config = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    return {"cluster": {"gpu": "A100-80GB"},
            "training": {"methods": "single", "tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch",
                         "micro_batch_size": rows, "seq_len": tokens, **training},
            "stack": STACKS[stack], "config": config}


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    stack = sys.argv[sys.argv.index("--stack") + 1] if "--stack" in sys.argv else "current"
    folder = sys.argv[sys.argv.index("--sentences") + 1] if "--sentences" in sys.argv else ""
    oracle, configs, python = sys.argv[1:4]
    prefix = "heads/" if stack == "current" else "heads-%s/" % stack
    with open(os.path.join(HERE, "heads.jsonl"), "a", encoding="utf-8") as out:
        for case in CASES:
            if only not in case[0]:
                continue
            request = request_of(case, configs, stack)
            env = dict(os.environ, STAGE_REQUEST=json.dumps(request), STAGE_SENTENCES=folder)
            told = subprocess.run([python, os.path.abspath(__file__), "--trace", oracle], env=env, stdout=subprocess.PIPE).stdout
            if b"\n{" not in told:
                print("no figures: " + case[0], file=sys.stderr)
                continue
            result = json.loads(told[told.rindex(b"\n{"):])
            row = {"id": prefix + case[0], "group": "one GPU, heads", "body": json.dumps(request, separators=(",", ":"))}
            row.update((k, result[k]) for k in FIGURES if k in result)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
