/*
 * refusals.h - what a model class of a release raises on, and another release's does not.
 *
 * Purpose   stack_refuses() runs once per request, in train/resolve.c: a step that PyTorch never takes is a reason, not a figure.
 * Source    a row of refusals.c each, with the file it was read in.
 */
#ifndef STACK_REFUSALS_H
#define STACK_REFUSALS_H

#include "stack/stack.h"

enum refusal {
    REFUSAL_PADDING_RIGHT, /* flash_attention_2 on rows that end in padding, beside a KV cache */
    REFUSAL_ROPE,          /* rope_scaling of other types than linear and dynamic */
    REFUSAL_UNEVEN_HEADS   /* heads that do not divide the width, whatever head_dim says */
};

#define NO_RELEASE ((release)-1)

/* 0: that release's class takes it. Else the first one after it that does, NO_RELEASE where none is known. */
release stack_refuses(enum refusal what, const char *model_type, const struct stack *s);

#endif
