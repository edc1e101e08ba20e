/* tensor.h - tensors, dtypes and devices as the language holds them. Included by core/natives only. */
#ifndef NATIVES_TENSOR_H
#define NATIVES_TENSOR_H

#include "natives/content.h"
#include "natives/natives.h"
#include "torch/calls.h"
#include "torch/ops.h"

struct tensor {
    struct script_object base;
    struct run *run;
    val v;               /* owned; of a parameter that stands in a tree: 0 */
    struct param *param; /* then: whose value it is */
    struct content content;
    int64_t rows;        /* CONTENT_PADDED, flattened: how long a row was */
    bool mapped;         /* by torch.vmap, which calls a function for one element and makes all: what is new beside it is as many */
    struct tensor *next; /* planted: the tensors of the tree */
};

struct dtype_object {
    struct script_object base;
    enum dtype dtype;
};

struct device_object {
    struct script_object base;
    bool cuda;
};

extern const struct script_class tensor_class, parameter_class, dtype_class, device_class;
extern const struct script_native tensor_methods[];
sv tensor_new(struct script *s, const struct script_args *a); /* torch.Tensor(..) */

static inline struct natives *natives_of(struct script *s)
{
    return script_of(s);
}
static inline bool masks_nothing(const struct tensor *mask)
{
    return mask->content.kind == CONTENT_CONST && mask->content.c == 0;
}
struct tensor *as_tensor(struct script *s, sv v);                      /* NULL: it is none; no exception is set */
struct tensor *need_tensor(struct script *s, sv v, const char *where); /* NULL: TypeError is set */
/* The same, of the run of t: a kernel takes tensors of one device, and numbers of values mean nothing in another run. NULL: an exception is set. */
struct tensor *need_beside(struct script *s, const struct tensor *t, sv v, const char *where);
bool stand_together(struct script *s, const struct tensor *t, const struct tensor *other); /* false: RuntimeError is set */

static inline val value_in(const struct tensor *t)
{
    if (!t->param || t->v) /* v: the host's, until the model stands on the device */
        return t->v;
    return t->param->reads ? t->param->reads(t->run, t->param) : t->param->value;
}
static inline struct value *shape_of(const struct tensor *t)
{
    return &t->run->values[value_in(t)];
}

/* Of fully_shard's parameter, while its unit is not gathered, a DTensor's: its shard's, on the host too. */
enum dtype tensor_dtype_told(const struct tensor *t);
static inline bool on_device(const struct natives *n, const struct tensor *t)
{
    return t->run == n->run;
}

/* What an op returned: a tensor object; `self` itself where the op handed its argument back. Fails when the run has. */
sv wrap(struct script *s, struct run *r, val out);
sv wrap_of(struct script *s, struct tensor *self, sv self_sv, val out);
sv wrap_content(struct script *s, struct run *r, val out, struct content c);
sv run_failed(struct script *s, struct run *r);

/* Whether autograd follows what is made of it; such operators that have no row in core/torch are library/_formulas.py's: written_formula(). */
bool is_followed(const struct tensor *t);
sv written_formula(struct script *s, const char *name, uint32_t n, const sv *argv);
sv written_out(struct script *s, const char *file, const char *name, uint32_t n, const sv *argv); /* of another file of library/ */
bool wants_gradient(struct script *s, const struct tensor *t,
                    const char *what); /* true: a node would be made that has no model; it has left */

/* ---- arguments */
bool dtype_arg(struct script *s, sv v, enum dtype *ret); /* absent or None leaves *ret */
bool int_arg(struct script *s, sv v, int64_t *ret);      /* the same; a 0-dim tensor of known content is its value */
bool float_arg(struct script *s, sv v, double *ret);
bool bool_arg(struct script *s, sv v, bool *ret);
bool dim_arg(struct script *s, const struct tensor *t, sv v, int *ret); /* counted from the front; of no dimensions the first, which has no size */
bool new_dim_arg(struct script *s, const struct tensor *t, sv v, int *ret); /* where one more would stand */
struct run *run_arg(struct script *s, sv device);                       /* absent: the host's; NULL: an exception is set */
/* Sizes: a tuple, a list, or integers one by one (v[0..n) or rest). -1 where the exception is set. */
bool sizes_sane(struct script *s, int n, const int64_t *size); /* false: an exception is set, or the script has ended: more than any memory holds */
bool size_grow(struct script *s, int64_t *size, int64_t by);            /* times as large; false as above */
int sizes_arg(struct script *s, uint32_t n, const sv *v, int64_t *ret);     /* -1 among them: what it means is the operator's to know */
int new_sizes_arg(struct script *s, uint32_t n, const sv *v, int64_t *ret); /* of what is made: none below 0 */
sv sizes_value(struct script *s, const struct value *x); /* torch.Size */
bool is_number(sv v);

int64_t true_count(const struct tensor *t); /* how many elements are not zero; -1: data decides */
/* The run knows that something was told by how evenly experts are chosen. */
static inline struct content content_told(struct run *r, struct content c)
{
    r->counts_evenly |= c.kind == CONTENT_CONST && c.n;
    return c;
}
/* chosen.c: what is known of experts that tokens chose, evenly */
struct content content_of_choice(const struct tensor *scores, int dim, int64_t k); /* numbers of the k best along dim */
struct content content_reshaped(const struct tensor *t, const struct value *to);
struct content content_permuted(struct content c, int n, const int *order);
struct content content_without_dim(struct content c, int dim);
struct content content_with_dim(const struct tensor *t, int dim);
struct content content_with_none(struct content c, int dim);
struct content content_at(struct content c, int dim, const struct tensor *one); /* x[.., tensor of one number, ..] */
struct content content_spread(struct content c); /* expand() */
struct content content_selected(struct content c, int dim, int64_t i, int64_t n); /* one of n along dim; i < 0: data knows which */
struct content content_sliced(struct content c, int dim, int64_t length, int64_t n);
struct content content_summed(const struct tensor *t, unsigned dims, bool keepdim); /* a bit each */
struct content content_of_any(const struct tensor *t, unsigned dims, bool keepdim);
struct content content_of_extreme(struct content c, bool greatest);
struct content content_compared(enum script_compare op, const struct tensor *t, double y);
struct content content_beside_each(const struct tensor *numbers, const struct tensor *each, int ndim);
struct content content_scattered(const struct tensor *into, int dim, const struct tensor *index, double value);
struct content content_counted(const struct tensor *numbers, int64_t bins);
double content_share(struct content c, int64_t i);
bool content_listed(struct content c, int64_t i, double *ret); /* the i-th of one dimension; false: data knows it */
bool is_of_choice(struct content c);
/* tensor_index.c */
sv tensor_getitem(struct script *s, sv self, sv key);
bool tensor_setitem(struct script *s, sv self, sv key, sv value);
sv tensor_becomes(struct script *s, struct tensor *t, sv self, val out); /* routing.c: it goes on as what was written into it */
bool may_be_written(struct script *s, struct tensor *t, const char *what); /* where a gradient passes; false: an exception is set, or it has left */
void tensor_written(struct tensor *t);                                     /* where none does */
sv tensor_copied(struct script *s, struct tensor *t, sv self, struct tensor *from); /* t.copy_(from) where a gradient passes */
/* tensor_math.c */
sv tensor_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place);
sv tensor_compare(struct script *s, enum script_compare op, sv a, sv b);
sv tensor_unary(struct script *s, enum script_unary op, sv self);
int tensor_truth(struct script *s, sv self);
sv tensor_item(struct script *s, struct tensor *t);

#endif
