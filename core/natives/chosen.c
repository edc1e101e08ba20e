/*
 * chosen.c - what is known of experts that tokens chose: the description of the batch says that each got as many as any other, or the first so many times that.
 *
 * From topk() or argmax() of a router's scores on, through one_hot(), sums and comparisons, to what a loop over experts reads of data:
 * nonzero(), where(mask), tolist(). An expert's rows are as many as fit evenly, at least one; a list of all has what is left over in its first.
 */
#include "natives/tensor.h"

#include <math.h>

static struct content with(struct content c, enum content_kind kind, double total)
{
    c.kind = kind;
    c.c = total;
    return c;
}

/* A number that would be another where they crowd. */
static struct content evenly(struct content c, double number)
{
    return with(c, CONTENT_CONST, number);
}

/* How many of them chose the first, on which they crowd; the others share what is left. */
static double crowd(struct content c)
{
    double n = floor(c.c / c.n * c.skew);

    return n < c.c ? n : c.c;
}

static bool is_even(struct content c)
{
    return c.skew <= 1 || c.n < 2;
}

/* i < 0: data knows which, one of the many */
static struct content one_of(struct content c, double i)
{
    double share = is_even(c) ? floor(c.c / c.n) : i == 0 ? crowd(c) : floor((c.c - crowd(c)) / (c.n - 1));

    return with(c, CONTENT_TAKEN, share < 1 ? 1 : share);
}

struct content content_of_choice(const struct tensor *scores, int dim, int64_t k)
{
    const struct value *x = shape_of(scores);
    double most, skew = scores->run->expert_skew; /* each token has an expert once */

    if (!dtype_is_float((enum dtype)x->dtype) || !x->ndim || x->size[dim] < 1 || x->size[dim] > UINT16_MAX)
        return content_unknown();
    most = (double)x->size[dim] / (double)(k < 1 ? 1 : k);
    return (struct content){.kind = CONTENT_CHOSEN, .n = (uint16_t)x->size[dim], .c = (double)x->size[dim], .skew = skew < most ? skew : most};
}

bool is_of_choice(struct content c)
{
    return c.kind >= CONTENT_ROWS;
}

static double share_of_crowded(struct content c, int64_t i)
{
    double first = crowd(c), left = c.c - first, least = floor(left / (c.n - 1)), more = left - least * (c.n - 1), before = (double)i;

    if (c.kind == CONTENT_SHARES)
        return i ? least + (before <= more) : first;
    return first + least * before + (before < more ? before : more);
}

double content_share(struct content c, int64_t i)
{
    double least = floor(c.c / c.n), more = c.c - least * c.n;

    if (i >= c.n)
        return c.kind == CONTENT_SHARES ? 0 : c.c;
    if (!is_even(c))
        return share_of_crowded(c, i);
    if (c.kind == CONTENT_SHARES)
        return least + ((double)i < more);
    return least * (double)(i + 1) + ((double)i + 1 < more ? (double)i + 1 : more);
}

bool content_listed(struct content c, int64_t i, double *ret)
{
    if (c.kind == CONTENT_SHARES || c.kind == CONTENT_OFFSETS)
        *ret = content_share(c, i);
    else if (c.kind == CONTENT_CONST || c.kind == CONTENT_RISING)
        *ret = c.c + (c.kind == CONTENT_RISING ? (double)i : 0);
    else
        return false;
    return true;
}

/* Where the dimension of experts lies in another shape of as many elements; -1: nowhere. */
static int dim_in(const struct value *from, int dim, const struct value *to)
{
    int64_t after = 1, seen = 1;

    for (int d = dim + 1; d < from->ndim; d++)
        after *= from->size[d];
    for (int d = to->ndim; d-- > 0; seen *= to->size[d])
        if (seen == after && to->size[d] == from->size[dim])
            return d;
    return -1;
}

static int wide_dims(const struct value *x)
{
    int n = 0;

    for (int d = 0; d < x->ndim; d++)
        n += x->size[d] > 1;
    return n;
}

struct content content_reshaped(const struct tensor *t, const struct value *to)
{
    const struct value *x = shape_of(t);
    struct content c = t->content;
    int dim;

    switch (c.kind) {
    case CONTENT_CHOSEN:
    case CONTENT_TAKEN:
        return c;
    case CONTENT_HOT:
        dim = dim_in(x, c.dim, to);
        c.dim = (int16_t)dim;
        return dim < 0 ? content_unknown() : c;
    case CONTENT_SHARES:
    case CONTENT_OFFSETS:
        return wide_dims(to) <= 1 ? c : content_unknown();
    case CONTENT_ROWS:
        return to->ndim == 1 ? with(c, CONTENT_RISING, c.c) : to->ndim > 1 && to->size[0] == x->size[0] ? c : content_unknown();
    case CONTENT_TEXT:
        return c.c < 0 || to->ndim == x->ndim ? c : content_unknown();
    default:
        return c;
    }
}

struct content content_permuted(struct content c, int n, const int *order)
{
    if (c.kind == CONTENT_HOT)
        for (int i = 0; i < n; i++)
            if (order[i] == c.dim) {
                c.dim = (int16_t)i;
                return c;
            }
    return c.kind == CONTENT_CONST || c.kind == CONTENT_CHOSEN || c.kind == CONTENT_TAKEN || (c.kind == CONTENT_TEXT && c.c < 0) ? c : content_unknown();
}

struct content content_without_dim(struct content c, int dim)
{
    if (c.kind == CONTENT_HOT && c.dim > dim)
        c.dim--;
    return c;
}

struct content content_with_none(struct content c, int dim)
{
    if (c.kind == CONTENT_HOT && c.dim >= dim)
        c.dim++;
    if (c.kind == CONTENT_ROWS && !dim)
        return content_unknown();
    return c;
}

struct content content_with_dim(const struct tensor *t, int dim)
{
    if (t->content.kind == CONTENT_RISING && dim == shape_of(t)->ndim)
        return dim == 1 ? content_is(CONTENT_ROWS, t->content.c) : content_unknown();
    return content_with_none(t->content, dim);
}

/* The dimension stays, of one element */
struct content content_at(struct content c, int dim, const struct tensor *one)
{
    if (c.kind == CONTENT_HOT && c.dim == dim)
        return one->content.kind != CONTENT_CONST ? one_of(c, -1) : one->content.c >= c.n ? content_const(0) : one_of(c, one->content.c);
    return c.kind == CONTENT_CHOSEN ? c : content_unknown();
}

struct content content_spread(struct content c)
{
    return c.kind > CONTENT_CHOSEN || c.kind == CONTENT_ROWS ? content_unknown() : c;
}

/* x[.., i, ..]; i < 0: data knows which */
struct content content_selected(struct content c, int dim, int64_t i, int64_t n)
{
    switch (c.kind) {
    case CONTENT_CHOSEN:
        return c;
    case CONTENT_HOT:
        if (c.dim == dim)
            return i >= c.n ? content_const(0) : one_of(c, (double)i);
        return content_without_dim(with(c, CONTENT_HOT, c.c / (double)n), dim);
    case CONTENT_SHARES:
    case CONTENT_OFFSETS:
        return n == 1 ? c : i >= 0 ? evenly(c, content_share(c, i)) : content_unknown();
    case CONTENT_ROWS:
        return dim ? content_is(CONTENT_RISING, c.c) : i >= 0 ? content_const(c.c + (double)i) : content_unknown();
    default:
        return content_unknown();
    }
}

struct content content_sliced(struct content c, int dim, int64_t length, int64_t n)
{
    if (length == n || c.kind == CONTENT_CHOSEN)
        return c;
    if (c.kind == CONTENT_HOT && c.dim != dim)
        return with(c, CONTENT_HOT, c.c * (double)length / (double)n);
    return content_unknown();
}

struct content content_summed(const struct tensor *t, unsigned dims, bool keepdim)
{
    const struct value *x = shape_of(t);
    struct content c = t->content;
    bool all = true; /* but experts */
    int gone = 0;

    for (int d = 0; d < x->ndim; d++)
        all = all && (d == c.dim || (dims >> d & 1) || x->size[d] == 1);
    switch (c.kind) {
    case CONTENT_SHARES:
        return content_const(c.c);
    case CONTENT_TAKEN:
        return dims + 1 == 1u << x->ndim ? evenly(c, c.c) : c;
    case CONTENT_HOT:
        if (dims >> c.dim & 1) {
            double rows = (double)numel(t->run, value_in(t)) / (double)x->size[c.dim];

            return dims + 1 == 1u << x->ndim ? content_const(c.c) : dims == 1u << c.dim ? content_const(c.c / rows) : content_unknown();
        }
        if (all)
            return with(c, CONTENT_SHARES, c.c);
        for (int d = 0; d < c.dim && !keepdim; d++)
            gone += (dims >> d & 1) != 0;
        c.dim = (int16_t)(c.dim - gone);
        return c;
    default:
        return content_unknown();
    }
}

struct content content_of_any(const struct tensor *t, unsigned dims, bool keepdim)
{
    struct content c = content_summed(t, dims, keepdim);

    return c.kind == CONTENT_SHARES ? evenly(c, 1) : c.kind == CONTENT_CONST ? evenly(c, c.c > 0) : c;
}

struct content content_of_extreme(struct content c, bool greatest)
{
    switch (c.kind) {
    case CONTENT_CHOSEN:
        return evenly(c, greatest ? c.n - 1 : 0);
    case CONTENT_SHARES:
        if (!is_even(c))
            return evenly(c, greatest ? content_share(c, 0) : floor((c.c - crowd(c)) / (c.n - 1)));
        return evenly(c, greatest ? ceil(c.c / c.n) : floor(c.c / c.n));
    case CONTENT_OFFSETS:
        return greatest ? content_const(c.c) : evenly(c, content_share(c, 0));
    case CONTENT_TAKEN:
        return evenly(c, greatest);
    case CONTENT_HOT:
        return content_const(greatest);
    default:
        return content_unknown();
    }
}

struct content content_compared(enum script_compare op, const struct tensor *t, double y)
{
    struct content c = t->content;

    switch (c.kind) {
    case CONTENT_CHOSEN:
        if (op == COMPARE_EQ && y >= 0 && y < c.n)
            return one_of(with(c, CONTENT_HOT, (double)numel(t->run, value_in(t))), y);
        if (y >= c.n && (op == COMPARE_LT || op == COMPARE_GE || op == COMPARE_EQ || op == COMPARE_NE))
            return content_const(op == COMPARE_LT || op == COMPARE_NE);
        return y == 0 && (op == COMPARE_GE || op == COMPARE_LT) ? content_const(op == COMPARE_GE) : content_unknown();
    case CONTENT_HOT:
    case CONTENT_TAKEN:
        return (y == 0 && (op == COMPARE_GT || op == COMPARE_NE)) || (y == 1 && (op == COMPARE_EQ || op == COMPARE_GE)) ? c : content_unknown();
    case CONTENT_SHARES: /* all experts are hit; a place more that some count is nobody's */
        if (y == 0 && (op == COMPARE_GT || op == COMPARE_NE))
            return numel(t->run, value_in(t)) > c.n ? with(c, CONTENT_SHARES, c.n) : evenly(c, 1);
        return y == 0 && (op == COMPARE_EQ || op == COMPARE_LE) && numel(t->run, value_in(t)) == c.n ? evenly(c, 0) : content_unknown();
    default:
        return content_unknown();
    }
}

/* numbers of experts beside each of them: a column for each */
struct content content_beside_each(const struct tensor *numbers, const struct tensor *each, int ndim)
{
    struct content c = numbers->content;
    const struct value *x = shape_of(numbers), *e = shape_of(each);

    if (c.kind != CONTENT_CHOSEN || each->content.kind != CONTENT_RISING || each->content.c != 0 || !x->ndim || !e->ndim)
        return content_unknown();
    if (x->size[x->ndim - 1] != 1 || e->size[e->ndim - 1] != c.n || numel(each->run, value_in(each)) != c.n)
        return content_unknown();
    c.dim = (int16_t)(ndim - 1);
    return with(c, CONTENT_HOT, (double)numel(numbers->run, value_in(numbers)));
}

/* x.scatter(dim, index, number) of zeros */
struct content content_scattered(const struct tensor *into, int dim, const struct tensor *index, double value)
{
    struct content c = index->content;

    if (into->content.kind != CONTENT_CONST || into->content.c != 0 || value != 1 || c.kind != CONTENT_CHOSEN)
        return content_unknown();
    c.dim = (int16_t)dim;
    return with(c, CONTENT_HOT, (double)numel(index->run, value_in(index)));
}

/* bincount(numbers), histc(numbers, bins) */
struct content content_counted(const struct tensor *numbers, int64_t bins)
{
    struct content c = numbers->content;

    return c.kind == CONTENT_CHOSEN && bins >= c.n ? with(c, CONTENT_SHARES, (double)numel(numbers->run, value_in(numbers))) : content_unknown();
}
