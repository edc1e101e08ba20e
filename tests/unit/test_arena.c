#include "base/arena.h"
#include "tests/support/unit.h"

#include <string.h>

static alignas(64) unsigned char block[4096];

START_TEST(the_block_is_the_limit)
{
    struct arena a;

    arena_init(&a, block, 64);
    ck_assert_ptr_nonnull(arena_push(&a, 1, 1, 64));
    ck_assert_ptr_null(arena_push(&a, 1, 1, 1));
    ck_assert_ptr_nonnull(arena_push(&a, 1, 1, 0));
}
END_TEST

START_TEST(huge_counts_do_not_wrap)
{
    struct arena a;

    arena_init(&a, block, sizeof block);
    ck_assert_ptr_null(arena_array(&a, uint64_t, SIZE_MAX));
    ck_assert_ptr_null(arena_array(&a, uint64_t, SIZE_MAX / 8 + 1));
    ck_assert_ptr_null(arena_push(&a, SIZE_MAX, 1, 2));
    ck_assert_ptr_nonnull(arena_new(&a, uint64_t));
}
END_TEST

START_TEST(memory_is_aligned_and_zero)
{
    struct arena a;

    memset(block, 0xAA, sizeof block);
    arena_init(&a, block, sizeof block);
    for (size_t n = 1; n < 40; n++) {
        char *bytes = arena_array(&a, char, n % 3);
        uint64_t *word = arena_new(&a, uint64_t);

        ck_assert_ptr_nonnull(bytes);
        ck_assert_ptr_nonnull(word);
        ck_assert_uint_eq((uintptr_t)word % _Alignof(uint64_t), 0);
        ck_assert_uint_eq(*word, 0);
        *word = UINT64_MAX;
    }
}
END_TEST

START_TEST(what_is_opened_is_read_with_its_gaps)
{
    struct arena a;
    unsigned char copied[64];

    arena_init(&a, block, sizeof copied);
    memset(arena_push_raw(&a, 1, 1, sizeof copied), 7, sizeof copied);
    arena_rewind(&a, block);
    *(char *)arena_push(&a, 1, 1, 1) = 1;
    *(uint64_t *)arena_push(&a, sizeof(uint64_t), 32, 1) = 2;
    arena_open(&a, block);
    memcpy(copied, block, (size_t)(a.cur - block));
    ck_assert_ptr_eq(a.cur, block + 40);
    ck_assert_uint_eq(copied[0], 1);
    ck_assert_uint_eq(copied[24], 7);
    ck_assert_uint_eq(copied[32], 2);
}
END_TEST

START_TEST(rewinding_gives_back)
{
    struct arena a;
    unsigned char *mark;

    arena_init(&a, block, 128);
    ck_assert_ptr_nonnull(arena_push(&a, 1, 1, 100));
    mark = a.cur;
    ck_assert_ptr_nonnull(arena_push(&a, 1, 1, 28));
    ck_assert_ptr_null(arena_push(&a, 1, 1, 1));
    arena_rewind(&a, mark);
    ck_assert_ptr_nonnull(arena_push(&a, 1, 1, 28));
}
END_TEST

/* A log that stood above what has been given back is moved down, and the arena ends behind it, above where it ended before. */
START_TEST(what_was_moved_down_stays)
{
    static unsigned char room[256];
    struct arena a;
    unsigned char *begin, *late, *moved, *next;

    arena_init(&a, room, sizeof room);
    begin = a.cur;
    ck_assert(arena_array_raw(&a, unsigned char, 64));
    late = arena_array_raw(&a, unsigned char, 32);
    memset(late, 7, 32);
    a.cur = begin; /* as where something shorter took the place of what was kept */
    moved = arena_move(begin, late, 32);
    arena_rewind(&a, moved + 32);
    next = arena_array_raw(&a, unsigned char, 8);
    ck_assert_ptr_eq(next, begin + 32);
    memset(next, 1, 8);
    ck_assert_int_eq(moved[31], 7);
}
END_TEST

START_TEST(strings_are_terminated)
{
    struct arena a;

    arena_init(&a, block, 6);
    ck_assert_str_eq(arena_str(&a, "abcdef", 5), "abcde");
    arena_init(&a, block, 5);
    ck_assert_ptr_null(arena_str(&a, "abcdef", 5));
}
END_TEST

UNIT_TESTS("base/arena",
    unit_test(the_block_is_the_limit);
    unit_test(huge_counts_do_not_wrap);
    unit_test(memory_is_aligned_and_zero);
    unit_test(what_is_opened_is_read_with_its_gaps);
    unit_test(rewinding_gives_back);
    unit_test(what_was_moved_down_stays);
    unit_test(strings_are_terminated);
)
