/* freeze.c - which parameters a list of names means, and that they want no gradient. */
#include "tuning/freeze.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Digits from `at` on, at most nine of them; *ret_end: behind them. */
static uint32_t read_digits(const char *at, const char **ret_end)
{
    uint32_t n = 0;

    for (int i = 0; i < 9 && *at >= '0' && *at <= '9'; i++)
        n = 10 * n + (uint32_t)(*at++ - '0');
    *ret_end = at;
    return n;
}

/* A part of a path and a part of a name; "0-7" means the numbers between. */
static bool part_means(const char *part, size_t n, const char *name, size_t k)
{
    const char *end;
    uint32_t first, last, is;

    if (n == k && !memcmp(part, name, n))
        return true;
    first = read_digits(name, &end);
    if (end == name || *end != '-' || end >= name + k)
        return false;
    last = read_digits(end + 1, &end);
    if (end != name + k)
        return false;
    is = read_digits(part, &end);
    return end == part + n && n && is >= first && is <= last;
}

/* Whether the name's parts follow one another from here on. */
static bool begins(const char *path, const char *name)
{
    while (*name) {
        size_t n = strcspn(path, "."), k = strcspn(name, ".");

        if (!*path || !part_means(path, n, name, k))
            return false;
        path += n + (path[n] == '.');
        name += k + (name[k] == '.');
    }
    return true;
}

static bool means(const char *path, const char *name)
{
    for (size_t n; *path; path += n + (path[n] == '.')) {
        if (begins(path, name))
            return true;
        n = strcspn(path, ".");
    }
    return false;
}

struct freezing {
    const struct tree *tree;
    const char *name;
    uint32_t frozen, left;
};

static void freeze_one(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;
    char at[256], path[320];

    (void)snprintf(path, sizeof path, "%s.%s", module_path(f->tree, m->number, at, sizeof at), p->name);
    if (!means(path, f->name))
        return;
    p->requires_grad = false;
    if (p->tied)
        p->tied->requires_grad = false;
    f->frozen++;
}

static void count_left(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;

    (void)m;
    if (p->tied && !p->tied->requires_grad)
        p->requires_grad = false;
    f->left += p->requires_grad;
}

enum err_code freeze_apply(struct tree *t, uint32_t n, const char *const *names, struct err *err)
{
    struct freezing f = {.tree = t};

    for (uint32_t i = 0; i < n; i++) {
        f.name = names[i];
        f.frozen = 0;
        params_visit(t->root, freeze_one, &f);
        if (!f.frozen)
            return err_set(err, ERR_FIELD_VALUE, "/training/freeze", "no module or parameter of this model is called %.100s", names[i]);
    }
    params_visit(t->root, count_left, &f);
    return n && !f.left ? err_set(err, ERR_FIELD_VALUE, "/training/freeze", "nothing of the model is left to train") : ERR_OK;
}

bool freeze_is_uneven(uint32_t n, const char *const *names)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i][strcspn(names[i], "0123456789")])
            return true;
    return false;
}
