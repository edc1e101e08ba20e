#include "torch/hooks.h"

#include "torch/autograd.h"
#include "torch/module.h"

static struct hook *hook_new(struct run *r)
{
    struct hook *h = r->free_hook;

    if (h)
        r->free_hook = h->next;
    else if (r->n_hooks < r->max_hooks)
        h = &r->hooks[r->n_hooks++];
    else
        run_fail(r, ERR_NOMEM, "", "more hooks at once than the working memory of one request holds");
    return h;
}

static void append(struct run *r, struct hook **list, hook_function f, void *of)
{
    struct hook *h = hook_new(r);

    if (!h)
        return;
    *h = (struct hook){.run = f, .of = of};
    while (*list)
        list = &(*list)->next;
    *list = h;
}

void hooks_run(struct run *r, struct hook *list)
{
    for (; list && !run_dead(r); list = list->next) {
        hook_call(r);
        list->run(r, list->of);
    }
}

void hooks_release(struct run *r, struct hook *list)
{
    while (list) {
        struct hook *next = list->next;

        list->next = r->free_hook;
        r->free_hook = list;
        list = next;
    }
}

void hook_gradient(struct run *r, val v, hook_function f, void *of)
{
    uint32_t node = wants_grad(r, v) ? (r->values[v].leaf ? accumulate_node(r, v) : grad_fn(r, v)) : 0;

    if (node)
        append(r, &r->nodes[node].hooks, f, of);
}

val hook_backward(struct run *r, val v, hook_function f, void *of)
{
    uint32_t node = attach(r, OP_PASS, 1, &v);
    val out;

    if (!node)
        return v;
    append(r, &r->nodes[node].own, f, of);
    out = value_alias(r, v);
    r->values[out].view = true;
    consume(r, v);
    attach_output(r, node, out, 0);
    return out;
}

/* -------------------------------------------------------------------------------------------------- the end of a backward */
void hook_backward_end(struct run *r, hook_function f, void *of)
{
    append(r, &r->at_end, f, of);
}

struct hook *backward_begins(struct run *r)
{
    struct hook *outer = r->at_end;

    r->at_end = NULL;
    return outer;
}

void backward_ends(struct run *r, struct hook *outer)
{
    hooks_run(r, r->at_end);
    hooks_release(r, r->at_end);
    r->at_end = outer;
}

/* --------------------------------------------------------------------------------------------------------------- modules */
val module_returns(struct run *r, struct module *m, val result)
{
    for (struct module_hook *h = m->hooks; h && !run_dead(r); h = h->next)
        if (h->post) {
            hook_call(r);
            result = h->post(r, m, h->of, result);
        }
    return result;
}
