/*
 * release.h - which releases there are, when they came, and what a stack that is named in part stands for.
 *
 * Purpose   reads "4.40", "4.40.0", "2.2.2+cu121", "0.41.2.post2"; fills what a request leaves out.
 *           Versions are strings: the JSON number 2.10 is 2.1.
 * Source    releases.def (PyPI). Newer than the newest known counts as the newest.
 * Errors    ERR_FIELD_VALUE at "/<package>"; the caller puts "/stack" before it (err_under).
 */
#ifndef STACK_RELEASE_H
#define STACK_RELEASE_H

#include "base/err.h"
#include "stack/stack.h"

enum package {
    PACKAGE_TORCH,
    PACKAGE_TRANSFORMERS,
    PACKAGE_PEFT,
    PACKAGE_ACCELERATE,
    PACKAGE_BITSANDBYTES,
    PACKAGE_DEEPSPEED,
    PACKAGE_FLASH_ATTN,
    PACKAGE_LIGER,
    PACKAGE_CAUSAL_CONV1D, /* from here on: not installed unless it is named, and beside whatever else stands */
    PACKAGE_MAMBA_SSM,
    PACKAGE_FLA,
    PACKAGE_COUNT
};

#define PACKAGE_BIT(package) (1U << (package))

const char *package_name(enum package package); /* "flash_attn", as the request and struct stack spell it */
release stack_release(const struct stack *s, enum package package);

/* False when `text` is no version; knows no table. Patch levels, pre- and post-releases and local versions are read over. */
bool release_parse(const char *text, release *ret);

/* 4040 -> "4.40". */
struct release_text { char text[24]; };
struct release_text release_text(release r);

/* release_parse into the member of `package`, which must have been released, or be newer than all that is known. */
MUST_CHECK enum err_code stack_name(struct stack *s, enum package package, const char *text, struct err *err);

/*
 * What is 0 becomes the release that was current on the day of the newest package named; with none named, the newest known.
 * (Before a package's first known release: that one. A package that RUNS_FROM() knows goes by no date: its newest that
 * runs beside what stands.) What is named must be known, or newer: beside it stands the newest of all others.
 * causal_conv1d, mamba_ssm and fla stay 0 where they are not named, and date nothing.
 */
MUST_CHECK enum err_code stack_complete(struct stack *s, struct err *err);

/*
 * Packages of a complete stack that no source was read for: older than the first release of a package that was laid beside the others, which
 * answers for it, or newer than the newest known, which does. PACKAGE_BIT of each; one warning each.
 */
struct stack_gaps {
    unsigned older, newer;
};
struct stack_gaps stack_unread(const struct stack *complete);

/* The release of transformers from which the stack's release of a package that RUNS_FROM() knows runs; 0: any. */
release stack_needs(const struct stack *complete, enum package package);

release stack_first_read(enum package package);
release stack_newest(enum package package);

#endif
