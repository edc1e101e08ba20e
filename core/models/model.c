#include "models/model.h"

#include <string.h>

enum err_code model_declare(struct model *m, struct err *err)
{
    if (!m->family)
        return err_set(err, ERR_ARCH_UNKNOWN, "/model_type", "'%.40s' has no program here yet", m->arch->model_type);
    m->n_layers = m->arch->layers;
    m->cache = arena_array(m->tree.arena, val, CACHE_ROWS * (size_t)m->arch->layers);
    if (!m->cache)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for a model of this size");
    m->takes_items = m->family->takes_item_count && m->q->forward_takes_items;
    m->family->declare(m);
    if (m->tree.error.code) {
        *err = m->tree.error;
        return err->code;
    }
    m->tree.n_layers = m->arch->whole_layers ? m->arch->layers : 0; /* of few layers a tower beside them may be the larger list */
    return ERR_OK;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && !strcmp(s + n - k, end);
}

void model_take_class(struct model *m)
{
    struct tree *t = &m->tree;
    struct module *head = t->head;

    if (ends_with(m->arch->architecture, "ForSequenceClassification")) {
        m->score_head = true;
        head->name = "score";
        head->out = m->arch->num_labels;
        head->weight->size[0] = head->out;
        head->weight->tied = NULL;
        head->params = head->last_param = head->weight; /* never a bias */
        head->weight->next = NULL;
        head->bias = NULL;
    } else if (arch_class_is_body(m->arch->architecture) && t->root->first != head) {
        module_unlink(head);
        t->root = t->root->first;
        t->root->parent = NULL;
    }
}
