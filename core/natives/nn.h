/* nn.h - torch.nn as the language holds it: modules, their children in order, parameters. Included by core/natives only. */
#ifndef NATIVES_NN_H
#define NATIVES_NN_H

#include "natives/tensor.h"

enum entry_kind { ENTRY_MODULE, ENTRY_PARAMETER, ENTRY_BUFFER };

struct nn_entry {
    sv name;
    uint8_t kind; /* enum entry_kind */
};

/* Parameters in whose place a parametrization stands: their attributes are gone, and who asks for one has it made (nn/utils/parametrize.py). */
enum { COVERED_MAX = 4 };
struct nn_covered {
    uint32_t n;
    sv name[COVERED_MAX], value[COVERED_MAX];
};

struct nn_module {
    struct script_object base;
    struct module *m; /* its node, once the model stands in a tree */
    struct nn_entry *entries;
    uint32_t n, cap;
    sv items;  /* of a ModuleList or Sequential: a list; of a ModuleDict: a dict; SV_NULL: neither */
    bool leaf; /* forward is native: core/torch runs it */
    bool eval;
    uint8_t kind; /* enum module_kind of the native class */
    int64_t in, out;
    double p;
    bool padding_idx, affine, in_place, hooked; /* hooked: by the model's own hooks, see library/nn/_module.py */
    const struct nn_covered *covered; /* while forward runs; NULL: none */
};

bool natives_is_replaced(const struct module *m); /* of a class with a forward of its own: something else stands there */
extern const struct script_class module_class, module_list_class, module_dict_class, sequential_class, linear_class, conv1d_class,
    embedding_class, layer_norm_class, dropout_class, identity_class, buffer_class;
extern const struct script_module nn_module_table;

static inline struct nn_module *nn_of(sv v)
{
    return (struct nn_module *)(void *)v.o;
}
bool module_own(struct script *s, sv self, sv name, sv value, enum entry_kind kind); /* a child, parameter or buffer under a name */
struct nn_module *as_module(struct script *s, sv v);                                 /* NULL: it is none */

/* Calls f(of, name, value) for each child module, in order. */
typedef bool (*child_visitor)(struct script *s, void *of, sv name, sv child);
enum { MODULES_DEEPEST = 300 }; /* within one another: C calls itself, as nn.Module does: RecursionError */
bool children_visit(struct script *s, sv module, child_visitor visit, void *of);

sv module_call(struct script *s, sv self, const struct script_args *a);
sv module_getattr(struct script *s, sv self, sv name);

#endif
