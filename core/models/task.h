/*
 * task.h - what a trainer other than the plain one does of a step: what its batches hold, which text computes its loss, what stands beside the model.
 *
 * Purpose   a row of tasks.def for each stage of the contract that has a trainer; its text is a file of core/models/library/trl or llama_factory, whose
 *           compute_loss() calls the model as accelerate prepared it: `prepared` there, natives of task.c here, the loop's own part by `struct model_caller`.
 * Source    trl 1.16.0, llamafactory 0.9.5 (the wheels' files stand in each row); no other release was read.
 */
#ifndef MODELS_TASK_H
#define MODELS_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct script_module;

enum task_id {
    TASK_SFT, /* and pretrain: the model's own loss */
#define TASK(id, by, stage, module, trainer, rows, tokens, refers, classes, saved, more, kept, holds) TASK_##id,
#include "models/tasks.def"
#undef TASK
    TASK_COUNT
};

enum reference { REFERENCE_UNSET, REFERENCE_NONE, REFERENCE_COPY, REFERENCE_ADAPTER, REFERENCE_PRECOMPUTED };

enum refers { REFERS_NOT, REFERS_POLICY, REFERS_TEACHER }; /* the model as it was; a model beside it */

enum { TASK_MORE = 7 }; /* tensors of a batch beside ids and mask */

/* Who computes the loss of a stage that several do. */
enum trainer_of { TRAINER_TRL, TRAINER_LLAMA_FACTORY, TRAINER_AXOLOTL, TRAINER_OPEN_INSTRUCT, TRAINER_MS_SWIFT, TRAINER_COUNT };
struct trainer_row {
    const char *name, *release; /* as it stands in core/models/library */
    const char *length;         /* what it calls the tokens of a row */
};
extern const struct trainer_row trainer_rows[TRAINER_COUNT];

struct task {
    enum trainer_of by;
    const char *stage;   /* the contract's word */
    const char *module;  /* of the text; NULL: the model's own loss, and the Trainer's step */
    const char *trainer; /* "DPOTrainer, trl 1.16.0 trainer/dpo_trainer.py" */
    uint8_t rows;        /* of a batch, for each sample */
    uint32_t tokens;     /* of a row, where nobody says: max_length of the trainer's config */
    enum refers refers;  /* the model that it compares with */
    const char *classes; /* what models/library/modeling_heads.py class_of() makes the model's class by; "": it is the causal one */
    const char *saved;   /* children of the model that peft trains in full beside adapters of its task_type: peft_model.py classifier_module_names;
                          * with a =, what stands beside peft's model and is trained itself */
    const char *more;    /* names of int64 tensors of [rows, tokens]; with a ?, of a truth value a row; with a #, of a whole number a row;
                          * with a %, where the tokenizer hands out token_type_ids */
    const char *kept;    /* names of fp32 numbers a sample, where the reference's are precomputed; "": none */
    const char *holds;   /* a sentence for people */
};

extern const struct task tasks[TASK_COUNT];

/* The stage of the class that architectures[0] names, "BertForSequenceClassification"; of one without a head that is known, TASK_MASKED_LM. */
enum task_id task_of_architecture(const char *architecture);

/* The same stage by another's trainer; TASK_COUNT: it has none. */
enum task_id task_by(enum task_id stage, enum trainer_of by);

/* Whether the loop counts the labels of a step: not for who does not accept loss_kwargs. */
bool task_counts_items(const struct task *task);

/* Rows that a sample is trained on, in one tensor or in two. */
uint32_t task_sequences(const struct task *task);

/* The k-th name of a list with blanks between; NULL: there is none. `ret` holds it. */
const char *task_name(const char *list, int k, char *ret, size_t bytes);

extern const struct script_module task_module;

#endif
