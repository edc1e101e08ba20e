/* Memory of a script: what was given back lies in lists by size and is taken again; new memory is the arena's. */
#include "script/object.h"

enum { STEP = 16, SMALL = STEP * HEAP_CLASSES, CHUNK = 1 << 16 };

static unsigned large_class(size_t bytes)
{
    unsigned k = 10;

    while (((size_t)1 << k) < bytes && k < 63)
        k++;
    return k;
}

void *heap_take(struct script *s, size_t bytes)
{
    void *p;

    if (bytes <= SMALL) {
        size_t k = bytes ? (bytes - 1) / STEP : 0;

        p = s->free_lists[k].next;
        if (p) {
            memcpy(&s->free_lists[k].next, p, sizeof(void *));
            return p;
        }
        p = arena_push_raw(s->arena, STEP, STEP, k + 1);
    } else {
        unsigned k = large_class(bytes);

        if (!script_charge(s, bytes / 64)) /* somebody is about to fill it */
            return NULL;
        p = s->large[k];
        if (p) {
            memcpy(&s->large[k], p, sizeof(void *));
            return p;
        }
        p = k > 46 ? NULL : arena_push_raw(s->arena, (size_t)1 << k, STEP, 1);
    }
    if (!p)
        (void)script_nomem(s);
    return p;
}

void heap_give(struct script *s, void *p, size_t bytes)
{
    void **list = bytes <= SMALL ? &s->free_lists[bytes ? (bytes - 1) / STEP : 0].next : &s->large[large_class(bytes)];

    memcpy(p, list, sizeof(void *));
    *list = p;
}

void *heap_zero(struct script *s, size_t bytes)
{
    void *p = heap_take(s, bytes);

    return p ? memset(p, 0, bytes) : NULL;
}

void *obj_new(struct script *s, size_t bytes, enum kind kind)
{
    struct obj *o = heap_take(s, bytes);

    if (o)
        *o = (struct obj){.refs = 1, .kind = (uint8_t)kind};
    return o;
}
