/*
 * theirs.h - the configs that users already have, read as they stand.
 *
 * Purpose   deepspeed_config, accelerate_config, training_arguments and a tool's own file (framework_config) say the same things as a
 *           request, by other names. A table a dialect maps its keys onto members; what they say fills what the request leaves out.
 * Rules     A key that contradicts an explicit member, or another config, is refused, naming both. Unknown keys are noted. Keys that
 *           take no GPU memory are known and silent; those that do and have no model are noted when they are set.
 *           "auto" is what transformers fills in: integrations/deepspeed.py, HfTrainerDeepSpeedConfig (5.23.0 and 4.40.0 alike).
 * Source    named at the head of each table: file and version.
 */
#ifndef API_THEIRS_THEIRS_H
#define API_THEIRS_THEIRS_H

#include "api/answer/estimate.h"

enum their_effect {
    SAYS,   /* what `member` means, read as that member is */
    QUIET,  /* known; no GPU memory in it */
    MOVED,  /* known; moves memory or time and has no model: a gap unless it is neutral. `member` says what it is */
    NOTED,  /* known; around the step, whose figures it leaves as they are: a line when it is set */
    WITHIN, /* an object with keys of its own */
    READ,   /* a function of its own */
    ALSO    /* the rows of another table */
};

struct theirs;
struct their_key;
typedef enum err_code their_reader(struct theirs *t, const struct their_key *key, const struct json *v);

struct their_key {
    const char *names; /* joined by '|' */
    enum their_effect effect;
    const char *member; /* "training.seq_len" */
    const char *
        neutral; /* of MOVED: values that change nothing, joined by '|'; NULL: off (false, 0, "", "none", an empty list); NEVER: only null */
    const struct their_key *keys;
    their_reader *read;
};

/* The tables, each ended by an empty row. */
extern const struct their_key deepspeed_keys[], accelerate_keys[], trainer_keys[], transformers_keys[], fsdp_keys[], parallelism_keys[],
    peft_keys[], trl_keys[], llama_factory_keys[], axolotl_keys[], ms_swift_keys[], open_instruct_keys[], oumi_keys[], launcher_keys[],
    zero_keys[], theirs_model_init_keys[];

/* Readers of more than one table. */
their_reader theirs_read_stage, theirs_read_device, theirs_read_fsdp, theirs_read_fsdp_version, theirs_read_file_name, theirs_read_dtype,
    theirs_read_layer_class, theirs_read_attention, theirs_read_targets, theirs_read_liger, theirs_read_liger_kernel, theirs_read_plugins,
    theirs_read_amp, theirs_read_flat, theirs_read_strategy, theirs_read_wrap, theirs_read_run;
/* A flag that says one value of a member when it is on. `member`: "training.optimizer=\"adafactor\"". */
their_reader theirs_read_flag;

/* The hook of a request's decoding (decode.h): a member of training or lora that another tool's table knows. What takes no memory is
 * silently fine, what has no model is a gap, and what has a name of ours is refused with it. */
enum err_code theirs_known(struct decoding *d, const struct member *members, const struct json *v, bool *ret_known);

/* A row each; names_ are joined by '|'. */
#define KEYS(names_, ...)            \
    {                                \
        .names = names_, __VA_ARGS__ \
    }
#define SAY(names_, member_)              KEYS(names_, .effect = SAYS, .member = member_)
#define FLAG(names_, member_)             BY(theirs_read_flag, names_, member_)
#define BY(read_, names_, member_)        KEYS(names_, .effect = READ, .read = read_, .member = member_)
#define NEVER                             ""
#define MOVES(names_, what)               KEYS(names_, .effect = MOVED, .member = what)
#define MOVES_BUT(neutral_, names_, what) KEYS(names_, .effect = MOVED, .member = what, .neutral = neutral_)
#define NOTE(names_, what)                KEYS(names_, .effect = NOTED, .member = what)
#define NOTE_BUT(neutral_, names_, what)  KEYS(names_, .effect = NOTED, .member = what, .neutral = neutral_)
#define KNOWN(names_)                     KEYS(names_, .effect = QUIET)
#define TABLE(keys_)                      KEYS("-", .effect = ALSO, .keys = keys_)
#define OBJECT(names_, keys_)             KEYS(names_, .effect = WITHIN, .keys = keys_)

struct theirs {
    struct estimate *e;
    struct decoding d;      /* path: of the key that is being read */
    const struct json *doc; /* the object that holds it */
    struct {                /* where these were said; NULL: nowhere */
        const char *stage, *strategy, *distributed, *processes, *offload_optimizer, *offload_params, *own_adam; /* the last: DeepSpeed's */
        const char *checkpoints;                                                                               /* by FSDP */
    } at;
    unsigned stage, fsdp_version;
    const char *fsdp_method; /* of version 1: "fsdp_grad_op" */
    const char *distributed; /* accelerate's distributed_type */
    uint64_t machines, processes, replicas, shards;
    enum tri reshard;
    bool find_batch;
    const struct json *arguments; /* training_arguments, or framework_config's text; NULL: neither was given */
    const char *arguments_at;     /* "/training_arguments" */
    const struct tool_file *tool; /* of framework_config; NULL: none */
};

/* One value for one member, as the key at d.path says. */
MUST_CHECK enum err_code theirs_say(struct theirs *t, const char *member, const struct json *v);
/* The same, of a value that is written here: "\"zero3\"", "4". */
MUST_CHECK enum err_code theirs_say_text(struct theirs *t, const char *member, const char *json);
MUST_CHECK enum err_code theirs_say_plain(struct theirs *t, const char *member, const char *plain); /* a text of any characters */
MUST_CHECK enum err_code theirs_say_word(struct theirs *t, const char *member, const char *word);
MUST_CHECK enum err_code theirs_say_number(struct theirs *t, const char *member, uint64_t n);

/* Autocast, said by a flag or a word at d.path. */
MUST_CHECK enum err_code theirs_say_amp(struct theirs *t, enum amp amp);

/* All keys of an object. `complete`: what is unknown is refused, as its own reader does. */
MUST_CHECK enum err_code theirs_walk(struct theirs *t, const struct json *doc, const struct their_key *keys, bool complete);

/* A gap at d.path: "training_arguments.neftune_noise_alpha is not modelled yet: NEFTune's noise". */
void theirs_gap(struct decoding *d, const char *what);
/* Whether a value of a MOVED row changes nothing. */
bool theirs_is_neutral(const struct their_key *key, const struct json *v);

/* true, "true", "yes", 1: as YAML files write it. */
bool theirs_flag(const struct json *v, bool *ret);
/* The same where nothing else is taken. */
MUST_CHECK enum err_code theirs_flag_only(struct theirs *t, const struct json *v, bool *ret);
/* A member of the model's config.json that the key at d.path changes, to `value` or to what `text` is in JSON. */
void theirs_change(struct theirs *t, const struct config_change *change);
enum err_code theirs_read_weight(struct theirs *t, const struct json *v, const char **ret_json); /* of a loss; NULL: nought or null */
/* All members of an object; those that are no part of a config are a gap, "a|b". */
their_reader theirs_read_changes;
/* num_labels, problem_type */
their_reader theirs_read_labels, theirs_read_problem;
/* JSON of a file that a tool carries, read as if it stood at d.path. */
MUST_CHECK enum err_code theirs_walk_text(struct theirs *t, const char *json, const struct their_key *keys);
/* What is in a DeepSpeed config that the tool carries; NULL: it has none of that name. */
const char *theirs_carried(const struct theirs *t, const char *path);
/* GPUs of the request; 0: it leaves them open. */
uint64_t theirs_gpus(const struct theirs *t);
/* Whether the request, or a key before, asks for another stage than SFT and pretraining. */
bool theirs_has_stage(const struct theirs *t);
/* A copy of d.path. */
const char *theirs_path(struct theirs *t);
/* Whether the request, or a config before, has filled a member. */
bool theirs_is_filled(struct theirs *t, const char *member);

/* What a tool's own file means where it says nothing. */
struct tool_default {
    const char *name, *member, *json; /* "sequence_len", "training.seq_len", "512" */
    const char *unless;               /* a member that says otherwise when it is filled; NULL: none */
};

struct tool_file {
    const char *source;           /* "trl 1.16.0 trainer/sft_config.py" */
    enum amp amp;                 /* autocast that nobody asked for */
    const struct their_key *keys; /* of its own, before those of transformers; NULL: those of training_arguments */
    const struct tool_default *defaults;
    enum err_code (*settle)(struct theirs *t); /* defaults that hang on other keys; NULL: none */
};

/* What a file calls the model's id, and by which key; NULL: it does not. */
const struct json *theirs_model_said(const struct json *arguments, const char **ret_name);

/* The file that framework_config holds. *ret: NULL where none was given, or where its tool has no model (a gap). */
MUST_CHECK enum err_code theirs_tool(struct theirs *t, const struct tool_file **ret);
const char *theirs_tool_source(enum tool tool); /* "axolotl 0.19.0" */
bool theirs_tool_is(const struct theirs *t, enum tool tool);
/* What a tool's file means together. */
MUST_CHECK enum err_code axolotl_settle(struct theirs *t);
/* Its defaults, where nothing is said. */
MUST_CHECK enum err_code theirs_tool_defaults(struct theirs *t);
/* The dtype that a tool loads weights in where no key says one. After what says autocast. */
void theirs_tool_loads(struct theirs *t);
/* What depends on the method, of one tool. */
MUST_CHECK enum err_code ms_swift_settle(struct theirs *t);
MUST_CHECK enum err_code open_instruct_settle(struct theirs *t);
/* A default of training_arguments or of framework_config, where the request leaves it out. */
MUST_CHECK enum err_code theirs_leave_out(struct theirs *t, const char *member, const char *json, const char *name);

/* What several keys together mean: method, offload, GPUs a node. */
MUST_CHECK enum err_code theirs_settle(struct theirs *t);

#endif
