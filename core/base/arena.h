/*
 * arena.h - one block of memory, one owner, one lifetime.
 *
 * Purpose   everything a request computes lives in one arena and goes away with it.
 *           The block is the limit: a full arena is ERR_NOMEM for the caller, never malloc.
 * Budget    an arena is what a request may use: memory, and work (budget.h). Whoever computes in one counts its work there; a rewind gives no work back.
 * Kept      one thing that whoever made it may want to find again, for as long as the arena is not rewound below its end.
 * Aside     another, which stays when more is pushed and rewound behind it, and is gone when the arena is rewound below it.
 * Errors    arena_push returns NULL when the block is full; memory is zeroed. `full` sticks: whoever gives something back that was made in
 *           an arena asks once whether all of it found room.
 * Owner     the caller owns the block. Not thread-safe: one arena, one thread.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;

struct arena {
    unsigned char *cur, *end;
    struct budget *budget; /* NULL: as much work as it takes */
    void *kept;            /* lies below kept_end; NULL: nothing is kept, or it is gone */
    unsigned char *kept_end;
    void *aside; /* NULL: nothing is */
    bool full; /* something did not fit since this was last set to false */
};

void arena_init(struct arena *a, void *block, size_t bytes);
void *arena_push(struct arena *a, size_t size, size_t align, size_t count);

/* The same without zeroing, for large tables that are written before they are read. */
void *arena_push_raw(struct arena *a, size_t size, size_t align, size_t count);

/* A copy of `bytes` characters with a terminating zero; NULL when the arena is full. */
char *arena_str(struct arena *a, const char *s, size_t bytes);

/* Gives back everything pushed since `mark` (= a->cur at that time). A mark above a->cur is the end of what arena_move() brought there: it stays. */
void arena_rewind(struct arena *a, unsigned char *mark);

/* All that was pushed since `mark` may be read at once, the gaps between too. */
void arena_open(struct arena *a, unsigned char *mark);

/* Keeps `what`, which lies below a->cur, in place of what was kept. */
void arena_keep(struct arena *a, void *what);

/* How far an arena that had `mark` before may be rewound without losing what was kept since. */
unsigned char *arena_kept(const struct arena *a, unsigned char *mark);

/* memmove() downwards within the arena, onto what an earlier rewind gave up. */
void *arena_move(unsigned char *to, const void *from, size_t bytes);

#define arena_array(a, type, n)     ((type *)arena_push((a), sizeof(type), _Alignof(type), (n)))
#define arena_array_raw(a, type, n) ((type *)arena_push_raw((a), sizeof(type), _Alignof(type), (n)))
#define arena_new(a, type)          arena_array(a, type, 1)

#endif
