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
    const struct freeze *asked;
    const char *name;
    struct pattern_effort effort;
    bool on;         /* what is named wants a gradient */
    uint32_t found, left;
    uint64_t frozen, all;
};

static bool has_name(const struct freezing *f, const struct module *m, const struct param *p)
{
    char at[256], path[320];

    (void)snprintf(path, sizeof path, "%s.%s", module_path(f->tree, m->number, at, sizeof at), p->name);
    return means(path, f->name);
}

static void freeze_one(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;

    if (!has_name(f, m, p))
        return;
    p->requires_grad = false;
    if (p->tied)
        p->tied->requires_grad = false;
    f->found++;
}

/* named_parameters() has a tied one once, by its first name. */
static void train_one(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;

    if (p->buffer || p->tied || !has_name(f, m, p))
        return;
    p->requires_grad = true;
    f->found++;
}

static void train_matched(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;
    char at[256], path[320];

    if (p->buffer || p->tied)
        return;
    (void)snprintf(path, sizeof path, "%s%s%s", module_path(f->tree, m->number, at, sizeof at), m->parent ? "." : "", p->name);
    if (!pattern_matches(f->asked->pattern, path, &f->effort))
        return;
    p->requires_grad = true;
    f->found++;
}

static void freeze_all(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    p->requires_grad = false;
}

static void count_all(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;

    (void)m;
    if (!p->buffer && !p->tied)
        f->all += (uint64_t)param_numel(p);
}

/* bisect_right of the sums: each parameter that ends within the share. */
static void freeze_share(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;

    (void)m;
    if (p->buffer || p->tied)
        return;
    f->frozen += (uint64_t)param_numel(p);
    if (f->frozen <= f->all)
        p->requires_grad = false;
}

static void count_left(void *context, struct module *m, struct param *p)
{
    struct freezing *f = context;

    (void)m;
    if (p->tied)
        p->requires_grad = p->tied->requires_grad && (f->on || p->requires_grad);
    f->left += p->requires_grad;
}

static enum err_code name_each(struct freezing *f, struct tree *t, uint32_t n, const char *const *names, param_visitor visit, const char *at, struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        f->name = names[i];
        f->found = 0;
        params_visit(t->root, visit, f);
        if (!f->found)
            return err_set(err, ERR_FIELD_VALUE, at, "no module or parameter of this model is called %.100s", names[i]);
    }
    return ERR_OK;
}

static enum err_code match_trained(struct freezing *f, struct tree *t, struct err *err)
{
    f->found = 0;
    params_visit(t->root, train_matched, f);
    if (f->effort.exhausted)
        return err_set(err, ERR_FIELD_VALUE, "/training/trainable", "takes too many steps to match a parameter's name");
    return f->found ? ERR_OK : err_set(err, ERR_FIELD_VALUE, "/training/trainable", "no parameter of this model has a name that matches");
}

enum err_code freeze_apply(struct tree *t, const struct freeze *asked, struct err *err)
{
    struct freezing f = {.tree = t, .asked = asked, .on = asked->n_trained || asked->pattern};
    enum err_code rc;

    if (!freeze_asked(asked))
        return ERR_OK;
    if (f.on && !asked->n && !(asked->share > 0))
        params_visit(t->root, freeze_all, NULL);
    if (asked->share > 0) {
        params_visit(t->root, count_all, &f);
        f.all = (uint64_t)((double)f.all * asked->share);
        params_visit(t->root, freeze_share, &f);
    }
    rc = name_each(&f, t, asked->n, asked->names, freeze_one, "/training/freeze", err);
    if (!rc)
        rc = name_each(&f, t, asked->n_trained, asked->trained, train_one, "/training/trainable", err);
    if (!rc && asked->pattern)
        rc = match_trained(&f, t, err);
    if (rc)
        return rc;
    params_visit(t->root, count_left, &f);
    return f.left ? ERR_OK
                  : err_set(err, ERR_FIELD_VALUE, asked->n || !(asked->share > 0) ? "/training/freeze" : "/training/freeze_ratio",
                            "nothing of the model is left to train");
}

static bool has_digit(const char *s)
{
    return s[strcspn(s, "0123456789")] != 0;
}

bool freeze_is_uneven(const struct freeze *f)
{
    bool ret = f->share > 0 || (f->pattern && has_digit(f->pattern_text));

    for (uint32_t i = 0; i < f->n; i++)
        ret |= has_digit(f->names[i]);
    for (uint32_t i = 0; i < f->n_trained; i++)
        ret |= has_digit(f->trained[i]);
    return ret;
}
