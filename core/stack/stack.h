/*
 * stack.h - versions of the Python packages, and what differs between them.
 *
 * Purpose   quirks_of(stack) runs once per request; code below reads q->logits_upcast, never a version number (make lint).
 *           Each quirk is a row of quirks.def: name, package, from, to, value, source.
 */
#ifndef STACK_STACK_H
#define STACK_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* A release: major * 1000 + minor ("4.40" = 4040, "2.15" = 2015, "0.21" = 21). Patch levels are not told apart. */
typedef uint32_t release;

struct stack {
    release torch, transformers, peft, accelerate, bitsandbytes, deepspeed, flash_attn;
};

struct quirks {
#define QUIRK(name, package, from, before, since, meaning) int name;
#include "stack/quirks.def"
#undef QUIRK
};

struct quirks quirks_of(const struct stack *s);

#endif
