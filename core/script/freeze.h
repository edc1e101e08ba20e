/*
 * freeze.h - what a script is once it has imported, kept, so that others begin there.
 *
 * Purpose   modules run once, however often the model that they describe is made: a frozen script is a copy of its memory, and where in it addresses
 *           are. Thawing copies it into another arena and moves the addresses.
 * How       the script is made twice, at two places: a word that moved with its place is an address of it, all others are equal, or the whole is
 *           not kept.
 * Owner     the caller's arena holds what is kept; read only once it is made. What a frozen script refers to beside its own (image, tables of
 *           natives) must outlive it.
 */
#ifndef SCRIPT_FREEZE_H
#define SCRIPT_FREEZE_H

#include "script/script.h"

struct frozen;

/* Where a script's own memory lies apart from it: its stack, its cache of methods. Also for what a maker needs that nobody keeps. */
MUST_CHECK enum err_code script_new_apart(struct arena *arena, struct arena *apart, const struct image *im,
                                          const struct script_limits *limits, const struct script_host *host, struct script **ret,
                                          struct err *err);

/* Makes a script in `arena` and what its caller has beside it (*root, in the same arena); nothing of it may point into `apart` when it returns.
 * NULL: it cannot be kept. */
typedef struct script *script_maker(void *of, struct arena *arena, struct arena *apart, void **root);

/* NULL: it cannot be kept, or there is no room; then everything goes on without. `scratch` is as it was afterwards. */
const struct frozen *script_freeze(struct arena *keep, struct arena *scratch, script_maker *make, void *of);

/* The same in another arena; NULL: no room. */
const struct frozen *script_frozen_copy(const struct frozen *f, struct arena *to);

/* Another script that stands there, and its root; its stack lies in `apart`. NULL: no room. */
struct script *script_thaw(const struct frozen *f, struct arena *arena, struct arena *apart, const struct script_limits *limits,
                           const struct script_host *host, void **ret_root);

/*
 * A script that stands again where it stood, again and again, after each of its calls. It rests: nobody's call is running. All that it pushed to the arena that
 * it was thawed in lies behind what was thawed, which calls rarely write: where none did, it stays as it is, and the rest is put
 * back. What is remembered of sites, names and layouts stays and lies behind (64 KB or so; where that is full, in the arena of its run, and the script is
 * stirred). Of what was thawed nothing dies, and counts are not put back.
 */
bool script_rests(const struct script *s);
void script_may_stay(struct script *s, const struct frozen *of); /* as it was thawed */
unsigned char *script_thawed_end(const struct script *s);
size_t script_itself_bytes(void);
void script_stands(struct script *s, void *itself); /* *itself: what it is, to be put back */
bool script_is_stirred(const struct script *s);     /* since: what was thawed was written, too */
void script_stands_again(struct script *s, const void *itself);
void script_moves_on(struct script *s, struct arena *arena); /* new memory is that one's from here on */
void script_host_of(struct script *s, void *of); /* what script_of() answers from here on */
size_t script_frozen_bytes(const struct frozen *f);

#endif
