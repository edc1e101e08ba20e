/*
 * launch.h - the files and commands that start what was estimated.
 *
 * Purpose   launch_write() says one resolved step in the words of those who run it: DeepSpeed's JSON, accelerate's YAML, TrainingArguments,
 *           a command, an sbatch script, environment variables; and in `notes` what the script itself has to do. Read back by the
 *           readers of users' own configs (api/theirs*.c), or by the packages, they mean the same step (tests/unit/test_launch.c,
 *           tests/peers/launch.py).
 * Files     a command names its files by launch_file(): the member of the answer that holds the text is beside it in "files".
 * Source    deepspeed 0.19.8 runtime/config.py, runtime/zero/config.py; accelerate 1.15.0 commands/launch.py, utils/launch.py,
 *           utils/dataclasses.py, parallelism_config.py; transformers 5.23.0 and 4.40.0 training_args.py, trainer.py; the clusters' guides
 *           (catalog/data/slurm.csv).
 * Not here  the data, the length of its rows, checkpoints, the number of steps: the script's own.
 * Errors    those of the writers: they stick in the buffer.
 */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include "base/jsonw.h"
#include "train/recipe.h"

/* How a cluster takes jobs. NULL and 0: no source says it. Lists are joined by ';'. */
struct launch_site {
    const char *partition, *small_partition; /* small: for one node's `small_gpus` or fewer */
    const char *account;                     /* "--account=<project>": the user's own */
    const char *gpus;                        /* the option that asks for them, '%' where their number a node stands */
    const char *options, *time_limit, *modules, *environment;
    unsigned small_gpus, cpus_per_gpu, gb_per_gpu, gpus_per_node;
};

struct launch {
    const struct step *step;
    const char *model, *revision;      /* as from_pretrained() takes them; NULL: the script's own config, the default branch */
    const char *optimizer, *attention; /* by transformers' names */
    uint32_t gpus_per_node;            /* of the cluster: the job takes as many nodes as its degrees need */
    double lora_alpha;                 /* 0: peft's default */
    bool expandable_segments;
    bool own_loop;                  /* whatever the step's loop is like: the script drives DeepSpeed's engine by itself */
    const struct launch_site *site; /* NULL: no sbatch script */
};

enum launcher { LAUNCHER_NONE, LAUNCHER_PYTHON, LAUNCHER_ACCELERATE, LAUNCHER_TORCHRUN };

/* What the launchers call a method. */
struct launch_method {
    enum launcher launcher;  /* of a script of the HF Trainer, TORCHRUN: it does not do that; a plain loop is started by torchrun */
    const char *distributed; /* accelerate's distributed_type; NULL: accelerate does not offer it */
    bool engine;             /* DeepSpeed's */
    unsigned zero_stage;     /* then */
    unsigned fsdp_version;   /* 0: no FSDP */
    const char *strategy;    /* of FSDP1 */
    bool reshard;            /* of FSDP2: after forward */
    bool mesh;               /* accelerate's parallelism_config says the degrees */
};
const struct launch_method *launch_method(enum method m);

/* Whether a launcher starts this step as it is: under the Trainer what the releases of accelerate and transformers know; in a plain loop, which
 * torchrun starts, whatever the script calls by itself. No launcher cuts a model into a pipeline. */
bool launch_offers(const struct step *step);

/* The object "launch". */
void launch_write(struct jsonw *w, const char *name, const struct launch *l);

/* --- its parts ------------------------------------------------------------------------------------------------------------------- */

enum launch_file { FILE_DEEPSPEED, FILE_ACCELERATE, FILE_SCRIPT };
const char *launch_file(enum launch_file file);

bool launch_is_trainer(const struct launch *l); /* the HF Trainer runs it; else a loop of the script's own */
uint32_t launch_world(const struct launch *l);
uint32_t launch_nodes(const struct launch *l);         /* as many as the world needs */
uint32_t launch_gpus_per_node(const struct launch *l); /* of each of them */
const char *launch_half(const struct launch *l);       /* "bf16", "fp16" where autocast or a mixed policy is on, else NULL */

bool launch_has_deepspeed(const struct launch *l);
bool launch_has_accelerate(const struct launch *l);
void launch_deepspeed(struct jsonw *w, const char *name, const struct launch *l);
void launch_accelerate(struct buf *out, const struct launch *l);
void launch_command(struct buf *out, const struct launch *l);
void launch_slurm(struct buf *out, const struct launch *l);
bool launch_has_script(const struct launch *l); /* where the Trainer runs it */
void launch_script(struct buf *out, const struct launch *l);
void launch_notes(struct jsonw *w, const char *name, const struct launch *l);

/* name=value, a callback each. */
typedef void launch_variable(void *to, const char *name, const char *value);
void launch_environment(const struct launch *l, launch_variable *each, void *to);

/* TrainingArguments once, spelled twice: as members of an object, or as flags of a command. Exactly one of both is set. */
struct arguments {
    struct jsonw *object;
    struct buf *flags;
};
void launch_training_arguments(struct arguments *to, const struct launch *l);

/* The class of transformers that dequantises the checkpoint as it is loaded; NULL: it stands in numbers, or stays packed. */
const char *launch_unpacks(const struct launch *l);
const char *launch_torchao(enum kbit k); /* torchao's config class for such weights */

/* What from_pretrained() is given beside the model's name; peft's LoraConfig. */
void launch_model_arguments(struct jsonw *w, const char *name, const struct launch *l);
void launch_lora(struct jsonw *w, const char *name, const struct launch *l);

#endif
