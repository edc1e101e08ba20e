/* Single operators against what PyTorch 2.15 and 2.2 allocated for them, forward and backward: tests/data/ops. */
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "torch/autograd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4 << 20, LINE = 1 << 12, FIELDS = 6, EVENTS = 128 };

static const struct run_limits limits = {.values = 512, .storages = 512, .nodes = 128, .births = 1024};

/* --- one operator -------------------------------------------------------------------------------------------------------------- */

struct row {
    char *op, *what, *dtype, *shape, *pass, *events;
    int64_t size[MAX_DIMS];
    int n;
    enum dtype type;
};

static val fresh(struct run *r, enum dtype dtype, int n, const int64_t *size)
{
    val v = local(r, empty(r, dtype, n, size));

    if (dtype_is_float(dtype))
        require_grad(r, v);
    return v;
}

static val attention(struct run *r, const struct row *row)
{
    int64_t b = row->size[0], s = row->size[1], heads[3] = {row->size[2], row->size[3], row->size[3]}, d = row->size[4];
    val in[3], mask = 0;

    for (int i = 0; i < 3; i++)
        in[i] = local(r, transpose(r, fresh(r, row->type, SHAPE(b, s, heads[i], d)), 1, 2));
    if (strstr(row->what, "mask"))
        mask = local(r, empty(r, strstr(row->what, "bool") ? DTYPE_BOOL : row->type, SHAPE(b, 1, s, s)));
    return scaled_dot_product_attention(r, in[0], in[1], in[2], mask, strstr(row->what, "dropout") ? 0.1 : 0, !mask && !strstr(row->what, "full"),
                                        heads[0] != heads[1]);
}

static val embedding(struct run *r, const struct row *row)
{
    val weight = fresh(r, row->type, 2, row->size + 1), ids = fresh(r, DTYPE_INT64, SHAPE(1, row->size[0]));

    return embedding_op(r, weight, ids, false);
}

static val norm(struct run *r, const struct row *row)
{
    val x = fresh(r, row->type, 2, row->size), weight = 0, bias = 0;

    if (strcmp(row->what, "plain"))
        weight = fresh(r, row->type, 1, row->size + 1);
    if (!strcmp(row->what, "bias"))
        bias = fresh(r, row->type, 1, row->size + 1);
    return layer_norm(r, x, weight, bias);
}

static val expanded(struct run *r, const struct row *row)
{
    int64_t size[MAX_DIMS];

    memcpy(size, row->size, sizeof size);
    size[!strcmp(row->what, "rows") ? 0 : 1] = 1;
    return expand(r, fresh(r, row->type, row->n, size), row->n, row->size);
}

static val entropy(struct run *r, const struct row *row)
{
    val logits = fresh(r, row->type, 2, row->size), target = fresh(r, DTYPE_INT64, 1, row->size);

    return cross_entropy(r, logits, target);
}

static val plain(struct run *r, const struct row *row)
{
    val x = fresh(r, row->type, row->n, row->size);

    if (!strcmp(row->op, "cumsum"))
        return cumsum(r, x, 1);
    if (!strcmp(row->op, "softmax"))
        return softmax(r, x, DTYPE_COUNT);
    if (!strcmp(row->op, "mean"))
        return mean_last(r, x);
    return !strcmp(row->what, "all") ? sum_all(r, x) : sum_dim(r, x, -1, true);
}

/* tokens, inner, columns, experts */
static val grouped(struct run *r, const struct row *row)
{
    const int64_t *n = row->size;
    bool turned = !strcmp(row->what, "turned");
    val x = fresh(r, row->type, 2, n), w = turned ? fresh(r, row->type, SHAPE(n[3], n[2], n[1])) : fresh(r, row->type, SHAPE(n[3], n[1], n[2]));

    return grouped_mm(r, x, turned ? local(r, transpose(r, w, 1, 2)) : w, fresh(r, DTYPE_INT32, 1, n + 3));
}

static const struct {
    const char *op;
    val (*run)(struct run *r, const struct row *row);
} operators[] = {{"grouped_mm", grouped}, {"attention", attention}, {"embedding", embedding}, {"layer_norm", norm}, {"expand", expanded}, {"cross_entropy", entropy},
                 {"sum", plain},           {"mean", plain},          {"softmax", plain},   {"cumsum", plain}};

/* --- the table ----------------------------------------------------------------------------------------------------------------- */

static bool row_read(char *line, struct row *ret)
{
    char **fields[FIELDS] = {&ret->op, &ret->what, &ret->dtype, &ret->shape, &ret->pass, &ret->events}, *end;

    memset(ret, 0, sizeof *ret);
    line[strcspn(line, "\n")] = 0;
    for (int i = 0; i < FIELDS; i++) {
        if (!line)
            return false;
        *fields[i] = line;
        line = strchr(line, ',');
        if (line)
            *line++ = 0;
    }
    for (const char *s = ret->shape; *s && ret->n < MAX_DIMS; s = *end ? end + 1 : end)
        ret->size[ret->n++] = strtoll(s, &end, 10);
    for (ret->type = 0; ret->type < DTYPE_COUNT && strcmp(dtype_name(ret->type), ret->dtype);)
        ret->type++;
    return ret->type < DTYPE_COUNT;
}

/* The events from `first` on in the table's words; what was born before does not count. */
static void written(const struct run *r, uint32_t first, char *ret, size_t room)
{
    uint32_t born[EVENTS], n_born = 0;
    size_t n = 0;

    *ret = 0;
    for (uint32_t i = first; i < r->n_events; i++) {
        uint32_t block = r->events[i] & EVENT_BLOCK, k = 0;

        if (!(r->events[i] & EVENT_DEATH)) {
            const char *op = op_rows[r->births[block].op].aten;

            ck_assert_uint_lt(n_born, EVENTS);
            born[n_born++] = block;
            n += (size_t)snprintf(ret + n, room - n, "%s+%llu:%s", n ? " " : "", (unsigned long long)r->births[block].bytes,
                                  strncmp(op, "aten::", 6) ? op : op + 6);
        } else {
            while (k < n_born && born[k] != block)
                k++;
            if (k < n_born)
                n += (size_t)snprintf(ret + n, room - n, "%s-%u", n ? " " : "", k);
        }
        ck_assert_uint_lt(n, room);
    }
}

/* Deaths between two births in rising order: to the allocator it is one moment. */
static void sorted(const char *events, char *ret)
{
    unsigned long dead[EVENTS];
    size_t n = 0;
    char *at = ret;

    for (const char *s = events; *s || n;) {
        size_t length = strcspn(s, " ");

        if (*s == '-') {
            unsigned long k = strtoul(s + 1, NULL, 10);
            size_t i = n++;

            for (; i > 0 && dead[i - 1] > k; i--)
                dead[i] = dead[i - 1];
            dead[i] = k;
        } else {
            for (size_t i = 0; i < n; i++)
                at += sprintf(at, " -%lu", dead[i]);
            n = 0;
            at += sprintf(at, " %.*s", (int)length, s);
        }
        s += length + (s[length] == ' ');
    }
    *at = 0;
}

static void judge(const struct run *r, uint32_t first, const struct row *row, const char *file)
{
    static char events[LINE * 2], ours[LINE * 2], truth[LINE * 2];

    written(r, first, events, sizeof events);
    sorted(events, ours);
    sorted(row->events, truth);
    ck_assert_msg(!r->error.code, "%s: %s %s %s: %s", file, row->op, row->what, row->shape, r->error.detail);
    ck_assert_msg(!strcmp(ours, truth), "%s: %s %s %s %s %s:\nwalked %s\ntraced %s", file, row->op, row->what, row->dtype, row->shape, row->pass,
                  ours, truth);
}

/* A row of forward, and the row of backward that may follow it. */
static void check_table(const char *file, const struct stack *stack, const struct device *device, int least, bool cudnn)
{
    static char line[LINE];
    void *block = malloc(ROOM);
    struct quirks q = quirks_of(stack);
    struct run r = {0};
    struct frame f = {0};
    FILE *table = fopen(file, "r");
    val out = 0, gradient = 0;
    int n = 0;

    ck_assert_msg(table && fgets(line, sizeof line, table), "%s", file);
    while (fgets(line, sizeof line, table)) {
        struct row row;
        uint32_t first;
        size_t i = 0;

        ck_assert_msg(row_read(line, &row), "%s: row %d", file, n);
        if (!strcmp(row.pass, "forward")) {
            struct arena a;
            struct err err;

            arena_init(&a, block, ROOM);
            ck_assert(!run_init(&r, &a, &q, *device, limits, &err));
            r.grad_enabled = true;
            r.cudnn_attention &= cudnn;
            f = frame_enter(&r);
            while (i < sizeof operators / sizeof *operators && strcmp(operators[i].op, row.op))
                i++;
            ck_assert_msg(i < sizeof operators / sizeof *operators, "no operator %s", row.op);
            /* inputs are born first: the table begins behind them */
            out = local(&r, operators[i].run(&r, &row));
            first = 0;
            while (first < r.n_events && (r.events[first] & EVENT_DEATH || r.births[r.events[first]].op == OP_EMPTY))
                first++;
            judge(&r, first, &row, file);
            gradient = local(&r, pointwise_op(&r, OP_EMPTY, dtype_of(&r, out), out, 0));
        } else {
            r.stage = STAGE_BACKWARD;
            first = r.n_events;
            run_graph(&r, 1, &out, &gradient);
            judge(&r, first, &row, file);
            (void)frame_leave(&r, f, 0);
        }
        n++;
    }
    ck_assert_int_ge(n, least);
    (void)fclose(table);
    free(block);
}

static const struct device a10g = {.cc_major = 8, .cc_minor = 6, .multiprocessors = 80, .threads_per_multiprocessor = 1536},
                           rtx5090 = {.cc_major = 12, .cc_minor = 0, .multiprocessors = 170, .threads_per_multiprocessor = 1536},
                           b200 = {.cc_major = 10, .cc_minor = 0, .multiprocessors = 148, .threads_per_multiprocessor = 2048},
                           h100 = {.cc_major = 9, .cc_minor = 0, .multiprocessors = 132, .threads_per_multiprocessor = 2048};

static const struct stack measured = {.torch = 2011, .transformers = 5017, .peft = 21};

static const struct table {
    const char *file;
    const struct stack *stack;
    const struct device *device;
    int least;
    bool cudnn; /* its attention ran: an H100's own; elsewhere it was switched off */
} tables[] = {
    {"tests/data/ops/torch-2.15.csv", &traced_new, &traced_device, 600, false},
    {"tests/data/ops/torch-2.2.csv", &traced_old, &traced_device, 600, false},
    {"tests/data/ops/torch-2.15-sm_86.csv", &traced_new, &a10g, 200, false},
    {"tests/data/ops/torch-2.2-sm_86.csv", &traced_old, &a10g, 200, false},
    {"tests/data/ops/torch-2.15-sm_80.csv", &traced_new, &traced_device, 200, false},
    {"tests/data/ops/torch-2.2-sm_80.csv", &traced_old, &traced_device, 200, false},
    {"tests/data/ops/torch-2.15-sm_120.csv", &traced_new, &rtx5090, 200, false},
    {"tests/data/ops/torch-2.15-sm_90.csv", &traced_new, &h100, 200, false},
    {"tests/data/ops/torch-2.2-sm_90.csv", &traced_old, &h100, 200, false},
    {"tests/data/ops/torch-2.11-cudnn-h100.csv", &measured, &h100, 210, true},
    {"tests/data/ops/torch-2.11-products-sm_90.csv", &measured, &h100, 16, false},
    {"tests/data/ops/torch-2.11-products-sm_100.csv", &measured, &b200, 16, false},
    {"tests/data/ops/torch-2.15-products-sm_90.csv", &traced_new, &h100, 16, false},
};

START_TEST(allocates_as_traced)
{
    const struct table *t = &tables[_i];

    check_table(t->file, t->stack, t->device, t->least, t->cudnn);
}
END_TEST

/* The releases between, with the operators that some release changed. */
static const struct {
    const char *file;
    release torch;
} between[] = {
    {"tests/data/ops/torch-2.3.csv", 2003},   {"tests/data/ops/torch-2.4.csv", 2004},   {"tests/data/ops/torch-2.5.csv", 2005},
    {"tests/data/ops/torch-2.6.csv", 2006},   {"tests/data/ops/torch-2.7.csv", 2007},   {"tests/data/ops/torch-2.8.csv", 2008},
    {"tests/data/ops/torch-2.9.csv", 2009},   {"tests/data/ops/torch-2.10.csv", 2010},  {"tests/data/ops/torch-2.11.csv", 2011},
    {"tests/data/ops/torch-2.12.csv", 2012},  {"tests/data/ops/torch-2.13.csv", 2013},  {"tests/data/ops/torch-2.14.csv", 2014},
};

START_TEST(allocates_as_each_release)
{
    struct stack stack = {.torch = between[_i].torch, .transformers = 5023, .peft = 21};

    check_table(between[_i].file, &stack, &traced_device, 50, false);
}
END_TEST

/* LinearAlgebra.cpp should_fold: "tensor1.dim() == 2" folds where the matrix wants a gradient, and never else; seen on torch 2.2, 2.11 and 2.15. */
static const struct {
    bool trains, turned;
} folds[] = {{false, false}, {false, true}, {true, false}, {true, true}};

START_TEST(a_matrix_is_folded_with_the_batch_behind_it_where_it_trains)
{
    void *block = malloc(ROOM);
    struct quirks q = quirks_of(&traced_new);
    struct run r = {0};
    struct arena a;
    struct err err;
    bool trains = folds[_i].trains, turned = folds[_i].turned, multiplied = false, batched = false;
    val m, x;

    arena_init(&a, block, ROOM);
    ck_assert(!run_init(&r, &a, &q, traced_device, limits, &err));
    r.grad_enabled = true;
    (void)frame_enter(&r);
    m = local(&r, empty(&r, DTYPE_FP32, SHAPE(48, 32)));
    if (trains)
        require_grad(&r, m);
    x = turned ? fresh(&r, DTYPE_FP32, SHAPE(3, 20, 32)) : fresh(&r, DTYPE_FP32, SHAPE(3, 32, 20));
    (void)local(&r, matmul(&r, m, turned ? local(&r, transpose(&r, x, 1, 2)) : x));
    for (uint32_t i = 0; i < r.n_births; i++) {
        multiplied |= r.births[i].op == OP_MM;
        batched |= r.births[i].op == OP_BMM;
    }
    ck_assert(multiplied == trains && batched == !trains);
    free(block);
}
END_TEST

/* What a range asks of another vendor's GPU or a newer one: every dtype's kernel but flash's and cuDNN's. */
static const struct {
    const struct device *device;
    bool no_flash;
    enum op takes;
} kernels[] = {{&traced_device, false, OP_FLASH}, {&traced_device, true, OP_EFFICIENT}, {&h100, false, OP_CUDNN_ATTENTION}, {&h100, true, OP_EFFICIENT}};

START_TEST(without_flash_attention_takes_the_efficient_kernel)
{
    void *block = malloc(ROOM);
    struct quirks q = quirks_of(&traced_new);
    struct run r = {0};
    struct arena a;
    struct err err;
    bool taken = false;
    val in[4] = {0};

    arena_init(&a, block, ROOM);
    ck_assert(!run_init(&r, &a, &q, *kernels[_i].device, limits, &err));
    r.no_flash = kernels[_i].no_flash;
    r.cudnn_attention &= !r.no_flash;
    r.grad_enabled = true;
    (void)frame_enter(&r);
    for (int i = 0; i < 3; i++)
        in[i] = local(&r, transpose(&r, fresh(&r, DTYPE_BF16, SHAPE(2, 64, 4, 64)), 1, 2));
    ck_assert_int_eq(attention_way(&r, in, 0, true, false), ATTENTION_KERNEL);
    (void)local(&r, scaled_dot_product_attention(&r, in[0], in[1], in[2], 0, 0, true, false));
    for (uint32_t i = 0; i < r.n_births; i++)
        taken |= r.births[i].op == kernels[_i].takes;
    ck_assert(taken);
    free(block);
}
END_TEST

UNIT_TESTS("torch/ops", unit_rows(without_flash_attention_takes_the_efficient_kernel, kernels);
           unit_rows(a_matrix_is_folded_with_the_batch_behind_it_where_it_trains, folds); unit_rows(allocates_as_each_release, between);
           unit_rows(allocates_as_traced, tables);)
