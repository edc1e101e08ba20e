/* tensor_index.c - x[..]: slices, None, integers, tensors of indices; python_variable_indexing.cpp. */
#include "natives/tensor.h"

#include <string.h>

static int64_t clamp_index(int64_t i, int64_t n)
{
    i += i < 0 ? n : 0;
    return i < 0 ? 0 : i > n ? n : i;
}

/* The bounds of a slice over a dimension of n. *exact: its stop was written, as n; a start below 0 is no start of 0, even where it comes to that */
static bool bounds(struct script *s, sv slice_v, int64_t n, int64_t *start, int64_t *end, int64_t *step, bool *exact, bool *below)
{
    int64_t got[3] = {0, INT64_MAX, 1};
    sv parts[3] = {0};

    (void)slice_parts(slice_v, parts);
    for (int i = 0; i < 3; i++)
        if (!int_arg(s, parts[i], &got[i]))
            return false;
    if (got[2] < 1) {
        (void)script_raise(s, EXC_ValueError, "step must be greater than zero");
        return false;
    }
    *start = clamp_index(got[0], n);
    *end = clamp_index(got[1], n);
    *end = *end < *start ? *start : *end;
    *step = got[2];
    *exact = got[1] == n;
    *below = got[0] < 0;
    return true;
}

/* Positions of a rising tensor that are cut keep rising; a padded one that loses ones before its end stays padded, one cut within its end is unknown. */
static struct content cut(struct content c, int dim, bool last_dim, int64_t start, int64_t end, int64_t n)
{
    if (is_of_choice(c))
        return content_sliced(c, dim, end - start, n);
    if (c.kind == CONTENT_RISING && last_dim)
        return end - start == 1 ? content_const(c.c + (double)start) : content_is(CONTENT_RISING, c.c + (double)start);
    if (c.kind == CONTENT_PADDED && last_dim && (start || end != n))
        return end <= n - (int64_t)c.c ? content_const(1) : start >= n - (int64_t)c.c ? content_const(0) : end == n ? c : content_unknown();
    if (c.kind == CONTENT_PACKED && last_dim && (start || end != n))
        return !start && end == 1 ? content_const(0) : content_unknown();
    if (c.kind == CONTENT_TEXT && c.c >= 0 && (start || end != n))
        return content_unknown();
    if (c.kind == CONTENT_STAIRS && last_dim && (start || end != n))
        return start == n - 1 ? content_const(c.c) : content_unknown();
    return (c.kind == CONTENT_STEPS || c.kind == CONTENT_MARKS) && (start || end != n) ? content_unknown() : c;
}

/* Rows at places of several dimensions, of what wants a gradient: as at one list of as many places. */
static sv rows_at(struct script *s, struct run *r, val x, val places, struct content c)
{
    const int nd = r->values[places].ndim, of_row = r->values[x].ndim - 1;
    int64_t size[2 * MAX_DIMS] = {0}, n = numel(r, places);

    if (nd + of_row > MAX_DIMS)
        return script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS);
    memcpy(size, r->values[places].size, (size_t)nd * sizeof *size);
    memcpy(size + nd, r->values[x].size + 1, (size_t)of_row * sizeof *size);
    x = index_first(r, OP_INDEX, x, view(r, places, 1, &n));
    return wrap_content(s, r, view(r, x, nd + of_row, size), c.kind == CONTENT_CONST ? c : content_unknown());
}

/* Tensors of indices, all of them, broadcast: gathered into one result; index tensors that have to be expanded are copied first. */
static sv by_tensors(struct script *s, struct tensor *t, val x, uint32_t n, struct tensor *const *index, const int *dims, struct content c)
{
    struct run *r = t->run;
    int64_t size[MAX_DIMS] = {0};
    int nd = 0, first = dims[0], at = 0, rest = r->values[x].ndim;
    val held[MAX_DIMS] = {0}, out;
    int64_t result[2 * MAX_DIMS];

    if (n == 1 && shape_of(index[0])->dtype == DTYPE_BOOL) {
        int64_t chosen = true_count(index[0]);

        for (int d = 0; d < shape_of(index[0])->ndim; d++)
            if (shape_of(index[0])->size[d] != r->values[x].size[first + d])
                return script_raise(s, EXC_IndexError, "The shape of the mask at index 0 does not match the shape of the indexed tensor");
        return chosen < 0 ? script_leave(s, "rows that a mask chooses: how many is data")
                          : wrap_content(s, r, mask_index(r, x, first, value_in(index[0]), chosen), c.kind == CONTENT_CONST ? c : content_unknown());
    }
    if (is_of_choice(c)) /* of one number: what that one's rows are */
        c = n == 1 && numel(r, value_in(index[0])) == 1 && shape_of(index[0])->ndim == 1 ? content_at(c, first, index[0]) : content_unknown();
    if (n == 1 && first == 0 && shape_of(index[0])->ndim == 1)
        return wrap_content(s, r, index_first(r, OP_INDEX, x, value_in(index[0])), c);
    if (n == 1 && shape_of(index[0])->ndim == 1 && shape_of(index[0])->dtype != DTYPE_BOOL)
        return wrap_content(s, r, index_along(r, OP_INDEX, x, first, value_in(index[0])),
                            c.kind == CONTENT_CONST || c.kind == CONTENT_TAKEN ? c : content_unknown());
    if (n == 1 && first == 0 && !shape_of(t)->requires_grad && shape_of(index[0])->dtype != DTYPE_BOOL)
        return wrap_content(s, r, index_rows(r, x, value_in(index[0])), c);
    if (n == 1 && first == 0 && shape_of(index[0])->dtype != DTYPE_BOOL)
        return rows_at(s, r, x, value_in(index[0]), c);
    if (n == 2 && first == 0 && dims[1] == 1 && shape_of(t)->requires_grad && shape_of(index[0])->ndim == 1 && shape_of(index[1])->ndim == 1 &&
        (shape_of(index[0])->size[0] == shape_of(index[1])->size[0] || shape_of(index[1])->size[0] == 1))
        return wrap(s, r, index_pair(r, x, value_in(index[0]), value_in(index[1])));
    for (uint32_t k = 0; k < n; k++) {
        const struct value *i = shape_of(index[k]);

        if (i->dtype == DTYPE_BOOL)
            return script_leave(s, "rows that a mask chooses: how many is data");
        if (dims[k] != first + (int)k)
            return script_leave(s, "tensors of indices with other dimensions between them");
        nd = i->ndim > nd ? i->ndim : nd;
    }
    for (int d = 0; d < nd; d++)
        size[d] = 1;
    for (uint32_t k = 0; k < n; k++)
        for (int d = 0; d < shape_of(index[k])->ndim; d++)
            if (shape_of(index[k])->size[d] != 1)
                size[d + nd - shape_of(index[k])->ndim] = shape_of(index[k])->size[d];
    calls_unheard(r);
    for (uint32_t k = 0; k < n && n > 1; k++)
        held[k] = owned(r, contiguous(r, expand(r, value_in(index[k]), nd, size)));
    for (int d = 0; d < first; d++)
        result[at++] = r->values[x].size[d];
    for (int d = 0; d < nd; d++)
        result[at++] = size[d];
    for (int d = first + (int)n; d < rest; d++)
        result[at++] = r->values[x].size[d];
    if (at > MAX_DIMS)
        return script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS);
    if (shape_of(t)->requires_grad)
        return script_leave(s, "tensors of indices into one that wants a gradient");
    out = factory(r, OP_INDEX, (enum dtype)r->values[x].dtype, at, result);
    for (uint32_t k = n; k-- > 0;)
        if (held[k])
            value_unref(r, held[k]);
    consume(r, x);
    return wrap_content(s, r, out, c.kind == CONTENT_CONST ? c : content_unknown());
}

struct cursor {
    struct tensor *t;
    val x;   /* what the key has made of it so far: a temporary, or the tensor's own */
    int dim; /* the next dimension */
    struct content c;
    struct tensor *index[MAX_DIMS];
    int dims[MAX_DIMS];
    uint32_t n_index;
    sv made[MAX_DIMS]; /* tensors of lists */
    uint32_t n_made;
    bool any;
};

/* x[[0, -1]]: the list becomes a tensor on the host, which is copied to where x is. */
static struct tensor *of_list(struct script *s, struct cursor *c, sv key)
{
    uint32_t n = 0;
    const sv *items = sv_is(key, KIND_LIST) ? seq_items(key, &n) : NULL;
    int64_t size[1] = {n};
    sv made;

    if (!script_charge(s, n / 16))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (items[i].tag != SV_INT)
            return NULL;
    if (!n)
        return NULL;
    made = wrap(s, c->t->run, factory(c->t->run, OP_TO_COPY, DTYPE_INT64, 1, size));
    if (!sv_ok(made))
        return NULL;
    c->made[c->n_made++] = made;
    return as_tensor(s, made);
}

/* TensorAdvancedIndexing.cpp: indices of the host's are copied to where x is. */
static struct tensor *brought(struct script *s, struct cursor *c, struct tensor *index)
{
    const struct value *x = shape_of(index);
    sv made;

    if (!on_device(natives_of(s), c->t)) {
        (void)script_raise(s, EXC_RuntimeError, "indices should be either on cpu or on the same device as the indexed tensor (cpu)");
        return NULL;
    }
    made = wrap_content(s, c->t->run, factory(c->t->run, OP_TO_COPY, (enum dtype)x->dtype, x->ndim, x->size), index->content);
    if (!sv_ok(made))
        return NULL;
    c->made[c->n_made++] = made;
    return as_tensor(s, made);
}

static bool take_slice(struct script *s, struct cursor *c, sv key)
{
    struct run *r = c->t->run;
    int64_t n = size_of(r, c->x, c->dim), start, end, step;
    bool last = c->dim + 1 == r->values[c->x].ndim, exact, below;

    if (!bounds(s, key, n, &start, &end, &step, &exact, &below))
        return false;
    c->c = step == 1 ? cut(c->c, c->dim, last, start, end, n) : c->c.kind == CONTENT_CONST ? c->c : content_unknown();
    if (start || end != n || step != 1 || below || (r->q->full_slices_are_nodes && !exact)) { /* TensorIndexing.h applySlice: length == stop */
        c->x = slice_step(r, c->x, c->dim, start, end, step);
        c->any = true;
    }
    c->dim++;
    return true;
}

static bool take_int(struct script *s, struct cursor *c, int64_t i)
{
    struct run *r = c->t->run;
    int64_t n = size_of(r, c->x, c->dim);
    bool last = c->dim + 1 == r->values[c->x].ndim;

    if (i < -n || i >= n) {
        (void)script_raise(s, EXC_IndexError, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, c->dim,
                           (long long)n);
        return false;
    }
    i += i < 0 ? n : 0;
    c->c = is_of_choice(c->c) ? content_selected(c->c, c->dim, i, n) : cut(c->c, c->dim, last, i, i + 1, n);
    c->x = select_op(r, c->x, c->dim, i);
    c->any = true;
    return true;
}

/* A tensor of no dimension is read, and is a number then: python_variable_indexing.cpp applySlicing */
static bool take_scalar(struct script *s, struct cursor *c, const struct tensor *index)
{
    struct content chosen;

    if (index->content.kind == CONTENT_CONST)
        return take_int(s, c, (int64_t)index->content.c);
    chosen = is_of_choice(c->c) ? content_selected(c->c, c->dim, -1, size_of(c->t->run, c->x, c->dim)) : c->c.kind == CONTENT_CONST ? c->c : content_unknown();
    if (!take_int(s, c, 0))
        return false;
    c->c = chosen;
    return true;
}

static bool take(struct script *s, struct cursor *c, sv key, int skipped)
{
    struct run *r = c->t->run;
    struct tensor *index;

    if (c->dim > r->values[c->x].ndim) { /* behind a second ellipsis */
        (void)script_raise(s, EXC_IndexError, "too many indices for tensor of dimension %d", r->values[c->x].ndim);
        return false;
    }
    if (key.tag == SV_NONE) {
        if (r->values[c->x].ndim >= MAX_DIMS) {
            (void)script_leave(s, "a tensor of more than %d dimensions", MAX_DIMS);
            return false;
        }
        if (is_of_choice(c->c))
            c->c = content_with_none(c->c, c->dim);
        c->x = unsqueeze(r, c->x, c->dim++);
        c->any = true;
        return true;
    }
    if (key.tag == SV_ELLIPSIS) { /* no slices: applySlicing */
        c->dim += skipped;
        return true;
    }
    if (c->dim >= r->values[c->x].ndim) {
        (void)script_raise(s, EXC_IndexError, "too many indices for tensor of dimension %d", r->values[c->x].ndim);
        return false;
    }
    if (sv_is(key, KIND_SLICE))
        return take_slice(s, c, key);
    if (key.tag == SV_INT)
        return take_int(s, c, key.i);
    index = as_tensor(s, key);
    if (index && !shape_of(index)->ndim && !dtype_is_float((enum dtype)shape_of(index)->dtype) && shape_of(index)->dtype != DTYPE_BOOL)
        return take_scalar(s, c, index);
    index = !index ? of_list(s, c, key) : index->run != r ? brought(s, c, index) : index;
    if (script_failed(s))
        return false;
    if (!index) {
        (void)script_leave(s, "a tensor indexed by %s", cls_name(sv_class(s, key)));
        return false;
    }
    c->index[c->n_index] = index;
    c->dims[c->n_index++] = c->dim++;
    return true;
}

/* The keys of x[..]: a tuple's, or those of a list that has a slice, None or .. in it (treatSequenceAsTuple() of python_variable_indexing.cpp). */
static const sv *keys_of(const sv *key, uint32_t *ret_n)
{
    const sv *items = sv_is(*key, KIND_TUPLE) || sv_is(*key, KIND_LIST) ? seq_items(*key, ret_n) : NULL;
    bool many = items && sv_is(*key, KIND_TUPLE);

    for (uint32_t i = 0; items && i < *ret_n && *ret_n < 32 && !many; i++)
        many = sv_is(items[i], KIND_SLICE) || sv_is_none(items[i]) || items[i].tag == SV_ELLIPSIS;
    if (!many)
        *ret_n = 1;
    return many ? items : key;
}

/* TensorIndexing.h count_specified_dimensions(): a mask has as many as it is wide. */
static uint32_t dims_taken(struct script *s, sv key)
{
    const struct tensor *t = as_tensor(s, key);

    if (t && shape_of(t)->dtype == DTYPE_BOOL)
        return (uint32_t)shape_of(t)->ndim;
    return key.tag != SV_NONE && key.tag != SV_ELLIPSIS;
}

/* What all keys make of c->t; false: an exception is set, or the script has ended. */
static bool take_all(struct script *s, struct cursor *c, uint32_t n, const sv *keys)
{
    uint32_t taken = 0;

    if (!script_charge(s, 1))
        return false;
    c->x = value_in(c->t);
    c->c = c->t->content;
    for (uint32_t i = 0; i < n; i++)
        taken += dims_taken(s, keys[i]);
    if (taken > (uint32_t)shape_of(c->t)->ndim) {
        (void)script_raise(s, EXC_IndexError, "too many indices for tensor of dimension %d", shape_of(c->t)->ndim);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (take(s, c, keys[i], shape_of(c->t)->ndim - (int)taken) && !run_dead(c->t->run))
            continue;
        calls_held(c->t->run, CALLED_CONSUME, c->x == value_in(c->t) ? 0 : c->x);
        while (c->n_made)
            sv_drop(s, c->made[--c->n_made]);
        if (!script_failed(s))
            (void)run_failed(s, c->t->run);
        return false;
    }
    return true;
}

/* Such views are written into: their base is known, whatever others are of. */
static void know_base(const struct cursor *c)
{
    if (c->x && c->x != value_in(c->t) && !c->t->param && c->t->run->grad_enabled && !c->t->run->views_known)
        view_is_of(c->t->run, c->x, value_in(c->t));
}

sv tensor_getitem(struct script *s, sv self, sv key)
{
    struct cursor c = {.t = need_tensor(s, self, "[]")};
    uint32_t n;
    const sv *keys = keys_of(&key, &n);
    sv result;

    if (!take_all(s, &c, n, keys))
        return sv_null();
    if (c.n_index) {
        result = by_tensors(s, c.t, c.x, c.n_index, c.index, c.dims, c.c);
        while (c.n_made)
            sv_drop(s, c.made[--c.n_made]);
        return result;
    }
    if (!c.any) { /* x[:]: an alias */
        int64_t rows = size_of(c.t->run, c.x, 0);

        c.x = index_slice(c.t->run, c.x, 0, 0, rows, 1);
    }
    know_base(&c);
    return wrap_content(s, c.t->run, c.x, c.c);
}

/* Keys of which some are tensors; the first of them, or n. */
static uint32_t first_tensor(struct script *s, uint32_t n, const sv *keys)
{
    uint32_t i = 0;

    while (i < n && !as_tensor(s, keys[i]) && !sv_is(keys[i], KIND_LIST))
        i++;
    return i;
}

/* x[index, ..] = y; python_variable_indexing.cpp dispatch_index_put_ */
static bool put_at(struct script *s, struct tensor *t, sv self, uint32_t n, const sv *keys, sv value)
{
    sv all[MAX_DIMS + 2] = {self, value}, made;
    bool followed = is_followed(t) || (as_tensor(s, value) && is_followed(as_tensor(s, value)));
    const struct tensor *from = as_tensor(s, value);
    val out;

    if (from && on_device(natives_of(s), from) && shape_of(from)->dtype != shape_of(t)->dtype) { /* TensorAdvancedIndexing.cpp make_index_put_iterator() */
        (void)script_raise(s, EXC_RuntimeError, "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
                           scalar_type((enum dtype)shape_of(t)->dtype), scalar_type((enum dtype)shape_of(from)->dtype));
        return false;
    }
    if (followed ? !may_be_written(s, t, "elements") : (tensor_written(t), false))
        return false;
    if (!followed && n == 1 && !is_number(value) && as_tensor(s, *keys) && shape_of(as_tensor(s, *keys))->dtype != DTYPE_BOOL) { /* one kernel */
        t->content = content_unknown();
        return true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (n > MAX_DIMS || !as_tensor(s, keys[i])) {
            if (n <= MAX_DIMS && !followed && !sv_is(keys[i], KIND_LIST)) /* beside slices: into a view */
                continue;
            (void)script_leave(s, "elements that a tensor chooses are set, beside a slice or by a list");
            return false;
        } else {
            all[i + 2] = keys[i];
        }
    for (uint32_t i = 0; i < n; i++)
        if (!as_tensor(s, keys[i])) {
            if (is_number(value)) /* is brought to the device */
                calls_unheard(t->run), consume(t->run, factory(t->run, OP_TO_COPY, (enum dtype)shape_of(t)->dtype, 0, NULL));
            t->content = content_unknown();
            return true;
        }
    made = written_formula(s, "index_put_", n + 2, all);
    if (!sv_ok(made))
        return false;
    out = value_in(as_tensor(s, made));
    calls_held(t->run, CALLED_LEND, out);
    sv_drop(s, made);
    made = tensor_becomes(s, t, self, out);
    sv_drop(s, made);
    return sv_ok(made);
}

/* TensorIndexing.h slicePrefix1sSize(), expand_inplace() */
static val as_wide_as(struct run *r, val from, val part)
{
    const struct value *x = &r->values[from], *y = &r->values[part];
    int ones = 0, nd = y->ndim;
    int64_t size[MAX_DIMS];
    bool same = x->ndim == nd && !memcmp(x->size, y->size, (size_t)nd * sizeof *x->size);

    if (same)
        return from;
    while (ones < x->ndim && x->size[ones] == 1)
        ones++;
    memcpy(size, y->size, sizeof size);
    from = view(r, from, x->ndim - ones, x->size + ones);
    x = &r->values[from];
    return x->ndim == nd && !memcmp(x->size, size, (size_t)nd * sizeof *size) ? from : expand(r, from, nd, size);
}

/* x[..] = y where a gradient passes; TensorIndexing.h copy_to() */
static bool copy_to(struct script *s, struct tensor *t, sv self, sv value, struct tensor *from)
{
    const bool on_host = from && !on_device(natives_of(s), from);
    val wide;
    sv done;

    if (!may_be_written(s, t, "elements"))
        return false;
    if (!from || (on_host && !shape_of(from)->ndim)) {
        if (!from && !is_number(value))
            return script_leave(s, "elements are set to what is no number and no tensor"), false;
        done = tensor_becomes(s, t, self, fill_in_place(t->run, value_in(t)));
    } else if (on_host) {
        return script_leave(s, "elements are set to a tensor of the host's, and a gradient passes"), false;
    } else {
        wide = as_wide_as(t->run, value_in(from), value_in(t));
        done = run_dead(t->run) ? run_failed(s, t->run) : tensor_becomes(s, t, self, copy_in_place(t->run, value_in(t), wide));
    }
    sv_drop(s, done);
    return sv_ok(done);
}

/* x[..] = y: written in place, nothing is born but what the right side was; index_put of rows is flash-attn's own. */
bool tensor_setitem(struct script *s, sv self, sv key, sv value)
{
    struct tensor *t = need_tensor(s, self, "[] ="), *from = as_tensor(s, value);
    uint32_t n;
    const sv *keys = keys_of(&key, &n);
    struct cursor c = {.t = t};
    bool done;
    sv part;

    if (first_tensor(s, n, keys) < n)
        return put_at(s, t, self, n, keys, value);
    t->content = content_unknown();
    if (!on_device(natives_of(s), t) || (!is_followed(t) && !(from && is_followed(from)))) {
        tensor_written(t);
        return true;
    }
    if (!take_all(s, &c, n, keys))
        return false;
    if (!c.any)
        return copy_to(s, t, self, value, from);
    know_base(&c);
    part = wrap(s, t->run, c.x);
    done = sv_ok(part) && copy_to(s, as_tensor(s, part), part, value, from);
    sv_drop(s, part);
    return done;
}
