/*
 * stack.h - versions of the Python packages, and what differs between them.
 *
 * Purpose   quirks_for(stack, model type) runs once per request; code below reads q->logits_upcast, never a version number (make lint).
 *           Each quirk is a row of quirks.def: name, package, the release in which it changed, value before and since, source.
 * Models    a stack is composed: what it does is what the rows of its packages say, each by its own date. A row whose change is only
 *           known to lie between two releases reads as `before` there in quirks_of(), as `since` in quirks_otherwise(); an answer spans both.
 */
#ifndef STACK_STACK_H
#define STACK_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* A release: major * 1000 + minor ("4.40" = 4040, "2.15" = 2015, "0.21" = 21). Patch levels are not told apart. */
typedef uint32_t release;

struct stack {
    release torch, transformers, peft, accelerate, bitsandbytes, deepspeed, flash_attn, liger;
    release causal_conv1d, mamba_ssm, fla; /* 0: not installed */
};

/* Readings of quirks that have more than two. */
enum { LIGER_HEAD_ADDED, LIGER_HEAD_CAST, LIGER_HEAD_KEPT };                /* liger_head_gradient */
enum { AO_KEEPS_STATES, AO_KEEPS_CODES, AO_KEEPS_MAXIMA };                      /* ao_update */
enum { CUBLASLT_TAKEN, CUBLASLT_KEPT, CUBLASLT_SHARED };                   /* cublaslt_workspace */
enum { CUDNN_HEADS_HOPPER_256, CUDNN_HEADS_ALIKE_256 };                      /* cudnn_heads */
enum { FOREACH_NORM_VIEWS, FOREACH_NORM_TENSORS, FOREACH_NORM_PACKED };    /* foreach_norm */
enum { LOAD_COUNTS_WHOLE, LOAD_COUNTS_ALL_SHARED, LOAD_COUNTS_PLANNED }; /* load_counts_shares */
enum { LOAD_TAKES_NOTHING, LOAD_TAKES_ALL, LOAD_TAKES_HALF, LOAD_TAKES_REST, LOAD_TAKES_UNTIED }; /* load_takes_ahead */

struct quirks {
#define QUIRK(name, package, from, before, since, meaning) int name;
#include "stack/quirks.def"
};

struct quirks quirks_of(const struct stack *s); /* of no model in particular */
struct quirks quirks_for(const struct stack *s, const char *model_type);
struct quirks quirks_otherwise(const struct stack *s, const char *model_type); /* undated changes at their earliest */

/* The i-th change that cannot be dated for this stack: its name, NULL behind the last. *ret_meaning: the row's words. */
const char *quirks_undated(const struct stack *s, unsigned i, const char **ret_meaning);

#endif
