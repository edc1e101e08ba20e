/*
 * train.py: a minimal, complete script of the HF Trainer for the step that was estimated. What it is given on the command line it leaves to
 * TrainingArguments; what only code can say stands in it: how the model is loaded, adapters, the length of rows.
 *
 * Source    transformers 5.23.0 and 4.40.0: modeling_utils.py from_pretrained, enable_input_require_grads, trainer.py; peft 0.21.2 get_peft_model.
 */
#include "launch/launch.h"

#include "stack/defaults.h"

static const char head[] =
    "#!/usr/bin/env python3\n"
    "\"\"\"One model, one file of text, the Trainer: the step that llmemd estimated.\n"
    "\n"
    "    --train_file FILE    its text, cut into rows; without one rows are random tokens, which show memory and speed\n"
    "\"\"\"\n"
    "import dataclasses\n"
    "import json\n"
    "import os\n"
    "\n"
    "import torch\n"
    "from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments, "
    "default_data_collator\n"
    "\n";

static const char rows[] =
    "\n"
    "\n"
    "@dataclasses.dataclass\n"
    "class Script:\n"
    "    model_name_or_path: str = dataclasses.field(default=\".\", metadata={\"help\": \"a name on the hub, or a directory\"})\n"
    "    model_revision: str = \"main\"\n"
    "    train_file: str = None\n"
    "\n"
    "\n"
    "class Rows(torch.utils.data.Dataset):\n"
    "    def __init__(self, tokens):\n"
    "        self.tokens = tokens[: len(tokens) // SEQ_LEN * SEQ_LEN].view(-1, SEQ_LEN)\n"
    "\n"
    "    def __len__(self):\n"
    "        return len(self.tokens)\n"
    "\n"
    "    def __getitem__(self, i):\n"
    "        row = {\"input_ids\": self.tokens[i], \"labels\": self.tokens[i]}\n"
    "        return dict(row, attention_mask=torch.ones_like(self.tokens[i])) if ATTENTION_MASK else row\n"
    "\n"
    "\n"
    "def read_rows(script, vocabulary):\n"
    "    if not script.train_file:\n"
    "        return Rows(torch.randint(0, vocabulary, (256 * SEQ_LEN,), generator=torch.Generator().manual_seed(0)))\n"
    "    tokenizer = AutoTokenizer.from_pretrained(script.model_name_or_path, revision=script.model_revision)\n"
    "    with open(script.train_file) as f:\n"
    "        return Rows(torch.tensor(tokenizer(f.read())[\"input_ids\"]))\n"
    "\n"
    "\n"
    "def load(script):\n"
    "    path = script.model_name_or_path\n"
    "    if os.path.isdir(path) and not any(name.endswith((\".safetensors\", \".bin\")) for name in os.listdir(path)):  # a config alone: fresh weights\n"
    "        config = AutoConfig.from_pretrained(path)\n"
    "        return AutoModelForCausalLM.from_config(config, **{name: MODEL[name] for name in MODEL if name != \"distributed_config\"})\n"
    "    return AutoModelForCausalLM.from_pretrained(path, revision=script.model_revision, **MODEL)\n"
    "\n"
    "\n"
    "def main():\n"
    "    script, args = HfArgumentParser((Script, TrainingArguments)).parse_args_into_dataclasses()  # before the model: DeepSpeed wants to know\n";

static const char placed[] =
    "    MODEL[\"device_map\"] = {\"\": args.local_process_index}  # weights are quantised on the GPU that they are for\n";

static const char prepared[] =
    "    model = prepare_model_for_kbit_training(model, args.gradient_checkpointing, args.gradient_checkpointing_kwargs)\n";

/* trl/models/utils.py peft_module_casting_to_bf16 */
static const char cast_back[] =
    "    for name, module in model.named_modules():\n"
    "        if any(part in name for part in (\"lm_head\", \"embed_tokens\", \"wte\", \"wpe\")) and hasattr(module, \"weight\"):\n"
    "            module.to(torch.bfloat16)\n";

/* axolotl 0.19.0 loaders/model.py _convert_embedding_modules_dtype */
static const char cast_norms_back[] =
    "    for name, module in model.named_modules():\n"
    "        if \"norm\" in name or any(part in name for part in (\"lm_head\", \"embed_tokens\")) and hasattr(module, \"weight\"):\n"
    "            module.to(torch.bfloat16)\n";

static const char cast_gates[] =
    "    for name, module in model.named_modules():\n"
    "        if name.endswith(\".gate\"):\n"
    "            module.to(torch.float32)\n";

static const char cast_wide[] =
    "    for name, module in model.named_modules():\n"
    "        wide = any(part in name for part in (\"lm_head\", \"embed_tokens\")) and hasattr(module, \"weight\")\n"
    "        if wide or \"norm\" in name or name.endswith(\".gate\"):\n"
    "            module.to(torch.float32)\n";

static const char adapters[] = "    if args.gradient_checkpointing and (args.gradient_checkpointing_kwargs or {}).get(\"use_reentrant\"):\n"
                               "        model.enable_input_require_grads()  # else nothing that a reentrant region is given requires grad\n"
                               "    model = get_peft_model(model, LoraConfig(**LORA))\n"
                               "    model.print_trainable_parameters()\n";

static const char tail[] =
    "    trainer = Trainer(model=model, args=args, train_dataset=read_rows(script, model.config.vocab_size), data_collator=default_data_collator)\n"
    "    result = trainer.train()\n"
    "    if trainer.is_world_process_zero():\n"
    "        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0\n"
    "        print(\"steps %d, loss %.4f, peak allocated %.2f GiB\" % (trainer.state.global_step, result.training_loss, peak / 2**30), flush=True)\n"
    "    if args.save_strategy != \"no\":\n"
    "        trainer.save_model()\n"
    "\n"
    "\n"
    "if __name__ == \"__main__\":\n"
    "    main()\n";

/* NAME = json.loads(r'''{..}'''): what it holds is quoted by JSON, of which no string has three quotes in a row. */
static void constant(struct buf *out, const char *name, const struct launch *l,
                     void (*write)(struct jsonw *w, const char *name, const struct launch *l))
{
    struct jsonw w;

    buf_str(out, name);
    buf_str(out, " = json.loads(r'''");
    jsonw_init(&w, out, false);
    write(&w, NULL, l);
    buf_str(out, "''')\n");
}

static void string_line(struct buf *out, const char *before, const char *name, const char *behind)
{
    buf_str(out, before);
    buf_str(out, name);
    buf_str(out, behind);
}

static void write_constants(struct buf *out, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    buf_str(out, "SEQ_LEN = ");
    buf_u64(out, r->seq_len_tokens);
    buf_str(out, "\nATTENTION_MASK = ");
    buf_str(out, r->attention_mask == TRI_FALSE ? "False\n" : "True\n");
    constant(out, "MODEL", l, launch_model_arguments);
    if (r->tensor_parallel > 1)
        buf_str(out, "MODEL[\"distributed_config\"] = DistributedConfig(**MODEL[\"distributed_config\"])\n");
    if (launch_unpacks(l))
        string_line(out, "MODEL[\"quantization_config\"] = ", launch_unpacks(l), "(dequantize=True)  # as it is saved it is not trained\n");
    if (kbit_is_hqq(r->quantization))
        string_line(out, "MODEL[\"quantization_config\"] = HqqConfig(nbits=", r->quantization == KBIT_HQQ4 ? "4" : "8", ", group_size=64)\n");
    if (kbit_is_torchao(r->quantization))
        string_line(out, "MODEL[\"quantization_config\"] = TorchAoConfig(", launch_torchao(r->quantization), "())\n");
    if (r->tuning != TUNING_FULL)
        constant(out, "LORA", l, launch_lora);
}

bool launch_has_script(const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    return r->stage == TASK_SFT && launch_is_trainer(l) && launch_offers(l->step) && (r->tensor_parallel == 1 || stack_defaults_of(&r->stack).tp_by_config);
}

void launch_script(struct buf *out, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    buf_str(out, head);
    if (r->tuning != TUNING_FULL)
        buf_str(out, r->quantization && r->prepare_kbit ? "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n\n"
                                                        : "from peft import LoraConfig, get_peft_model\n\n");
    if (r->tensor_parallel > 1)
        buf_str(out, "from transformers.distributed import DistributedConfig\n\n");
    if (launch_unpacks(l))
        string_line(out, "from transformers import ", launch_unpacks(l), "\n\n");
    if (kbit_is_hqq(r->quantization))
        buf_str(out, "from transformers import HqqConfig\n\n");
    if (kbit_is_torchao(r->quantization))
        string_line(out, r->quantization == KBIT_TORCHAO_NF4 ? "from torchao.prototype._nf4tensor_api import " : "from torchao.quantization import ",
                    launch_torchao(r->quantization), "\nfrom transformers import TorchAoConfig\n\n");
    write_constants(out, l);
    buf_str(out, rows);
    if (kbit_is_loaded(r->quantization))
        buf_str(out, placed);
    buf_str(out, "    model = load(script)\n");
    if (r->quantization && r->prepare_kbit)
        buf_str(out, prepared);
    if (r->quantization && r->prepare_kbit == KBIT_PREPARE_AXOLOTL)
        buf_str(out, cast_norms_back);
    if (recipe_casts_as_axolotl(r))
        buf_str(out, recipe_keeps_wide(r) ? cast_wide : cast_gates);
    if (r->tuning != TUNING_FULL)
        buf_str(out, adapters);
    if (r->quantization && r->prepare_kbit == KBIT_PREPARE_TRL)
        buf_str(out, cast_back);
    buf_str(out, tail);
}
