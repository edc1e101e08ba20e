/*
 * release.h - which releases there are, when they came, and which stack answers for one that was asked.
 *
 * Purpose   reads "4.40", "4.40.0", "2.2.2+cu121", "0.41.2.post2"; fills what a request leaves out; picks the modelled stack.
 *           Versions are strings: the JSON number 2.10 is 2.1.
 * Source    releases.def (PyPI). Two stacks are modelled, because two were traced: torch 2.2 with transformers 4.40, and torch 2.15
 *           with transformers 5.23.
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

/* release_parse into the member of `package`, which must have been released. */
MUST_CHECK enum err_code stack_name(struct stack *s, enum package package, const char *text, struct err *err);

/*
 * What is 0 becomes the release that was current on the day of the newest package named; with none named, the newest known.
 * (Before a package's first known release: that one.) What is named must be known.
 */
MUST_CHECK enum err_code stack_complete(struct stack *s, struct err *err);

struct stack_answer {
    struct stack by;    /* the modelled stack whose programs answer */
    struct stack other; /* the neighbour on the other side, for low..high; = by where there is none */
    unsigned differing; /* PACKAGE_BIT of each package whose release is not that of `by`: one warning each */
};

/*
 * Exactly a modelled stack: that one. Between two: the older. Before the first: the first.
 * `matters`: PACKAGE_BIT of the packages that the request runs at all; the others never differ.
 */
struct stack_answer stack_modelled(const struct stack *complete, unsigned matters);

#endif
