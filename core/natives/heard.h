/* heard.h - forwards of layers that were heard before: asked again of core/torch without the program. Included by core/natives only. */
#ifndef NATIVES_HEARD_H
#define NATIVES_HEARD_H

#include "natives/nn.h"

enum { HAND_NUMBERS = 128 };

struct hearing {
    struct calls_key key;
    struct module *unit;
    const struct calls *calls; /* NULL: by hand, and written down where `writes` */
    bool writes;
    uint64_t left; /* steps, when it began */
    int n;
    val in[CALLS_INPUTS];
    sv cache; /* the caller's: what it stores there is a result, too; SV_NULL: it is given none */
    bool in_region; /* of a checkpoint, which knows of no cache */
};

bool is_heard(struct natives *n, const struct module *m); /* one of the layers that are alike, and nothing is being written */

/* What a forward is given, in any order that its like would have. false: it holds what no key can. */
bool hearing_begins(struct natives *n, struct hearing *h, struct nn_module *layer, bool in_region);
bool hearing_takes(struct natives *n, struct hearing *h, sv v);
bool hearing_takes_tensor(struct natives *n, struct hearing *h, val v, struct content c);
bool hearing_takes_named(struct natives *n, struct hearing *h, sv name, sv v);
void hearing_begun(struct natives *n, struct hearing *h); /* decides */

/* Its results: of a tuple of `form` items, or one tensor (0). Tensors are held once by the caller. false: the script or the run says why. */
bool hearing_asks_again(struct natives *n, struct hearing *h, val ret[CALLS_RESULTS], uint32_t *form);
void hearing_ends(struct natives *n, struct hearing *h, sv result); /* SV_NULL: it returned nothing */

/* Function.apply(): done by hand each time, within a forward that is written down one call. */
struct hand {
    struct calls_writer *writer; /* NULL: nothing is being written */
    struct calls_book *book;
    uint64_t left;
    int n, n_i;
    val v[CALLS_INPUTS];
    int64_t i[HAND_NUMBERS];
};
void hand_begins(struct natives *n, struct hand *h, const struct script_args *a); /* a: the class, then its arguments */
void hand_ends(struct natives *n, struct hand *h, sv result);
sv function_applied(struct script *s, const struct script_args *a); /* function.c: the same, whether something is written or not */

/* A layer's forward as module_call() calls it. */
sv heard_forward(struct script *s, sv self, const struct script_args *a);

#endif
