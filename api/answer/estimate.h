/*
 * estimate.h - what POST /estimate's parts hand to each other: read (estimate.c), asked of plan/ (question.c), written (answer.c).
 */
#ifndef API_ANSWER_ESTIMATE_H
#define API_ANSWER_ESTIMATE_H

#include "api/call.h"
#include "api/request/request.h"
#include "config/arch.h"
#include "llmem/llmem.h"
#include "train/around.h"
#include "plan/plan.h"
#include "stack/release.h"
#include "train/inventory.h"

struct model_info {
    struct json *owned; /* a fetched config.json, parsed; the caller frees it */
    const struct json *config;
    const char *id, *revision, *commit, *source, *model_type;
    uint64_t hub_parameters; /* as the hub counts them; 0: not known, or the config was patched */
    const struct modeling_file *files; /* of the request, or of the hub; NULL: the program is builtin */
    uint32_t n_files;
    const struct api_code_found *code; /* they are those of a repository; NULL: not */
    const struct installed *installed; /* whose files the program is; NULL: none */
    uint64_t counted_parameters; /* of a type without a program: as the catalogue has it from the model's own class; 0: not known */
    bool has_program;
    bool generic; /* a decoder by the usual keys stands in for a type that nobody knows */
    struct arch arch;
};

/* What a query says of the answer's shape, whatever the question. */
struct shape {
    struct quantity top; /* candidates written at most; default SHAPE_TOP */
    struct words launch; /* launch files of the recommendation, or of "all" */
    enum tri timeline, strict, largest;
    bool snapshot; /* the answer is a memory snapshot */
};
enum { SHAPE_TOP = 50 };
bool shape_launches_all(const struct shape *s);

/* Autocast, where a user's own config says it; which precision that is depends on how the model is loaded. */
/* AMP_AS_LOADED: that of the weights, fp16 for those of fp32. */
enum amp { AMP_UNSAID, AMP_NO, AMP_BF16, AMP_FP16, AMP_AS_LOADED };

/* Bucket sizes that a DeepSpeed file leaves to transformers: made of the hidden size. */
struct auto_buckets {
    bool reduce, prefetch, persistence;
};

/* Members that a config of another tool filled, and the key that did. As many as the request has members. */
enum { ORIGINS_MAX = 128 };
struct origins {
    uint32_t n;
    struct {
        const void *slot;
        const char *path;
    } v[ORIGINS_MAX];
};
const char *origin_of(const struct origins *o, const void *slot); /* NULL: the request itself */

/* What a tool's file changes of the model's config.json: the first comes first. */
enum { CONFIG_CHANGES = 24 };
struct config_changes {
    uint32_t n;
    struct config_change {
        const char *name;
        const struct json *value; /* of the file; NULL: text */
        const char *text;         /* JSON */
        bool of_text;             /* of the language model's part, where the config has parts */
        const char *types;        /* "a|b": only where what is changed says one of these model_types; NULL: in any case */
    } v[CONFIG_CHANGES];
};

/* GPUs of the vendor that are larger than those asked, of rising memory. */
enum { LADDER = 12 };
struct ladder {
    bool is_known, is_amd;
    uint32_t n;
    const struct gpu *gpu[LADDER];
};

struct estimate {
    struct call *call;
    const struct shape *shape;
    struct estimate_request rq;
    struct json *owned[3]; /* configs that came as text */
    bool deepspeed;        /* one of them names DeepSpeed */
    struct {
        int layers; /* 0: not said; the last n, or -n: the first */
        const char *modules, *extra;
    } part;         /* of LLaMA-Factory's "freeze", which counts layers */
    bool inputs_want_grad; /* axolotl's enable_input_require_grads() beside unfrozen_parameters */
    enum amp amp;
    const char *amp_at;      /* the key that says so */
    enum dtype_saved loaded; /* the dtype that the weights are loaded in, where one says so */
    bool loads_as_saved;     /* ... or that it is the one they are saved in */
    struct auto_buckets auto_buckets;
    unsigned required; /* PACKAGE_BIT of those whose release framework_config's tool requires, which the request did not name */
    const char *lora_kernels_at; /* the file in which axolotl switches on kernels of adapters by itself; NULL: none */
    const char *gated_norm_at; /* axolotl's liger_rms_norm_gated; NULL: not asked */
    struct config_changes changes;
    const char *vocabulary_to_32x_at; /* axolotl's resize_token_embeddings_to_32x; NULL: not asked */
    struct notes warnings, assumptions;
    const char *summary;
    struct timeline *timeline; /* NULL: nobody asked */
    struct left_out left_out;
    struct origins origins;
    struct model_info model;
    struct stack stack; /* complete, as asked */
    struct perf_system system;
    struct plan_question question;
    struct ladder ladder; /* alternatives.c */
    struct plan_answer answer;
    struct inventory inventory; /* of the first modelled candidate */
    struct llmem_answer baseline;
    bool has_baseline;
    struct around around; /* of the first candidate */
    bool has_around;
    uint64_t work_began, work_limit; /* events of the budget when the question began; that it may add */
};

/* What nobody's class was held to: no trace stands behind these two, they say that the figure is a sketch. */
enum { GENERIC_LOW_PERCENT = 70, GENERIC_HIGH_PERCENT = 150 };

/* What a request says of the model. */
struct model_asked {
    const char *id, *revision;
    const struct json *config, *modeling;
    enum program_wanted program;
    struct stack_request *stack; /* a transformers that it does not name becomes the installed one whose files are read */
    const struct config_changes *changes; /* NULL: none */
};
enum program_wanted program_wanted(const struct words *given);

/* A model's config: fetched, inline, or the one patched by the other. info->owned is set even when it fails. */
MUST_CHECK enum err_code model_read(struct call *c, const struct model_asked *asked, struct notes *warnings, struct model_info *info);

/* Points at the file of the request that an error names. */
enum err_code model_blame(const struct model_info *info, enum err_code rc, struct err *err);

/* id, revision, commit, source, model_type, program. */
void model_write_origin(struct jsonw *w, const struct model_info *info, const struct stack *stack);

/* The hub counts what stands in the files: a line where that is not what the inventory counts. */
void model_compare_count(const struct model_info *info, uint64_t parameters, struct notes *warnings);

/* Versions as asked, completed. */
MUST_CHECK enum err_code stack_read(const struct stack_request *asked, struct stack *ret, struct err *err);

/* The cluster's part of e->question. */
MUST_CHECK enum err_code cluster_read(struct estimate *e);
bool cluster_has_no_gpu(const struct estimate *e);                /* gpu "none": of inference alone */
MUST_CHECK enum err_code cluster_host(struct estimate *e); /* the host in the place of a GPU */

/* A method of the contract by its name has a program. */
bool method_named_is_modelled(const char *name);

/* e->left_out.gaps: what e->rq asks that has no model, by the table of members. */
void gaps_find(struct estimate *e);
/* "not_in_figures" and "ignored" of the answer. */
void gaps_write(struct jsonw *w, const struct estimate *e);

/* Fills e->question from e->rq, e->model and e->stack. */
MUST_CHECK enum err_code question_build(struct estimate *e);

/* A sentence about the first part of the request that has no model at all; NULL: there is none. e->left_out has them all. */
/* api/request/checkpoint.c: enum weights of a config's quantization_config, -1: none, or one without a model; *group: rows that share a scale, 0: all.
 * checkpoint_is_read(): what is asked, a generation or training, has figures for such weights. */
int checkpoint_weights(const struct json *config, uint32_t *ret_group);
bool checkpoint_is_read(const struct estimate *e, const struct json *config);
enum kbit checkpoint_kbit(const struct json *config); /* of a checkpoint that is packed as training takes it; KBIT_NONE: it is not */
enum checkpoint_form checkpoint_form(const struct json *config);
/* What training takes from it: e->rq.training.quantization where it is left out, a note of it. */
MUST_CHECK enum err_code checkpoint_take(struct estimate *e);
MUST_CHECK enum err_code question_gap(struct estimate *e, const char **ret);

/* The answer of workload inference, once the request and the model are read. */
bool asks_inference(const struct estimate_request *rq);
bool asks_litgpt(const struct estimate_request *rq); /* its generate */
MUST_CHECK enum err_code inference_answer(struct estimate *e);

/* Most of what is left of `arena`, until its end is set back to the scratch's. */
struct arena scratch_of(struct arena *arena);

/* The id that a request asks for: its own `model`, else what framework_config or training_arguments name, in the arena; NULL: none, or no id. */
const char *theirs_model(const struct json *request, struct arena *arena);
/* The releases that framework_config's tool requires, where the request names none; before stack_read(). */
void theirs_take_releases(struct estimate *e);
/* Users' own configs into e->rq; and, once e->model is known, what they leave to it. */
MUST_CHECK enum err_code theirs_read(struct estimate *e);
MUST_CHECK enum err_code theirs_resolve(struct estimate *e);

/* Adapters as asked; the dtype stays open. `at`: where the targets stand. */
MUST_CHECK enum err_code narrow_read(const struct lora_request *asked, const char *at, struct arena *arena, const struct lora_narrow **ret,
                                     struct err *err); /* untouched: nothing narrows */
MUST_CHECK enum err_code lora_read(const struct lora_request *asked, const char *at, struct arena *arena, struct lora *ret,
                                   struct err *err);

/* Where the targets of e->rq put adapters in e->model: what peft refuses is an error, what has no model a gap. */
MUST_CHECK enum err_code targets_check(struct estimate *e);
MUST_CHECK enum err_code freeze_read(const struct training_request *asked, struct arena *arena, struct freeze *ret, struct err *err);
MUST_CHECK enum err_code freeze_check(struct estimate *e);
void layers_check(struct estimate *e); /* checkpoints of some layers alone */

/* e->rq with every default made explicit. */
void resolve_request(struct estimate *e);
void resolve_inference(struct estimate *e, enum attention attention);

/* "model" of the answer. */
void model_write(struct jsonw *w, const struct estimate *e);
/* "work" of the answer. */
void work_write(struct jsonw *w, const struct estimate *e);

/* memory.around of the first candidate: e->around. */
MUST_CHECK enum err_code around_take(struct estimate *e, struct arena *scratch);
void around_write(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c);

/* LLMem's answer where the request names it: e->baseline. */
MUST_CHECK enum err_code baseline_read(struct estimate *e, struct arena *scratch);

/* The request names LLMem's methods and no other: they run as LLMem ran them, and where none fits `offload` is named. */
bool baseline_only(const struct estimate_request *rq);
void baseline_take(struct estimate *e); /* what such a request leaves out; before its stack is read */
void baseline_write(struct jsonw *w, const struct estimate *e);
void baseline_write_figures(struct jsonw *w, const struct estimate *e, const char *method);
void baseline_write_offload(struct jsonw *w);

void candidate_write(struct jsonw *w, const char *name, const struct estimate *e, const struct plan_candidate *c);

/* "launch" of a candidate: the files and commands that start it. */
void candidate_launch(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c, bool is_recommendation);

/* What was changed, by the names that a query takes; nothing where nothing was. */
void change_write(struct jsonw *w, const char *name, const struct estimate *e, const struct plan_nearest *n);

/* "advice" of the answer. */
void advice_write(struct jsonw *w, const struct estimate *e);

/* "summary": one or two sentences that anyone understands; NULL: no room. */
const char *summary_of(const struct estimate *e);

/* Their parts: what some advice comes to; "LoRA"; "2,310"; "19.4"; "one RTX 4090". */
void advice_say(struct buf *out, const struct estimate *e, const struct plan_advice *a);
const char *tuning_in_words(const char *tuning);
const char *gpu_in_words(const struct estimate *e);
void say_number(struct buf *out, double x);
void say_gib(struct buf *out, double bytes);
void say_gpus(struct buf *out, uint32_t n, const char *gpu);

/* The first candidate's run on the allocator's model, told to `reader`. */
struct history_reader;
MUST_CHECK enum err_code history_of(struct estimate *e, const struct plan_candidate *c, const struct history_reader *reader, struct arena *scratch);

/* ?timeline: e->timeline, and "timeline" of the answer. */
MUST_CHECK enum err_code timeline_take(struct estimate *e, struct arena *scratch);
void timeline_write(struct jsonw *w, const struct estimate *e);

/* GET /estimate/snapshot: torch.cuda.memory._snapshot(), pickled. */
MUST_CHECK enum err_code snapshot_write(struct estimate *e, struct arena *scratch, struct buf *out);

/* Clusters to try where nothing fits: plan_question's `alternative`. */
bool alternative_cluster(void *of, uint32_t i, struct plan_alternative *ret);

/* "rules_of_thumb" of the answer; nothing where no candidate was modelled. */
void rules_write(struct jsonw *w, const struct estimate *e);

MUST_CHECK enum err_code answer_write(struct estimate *e);

/* One question, c->doc, to its answer in c->ret. `noted`: lines for its warnings, or NULL. */
MUST_CHECK enum err_code estimate_answer(struct call *c, const struct shape *shape, const struct notes *noted);

/* ?top, ?launch, ?timeline, ?strict, ?largest. ret_noted: what a POST's query holds beside them; it has its arena. NULL: that is somebody else's. */
MUST_CHECK enum err_code shape_read(struct call *c, struct shape *ret, struct notes *ret_noted);

/* What the request states and nothing of the answer reads, and why: notes. Before it is resolved. */
void idle_say(struct estimate *e);
void idle_say_inference(struct estimate *e, bool vllm, bool packed, bool spread);

/* Notes on what the answer rests on; `first`: its first candidate that is modelled. */
void assume_answer(struct estimate *e, const struct plan_candidate *first);

#endif
