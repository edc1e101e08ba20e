/* alloc_shelves.c - the cached blocks of a pool by stream and size: see alloc_inside.h. */
#include "torch/alloc_inside.h"

_Static_assert(NARROW == 64 * 64, "a bit for each word");

bool shelves_new(struct arena *a, uint32_t most, bool small, struct shelves *ret)
{
    struct shelves s = {.max = most + 1, .n_narrow = small ? NARROW : 0};

    s.fresh = s.n_narrow + 1;
    s.shelf = arena_array_raw(a, struct shelf, s.n_narrow + s.max + (size_t)1);
    s.narrow = arena_array(a, uint64_t, s.n_narrow / 64);
    s.fits = arena_array_raw(a, uint64_t, s.max + (size_t)1);
    s.number = arena_array_raw(a, uint32_t, s.max + (size_t)1);
    s.filled = arena_array_raw(a, uint64_t, s.max / 64 + (size_t)2);
    s.known = arena_array(a, uint32_t, KNOWN);
    if (!s.shelf || !s.narrow || !s.fits || !s.number || !s.filled || !s.known)
        return false;
    memset(s.shelf, 0, (s.n_narrow + (size_t)1) * sizeof *s.shelf);
    s.shelf[0].fit = UINT64_MAX;
    s.filled[0] = 0;
    *ret = s;
    return true;
}

uint32_t shelves_place(const struct shelves *s, uint64_t fit)
{
    const uint64_t *base = s->fits;

    for (uint32_t n = s->n; n > 1; n -= n / 2)
        base += base[n / 2 - 1] < fit ? n / 2 : 0; /* no branch: the order of sizes is not predictable */
    return (uint32_t)(base - s->fits) + (s->n && *base < fit);
}

enum { NEAR = 8 };

/* What was put in below it moved it up, one place each. */
uint32_t shelves_again(const struct shelves *s, const struct shelf *h)
{
    uint32_t until = h->place + NEAR < s->n ? h->place + NEAR : s->n;

    for (uint32_t i = h->place + 1; i < until; i++)
        if (s->fits[i] == h->fit)
            return i;
    return shelves_place(s, h->fit);
}

uint32_t shelves_from(const struct shelves *s, uint32_t place)
{
    uint64_t word;

    if (place >= s->n)
        return s->n;
    word = s->filled[place / 64] >> place % 64 << place % 64;
    for (place /= 64; !word; word = s->filled[place])
        if (++place > (s->n - 1) / 64)
            return s->n;
    return 64 * place + (uint32_t)__builtin_ctzll(word);
}

/* The bits from `place` on move up by one; that of `place` is 0. */
static void open_place(struct shelves *s, uint32_t place)
{
    uint32_t at = place / 64;
    uint64_t low = (UINT64_C(1) << place % 64) - 1;

    if (s->n % 64 == 63)
        s->filled[s->n / 64 + 1] = 0;
    for (uint32_t i = (s->n + 1) / 64; i > at; i--)
        s->filled[i] = s->filled[i] << 1 | s->filled[i - 1] >> 63;
    s->filled[at] = (s->filled[at] & low) | (s->filled[at] & ~low) << 1;
}

/* Empty ones go. */
static void clear(struct shelves *s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        struct shelf *h = &s->shelf[s->number[i]];

        if (h->first) {
            s->fits[kept] = s->fits[i];
            s->number[kept++] = s->number[i];
        } else {
            h->fit = UINT64_MAX;
            h->near = s->spare;
            s->spare = s->number[i];
        }
    }
    s->n = kept;
    for (uint32_t i = 0; i <= kept / 64; i++)
        s->filled[i] = kept - 64 * i < 64 ? (UINT64_C(1) << kept % 64) - 1 : UINT64_MAX;
}

static uint32_t add(struct shelves *s, uint64_t fit)
{
    uint32_t number, place;

    if (s->n + 1 >= s->max || s->n > 2 * s->n_filled + 64)
        clear(s);
    place = shelves_place(s, fit);
    number = s->spare;
    if (number)
        s->spare = s->shelf[number].near;
    else
        number = s->fresh++;
    s->shelf[number] = (struct shelf){.fit = fit, .place = place};
    open_place(s, place);
    memmove(s->fits + place + 1, s->fits + place, (s->n - place) * sizeof *s->fits);
    memmove(s->number + place + 1, s->number + place, (s->n++ - place) * sizeof *s->number);
    s->fits[place] = fit;
    s->number[place] = number;
    return number;
}

uint32_t shelf_make(struct shelves *s, uint64_t fit)
{
    uint32_t place = shelves_place(s, fit);
    uint32_t number = place < s->n && s->fits[place] == fit ? s->number[place] : add(s, fit);

    s->known[known_of(fit)] = number;
    return number;
}

void shelf_insert(struct torch_alloc *t, struct shelf *h, uint32_t b)
{
    uint64_t at = t->blocks[b].at;
    uint32_t above = h->near, n = 0;

    for (; t->blocks[above].at > at && t->blocks[t->blocks[above].below].at > at; n++)
        above = t->blocks[above].below;
    for (; t->blocks[above].at < at; n++)
        above = t->blocks[above].above;
    alloc_look(t, n);
    t->blocks[b].above = above;
    t->blocks[b].below = t->blocks[above].below;
    t->blocks[t->blocks[above].below].above = b;
    t->blocks[above].below = b;
    h->near = b;
}
