/*
 * play_inside.h - inside play.h: one play, a deep run from two shallow ones, another size of a run that was kept. Seen by play*.c, nobody else.
 */
#ifndef TRAIN_PLAY_INSIDE_H
#define TRAIN_PLAY_INSIDE_H

#include "meters/resize.h"
#include "train/play.h"

/* A run, whose tape alone has stayed. */
struct kept_run {
    struct trainer *t;
    uint64_t host_bytes, host_bytes_of_all;
    const uint32_t *role; /* play_roles() of a tree that has passed, where t->model.tree is another rank's; NULL: it stands */
    struct trainer *costs; /* its log, and what of it is counted, as LOOK_COSTS has them; NULL: nobody told */
};

enum resizable { UNPREPARED, PREPARED, REFUSED };

struct kept {
    struct kept *next;                         /* of other ranks, or of sizes at which operators take other paths */
    uint32_t micro_batch_size, seq_len_tokens; /* as it is now */
    struct arch arch;
    struct step step; /* as it was played: `deep.costs` are of that size */
    struct device device;
    bool live_blocks_only, logged;
    struct kept_run deep;
    enum resizable state;
    struct resizing z;
};

/* play.c: all that has to be the same but batch and length */
void play_without_size(const struct step *step, struct step *ret);

/* `log`, as a run of costs alone would leave it: what is counted as `of` has it, and so many events. NULL: there is no room */
struct trainer *play_costs_of(const struct trainer *of, struct work *log, uint32_t events, struct arena *arena);

/* In memory of the caller's, who gives back what stands behind it; NULL: there is no room */
struct trainer *play_copy_costs(const struct trainer *of, struct arena *arena);

/* play_once.c */
/* Whether a run that is played for memory has the step in which one of costs alone ends, before its last or as its last; a log of more micro-steps has other
 * ones between. Of a rank beside the first, and of stages, nobody asks. */
bool play_tells_costs(const struct play_question *q);
enum err_code play_no_room(struct err *err);
void play_look_at_host(struct kept_run *k); /* what of it lies on the host */
enum err_code play_once(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err);
enum err_code play_kept(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err); /* with the next of these */
enum err_code play_passing(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err); /* its tree is gone with the next */
/* With the log that LOOK_COSTS would have, too. */
enum err_code play_passing_with_costs(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err);
const uint32_t *play_roles(const struct tree *tree, const struct arch *arch, struct arena *arena); /* by module: alike for those that do the same */
uint32_t play_few_layers(const struct play_question *q);
bool play_is_deep(const struct play_question *q); /* so many layers that models of a few of them are cheap beside it */

/* play_rank.c: play_kept() of a rank beside `first`, whose tree stands for both: modules are the same on all. */
enum err_code play_beside(const struct play_question *q, const struct kept_run *first, struct arena *arena, struct kept_run *ret, struct err *err);
struct kept *play_first_kept(const struct arena *arena, uint32_t *ret_n); /* of those that are kept, *ret_n in all */

/* play_deep.c */
bool play_may_be_deepened(const struct play_question *q); /* nothing of it is known to fill over layers */
/* *laid_out: it was not played. */
enum err_code play_deep(const struct play_question *q, struct arena *arena, struct kept_run *ret, bool *laid_out, struct err *err);

/* The log of a deep run's last step, laid out: nothing else of it is told, but what it counts. False: it has to be played; `arena` is as it was. */
bool play_costs(const struct play_question *q, struct arena *arena, struct taped *ret);

/* Its module's number; 0: there is none. */
static inline uint32_t play_head(const struct trainer *t)
{
    return t->model.tree.head ? t->model.tree.head->number : 0;
}

/* play_few.c: play_passing(), or what it would leave but for the tree. */
struct few_played {
    struct kept_run run;
    uint32_t head; /* the module that is the head; 0: there is none */
    bool resized;
};
enum err_code play_few(const struct play_question *q, struct arena *arena, struct few_played *ret, struct err *err);

/* The same of one that was asked for before and lies aside, as it is: NULL: it does not. Nothing but its tape and what is counted is told of its trainer. */
const struct rows_of_run *play_few_again(const struct play_question *q, struct arena *arena, struct kept_run *ret);

/* play_size.c: false: it cannot be made of what was kept, which is as it was. */
bool play_takes_size(struct kept *k, const struct step *step, struct arena *arena);

#endif
