#include "server/batch_items.h"

#include <stdlib.h>
#include <string.h>

static size_t text_bytes(const char *text)
{
    return strlen(text) + 1;
}

static size_t block_bytes(const struct api_batch *parts)
{
    size_t bytes = sizeof(struct items) + parts->n * sizeof(struct item) + parts->needs.n * sizeof(struct item_need);

    for (uint32_t i = 0; i < parts->n; i++)
        if (parts->items[i].same_as == i)
            bytes += parts->items[i].bytes;
    for (uint32_t i = 0; i < parts->needs.n; i++)
        bytes += text_bytes(parts->needs.v[i].model) + text_bytes(parts->needs.v[i].revision);
    return bytes;
}

static const char *put(char **at, const char *text, size_t bytes)
{
    char *here = memcpy(*at, text, bytes);

    *at += bytes;
    return here;
}

struct items *items_new(const struct api_batch *parts)
{
    struct items *items = calloc(1, block_bytes(parts));
    char *text;

    if (!items)
        return NULL;
    items->n = parts->n;
    items->n_needs = parts->needs.n;
    items->needs = (struct item_need *)(void *)(items->v + parts->n);
    text = (char *)(items->needs + parts->needs.n);
    for (uint32_t i = 0; i < parts->needs.n; i++) {
        const struct api_need *from = &parts->needs.v[i];

        items->needs[i].need = (struct api_need){put(&text, from->model, text_bytes(from->model)), put(&text, from->revision, text_bytes(from->revision)),
                                                    from->code};
    }
    for (uint32_t i = 0; i < parts->n; i++) {
        const struct api_item *from = &parts->items[i];

        items->v[i] = (struct item){.bytes = from->bytes, .same_as = from->same_as, .need = from->need};
        if (from->same_as == i)
            items->v[i].body = put(&text, from->body, from->bytes);
        items->v[from->same_as].left++;
    }
    return items;
}

void items_free(struct items *items)
{
    for (uint32_t i = 0; items && i < items->n; i++)
        item_forget(&items->v[i]);
    free(items);
}

struct item *item_first(struct items *items, uint32_t i)
{
    return &items->v[items->v[i].same_as];
}

void item_forget(struct item *it)
{
    answer_give_back(it->answer);
    free(it->err);
    it->answer = NULL;
    it->err = NULL;
    it->state = ITEM_OPEN;
    it->is_charged = it->is_kept = false;
}
