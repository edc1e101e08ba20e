#include "infer/device_map.h"

#include "tuning/bnb.h"

#include <string.h>

/* A module, or a parameter of a module that was split. */
struct item {
    const struct module *m;
    const struct param *p;
};

struct mapping {
    const struct device_map_question *q;
    const struct module *layers; /* their list */
    const struct param *tied;    /* the one that is another's; NULL: none */
    uint64_t *size;              /* by number, what is below included */
    uint64_t memory[DEVICE_MAP_GPUS + 1], used[DEVICE_MAP_GPUS + 2];
    struct item *left; /* the next one is the last */
    uint32_t n_left, room;
    const struct module **largest; /* layers of the largest size among those that are left */
    uint32_t n_largest;
    uint64_t largest_bytes;
    uint8_t *device;
};

/* bitsandbytes' linears count what they will be packed to; before transformers 5 so does every other float, but for the head's and for tied ones. */
static uint64_t quantised_bytes(const struct mapping *k, const struct param *p, bool floats)
{
    uint64_t n = (uint64_t)(p->stands_for > 0 ? p->stands_for : param_numel(p)), own = dtype_bytes(p->dtype), asked = dtype_bytes(k->q->dtype);
    bool packs = bnb_is_quantised(p->owner) && p == p->owner->weight, kept = p->owner == k->q->tree->head || (k->tied && p == k->tied->tied);

    if (packs || (k->q->by_accelerate && floats && !kept))
        return k->q->weights == KBIT_INT8 ? n : n / 2;
    return (uint64_t)param_numel(p) * (k->q->by_accelerate && floats && asked < own ? asked : own);
}

/* Elements of integers keep their width; floats are loaded in the dtype, which accelerate knows of buffers too. */
static uint64_t bytes_of(const struct mapping *k, const struct param *p)
{
    uint64_t own = dtype_bytes(p->dtype), asked = dtype_bytes(k->q->dtype);
    bool floats = p->dtype == DTYPE_FP32 || p->dtype == DTYPE_FP16 || p->dtype == DTYPE_BF16 || p->dtype == DTYPE_FP64;

    if (p->tied)
        return 0;
    if (k->q->by_accelerate && p->dtype == DTYPE_BOOL)
        return (uint64_t)param_numel(p) / 8; /* dtype_byte_size(torch.bool) */
    if (k->q->weights)
        return quantised_bytes(k, p, floats);
    return (uint64_t)param_numel(p) * (k->q->by_accelerate && floats && asked < own ? asked : own);
}

static uint64_t own_bytes(const struct mapping *k, const struct module *m)
{
    uint64_t n = 0;

    for (const struct param *p = m->params; p; p = p->next)
        n += bytes_of(k, p);
    return n;
}

static void take_sizes(struct mapping *k)
{
    const struct tree *t = k->q->tree;

    for (uint32_t i = 1; i < t->n_modules; i++)
        for (const struct param *p = t->modules[i]->params; p && !k->tied; p = p->next)
            k->tied = p->tied ? p : NULL;
    for (uint32_t i = 1; i < t->n_modules; i++)
        for (const struct module *m = t->modules[i]; m; m = m->parent)
            k->size[m->number] += own_bytes(k, t->modules[i]);
}

static bool is_whole(const struct mapping *k, const struct module *m)
{
    return !m->first || (k->layers && !k->q->layers_split && m->parent == k->layers);
}

/* --- shares of the GPUs ----------------------------------------------------------------------------------------------------------- */
static bool holds_none_below(const struct mapping *k, const struct module *m)
{
    for (const struct module *c = m->first; c; c = c->next)
        if (k->size[c->number])
            return false;
    return true;
}

/* accelerate: the first layer, or the mean of modules that have none below; transformers: the largest layer, or the largest of what modules hold themselves. */
static uint64_t buffer_of(const struct mapping *k)
{
    const struct tree *t = k->q->tree;
    uint64_t layer = 0, leaf = 0, sum = 0, n = 0;

    for (const struct module *m = k->layers && !k->q->layers_split ? k->layers->first : NULL; m; m = m->next)
        if (!k->q->by_accelerate || !layer)
            layer = k->size[m->number] > layer ? k->size[m->number] : layer;
    for (uint32_t i = 1; i < t->n_modules; i++) {
        const struct module *m = t->modules[i];
        uint64_t own = own_bytes(k, m);

        leaf = own > leaf ? own : leaf;
        if (own && holds_none_below(k, m)) {
            sum += own;
            n++;
        }
    }
    if (k->q->by_accelerate)
        leaf = n ? sum / n : 0;
    return (uint64_t)(1.25 * (double)(layer > leaf ? layer : leaf));
}

/* get_balanced_memory() */
static void balance(struct mapping *k)
{
    const struct device_map_question *q = k->q;
    uint64_t n = 0, each, whole = k->size[q->tree->root->number], others = 0;
    uint32_t last = 0; /* keeps all that it has: the buffer may be too small */
    bool low_0;

    for (uint32_t i = 0; i < q->gpus; i++) {
        last = q->gpu_bytes[i] ? i : last;
        n += q->gpu_bytes[i] > 0;
    }
    if (n == 1 && !q->as_given)
        k->memory[0] = (uint64_t)((double)k->memory[0] * 0.9);
    if (n < 2)
        return;
    low_0 = q->shares == SHARES_BALANCED_LOW_0;
    each = whole / (low_0 ? n - 1 : n) + buffer_of(k);
    for (uint32_t i = low_0; i < last; i++)
        k->memory[i] = each < k->memory[i] ? each : k->memory[i];
    for (uint32_t i = 1; i < n; i++)
        others += k->memory[i];
    others = whole > others ? whole - others : 0;
    if (low_0)
        k->memory[0] = others < k->memory[0] ? others : k->memory[0];
}

static void share_out(struct mapping *k)
{
    const struct device_map_question *q = k->q;

    for (uint32_t i = 0; i < q->gpus; i++)
        k->memory[i] = q->gpu_bytes[i];
    if (q->shares != SHARES_SEQUENTIAL)
        balance(k);
    k->memory[q->gpus] = q->as_given || q->by_accelerate ? q->host_bytes : (uint64_t)((double)q->host_bytes * 0.9);
    for (uint32_t i = 0; q->weights && i <= q->gpus; i++)
        k->memory[i] = (uint64_t)((double)k->memory[i] * 0.9); /* adjust_max_memory() */
}

/* --- what is left ----------------------------------------------------------------------------------------------------------------- */
static void consider(struct mapping *k, const struct module *m)
{
    if (!is_whole(k, m)) {
        for (const struct module *c = m->first; c; c = c->next)
            consider(k, c);
        return;
    }
    if (k->size[m->number] > k->largest_bytes) {
        k->largest_bytes = k->size[m->number];
        k->n_largest = 0;
    }
    if (k->size[m->number] == k->largest_bytes && k->largest_bytes)
        k->largest[k->n_largest++] = m;
}

/* get_max_layer_size() */
static void find_largest(struct mapping *k)
{
    k->largest_bytes = k->n_largest = 0;
    for (uint32_t i = k->n_left; i > 0; i--)
        if (!k->left[i - 1].p)
            consider(k, k->left[i - 1].m);
}

static void forget_largest(struct mapping *k, struct item it)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < k->n_largest; i++)
        if (it.p || !module_is_below(k->largest[i], it.m))
            k->largest[n++] = k->largest[i];
    k->n_largest = n;
    if (!n)
        find_largest(k);
}

static bool put(struct mapping *k, struct item it)
{
    if (k->n_left == k->room)
        return false;
    k->left[k->n_left++] = it;
    return true;
}

/* Its own parameters, then its children, in the place of a module. */
static bool split(struct mapping *k, uint32_t at, const struct module *m)
{
    struct item part[2048];
    uint32_t n = 0;

    for (const struct param *p = m->params; p && n < 2048; p = p->next)
        if (!p->buffer && !p->tied)
            part[n++] = (struct item){m, p};
    for (const struct module *c = m->first; c && n < 2048; c = c->next)
        part[n++] = (struct item){c, NULL};
    if (k->n_left + n > k->room || n == 2048)
        return false;
    memmove(&k->left[at + n], &k->left[at], (k->n_left - at) * sizeof *k->left);
    for (uint32_t i = 0; i < n; i++)
        k->left[at + n - 1 - i] = part[i];
    k->n_left += n;
    find_largest(k);
    return true;
}

static bool is_in(struct item it, const struct param *p)
{
    return it.p ? it.p == p : module_is_below(p->owner, it.m);
}

static uint64_t size_of_item(const struct mapping *k, struct item it)
{
    return it.p ? bytes_of(k, it.p) : k->size[it.m->number];
}

/* What is left and holds the other of two tied weights, where an item holds one alone; UINT32_MAX: nothing. */
static uint32_t tied_to(const struct mapping *k, struct item it)
{
    const struct param *other;

    if (!k->tied || is_in(it, k->tied) == is_in(it, k->tied->tied))
        return UINT32_MAX;
    other = is_in(it, k->tied) ? k->tied->tied : k->tied;
    for (uint32_t i = 0; i < k->n_left; i++)
        if (is_in(k->left[i], other))
            return i;
    return UINT32_MAX;
}

static uint64_t with_ties(const struct mapping *k, struct item it, uint32_t tied)
{
    uint64_t n = size_of_item(k, it);

    if (tied == UINT32_MAX)
        return n;
    n += size_of_item(k, k->left[tied]);
    if (k->q->by_accelerate && is_in(k->left[tied], k->tied->tied))
        n -= bytes_of(k, k->tied->tied);
    return n;
}

static void assign(struct mapping *k, struct item it, uint8_t device)
{
    const struct tree *t = k->q->tree;

    if (it.p) {
        k->device[it.m->number] = device; /* of a split module: what it holds itself */
        return;
    }
    for (uint32_t i = it.m->number; i < t->n_modules; i++)
        if (module_is_below(t->modules[i], it.m))
            k->device[i] = device;
}

static void remove_at(struct mapping *k, uint32_t at)
{
    k->n_left--;
    memmove(&k->left[at], &k->left[at + 1], (k->n_left - at) * sizeof *k->left);
}

/* infer_auto_device_map(): one turn of its loop; false: no room for what is left. */
static bool turn(struct mapping *k, uint32_t *at)
{
    const struct device_map_question *q = k->q;
    struct item it = k->left[--k->n_left];
    bool disk = *at > q->gpus, main = !*at || *at == q->gpus;
    uint32_t tied;
    uint64_t kept, bytes = size_of_item(k, it), all;
    int64_t room; /* below zero where the largest layer alone has none */

    forget_largest(k, it);
    kept = main ? k->largest_bytes : 0;
    room = disk ? INT64_MAX : (int64_t)k->memory[*at] - (int64_t)kept;
    tied = tied_to(k, it);
    all = with_ties(k, it, tied);
    if ((int64_t)(k->used[*at] + all) <= room) {
        k->used[*at] += all;
        assign(k, it, (uint8_t)*at);
        if (tied != UINT32_MAX) {
            assign(k, k->left[tied], (uint8_t)*at);
            remove_at(k, tied);
        }
        return true;
    }
    if (tied != UINT32_MAX && (int64_t)(k->used[*at] + bytes) <= room && !k->left[tied].p && !is_whole(k, k->left[tied].m)) {
        const struct module *m = k->left[tied].m;

        remove_at(k, tied);
        return split(k, tied, m) && put(k, it);
    }
    if ((!q->by_accelerate || (int64_t)(k->used[*at] + bytes) >= room) && !it.p && !is_whole(k, it.m)) {
        k->device[it.m->number] = DEVICE_MAP_SPLIT;
        return split(k, k->n_left, it.m);
    }
    k->used[*at] += kept;
    ++*at;
    *at += *at == q->gpus && q->no_host;
    return put(k, it);
}

enum err_code device_map_infer(const struct device_map_question *q, struct arena *arena, uint8_t **ret, struct err *err)
{
    uint32_t n = q->tree->n_modules, at = 0;
    struct mapping k = {.q = q, .layers = module_list(q->tree), .room = 4 * n + 64};

    k.size = arena_array(arena, uint64_t, n);
    k.largest = arena_array(arena, const struct module *, n);
    k.left = arena_array(arena, struct item, k.room);
    k.device = arena_array(arena, uint8_t, n);
    if (!k.size || !k.largest || !k.left || !k.device)
        return err_set(err, ERR_NOMEM, "", "no room for a device map");
    take_sizes(&k);
    share_out(&k);
    k.device[q->tree->root->number] = DEVICE_MAP_SPLIT;
    for (uint32_t turns = 0, ok = split(&k, 0, q->tree->root); ok && k.n_left; turns++)
        if (turns > 64 * n || !turn(&k, &at))
            return err_set(err, ERR_NOMEM, "", "no room for a device map");
    *ret = k.device;
    return ERR_OK;
}
