#include "base/arena.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

void arena_init(struct arena *a, void *block, size_t bytes)
{
    a->cur = block;
    a->end = a->cur + bytes;
    a->budget = NULL;
    a->kept = a->kept_end = NULL;
    a->aside = NULL;
    a->full = false;
    ASAN_POISON_MEMORY_REGION(block, bytes);
}

void *arena_push_raw(struct arena *a, size_t size, size_t align, size_t count)
{
    size_t pad = -(uintptr_t)a->cur & (align - 1);
    size_t room = (size_t)(a->end - a->cur);

    if (pad > room || (size && count > (room - pad) / size)) {
        a->full = true;
        return NULL;
    }

    unsigned char *p = a->cur + pad;

    a->cur = p + size * count;
    ASAN_UNPOISON_MEMORY_REGION(p, size * count);
    return p;
}

void *arena_push(struct arena *a, size_t size, size_t align, size_t count)
{
    void *p = arena_push_raw(a, size, align, count);

    return p ? memset(p, 0, size * count) : NULL;
}

/* Not inlined: at link time gcc 12 takes the block pushed before for the whole arena, and warns of what lies behind it. */
__attribute__((noinline)) char *arena_str(struct arena *a, const char *s, size_t bytes)
{
    char *p = arena_push(a, 1, 1, bytes + 1);

    if (p)
        memcpy(p, s, bytes);
    return p;
}

void arena_rewind(struct arena *a, unsigned char *mark)
{
    if (mark < a->cur)
        ASAN_POISON_MEMORY_REGION(mark, (size_t)(a->cur - mark));
    a->cur = mark; /* use after rewind is now a report */
    if (mark < a->kept_end)
        a->kept = a->kept_end = NULL;
    if (mark <= (unsigned char *)a->aside)
        a->aside = NULL;
}

void arena_open(struct arena *a, unsigned char *mark)
{
    ASAN_UNPOISON_MEMORY_REGION(mark, (size_t)(a->cur - mark));
}

void *arena_move(unsigned char *to, const void *from, size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(to, bytes);
    return memmove(to, from, bytes);
}

void arena_keep(struct arena *a, void *what)
{
    a->kept = what;
    a->kept_end = a->cur;
}

unsigned char *arena_kept(const struct arena *a, unsigned char *mark)
{
    unsigned char *at = a->kept && a->kept_end > mark ? a->kept_end : mark;

    return at < a->cur ? at : a->cur; /* what took the place of a longer one may end below the mark */
}
