/* Memory of a script: what was given back lies in lists by size and is taken again; new memory is the arena's. */
#include "script/object.h"

enum { CHUNK_LEAST = 10 /* powers of two from 1 KB on */, HEAP_MOST = 128 << 20 /* of one script; the largest models take 20 MiB */ };

static unsigned large_class(size_t bytes)
{
    unsigned k = CHUNK_LEAST;

    while (((size_t)1 << k) < bytes && k < 63)
        k++;
    return k;
}

/* Where no list has one. Zeroed, so that two scripts that did the same are the same (freeze.h). */
void *heap_more(struct script *s, size_t bytes)
{
    void *p;

    if (bytes <= HEAP_SMALL) {
        p = s->heap_bytes > HEAP_MOST ? NULL : arena_push(s->arena, HEAP_STEP, HEAP_STEP, bytes ? (bytes - 1) / HEAP_STEP + 1 : 1);
        s->heap_bytes += bytes;
    } else {
        unsigned k = large_class(bytes);

        if (!script_charge(s, bytes / 64)) /* somebody is about to fill it */
            return NULL;
        p = s->large[k];
        if (p) {
            memcpy(&s->large[k], p, sizeof(void *));
            return p;
        }
        p = k > 46 || s->heap_bytes + ((size_t)1 << k) > HEAP_MOST ? NULL : arena_push(s->arena, (size_t)1 << k, HEAP_STEP, 1);
        s->heap_bytes += p ? (size_t)1 << k : 0;
    }
    if (!p)
        (void)script_nomem(s);
    return p;
}

void heap_give_large(struct script *s, void *p, size_t bytes)
{
    void **list = &s->large[large_class(bytes)];

    memcpy(p, list, sizeof(void *));
    *list = p;
}

void *script_lasting(struct script *s, size_t bytes)
{
    void *p = image_room(s->own, bytes);

    s->heap_bytes += bytes;
    if (!p)
        (void)script_nomem(s);
    return p;
}

void *script_memory(struct script *s, size_t bytes)
{
    return heap_zero(s, bytes);
}

void script_stirs(struct script *s, const struct obj *o)
{
    stirs(s, o);
}

void script_memory_give(struct script *s, void *p, size_t bytes)
{
    if (p)
        heap_give(s, p, bytes);
}
