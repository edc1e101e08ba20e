#include "base/buf.h"
#include "tests/support/unit.h"

#include <string.h>

static unsigned char block[1 << 16];

START_TEST(grows_to_its_maximum_and_not_beyond)
{
    struct arena a;
    struct buf b;

    arena_init(&a, block, sizeof block);
    buf_init(&b, &a, 1000);
    ck_assert_str_eq(buf_text(&b), "");
    for (int i = 0; i < 1000; i++)
        buf_char(&b, 'x');
    ck_assert(buf_ok(&b));
    ck_assert_uint_eq(strlen(buf_text(&b)), 1000);
    buf_char(&b, 'y');
    ck_assert(!buf_ok(&b));
    ck_assert_uint_eq(strlen(buf_text(&b)), 1000);
}
END_TEST

START_TEST(a_failure_sticks)
{
    char room[8];
    struct buf b;

    buf_init_fixed(&b, room, sizeof room);
    buf_str(&b, "seven..");
    ck_assert(buf_ok(&b));
    buf_str(&b, "8");
    buf_str(&b, "");
    ck_assert(!buf_ok(&b));
    ck_assert_str_eq(buf_text(&b), "seven..");
}
END_TEST

START_TEST(other_tenants_make_it_move)
{
    struct arena a;
    struct buf b;
    char *other;

    arena_init(&a, block, sizeof block);
    buf_init(&b, &a, 10000);
    buf_str(&b, "begin");
    other = arena_str(&a, "other", 5);
    for (int i = 0; i < 5000; i++)
        buf_char(&b, '.');
    ck_assert(buf_ok(&b));
    ck_assert_str_eq(other, "other");
    ck_assert_uint_eq(b.bytes, 5005);
    ck_assert(memcmp(buf_text(&b), "begin.....", 10) == 0);
}
END_TEST

START_TEST(survives_any_arena_size)
{
    for (size_t room = 0; room < 3000; room++) {
        struct arena a;
        struct buf b;

        arena_init(&a, block, room);
        buf_init(&b, &a, 2000);
        for (int i = 0; i < 100; i++)
            buf_str(&b, "0123456789");
        ck_assert_uint_eq(b.bytes % 10, 0);
        ck_assert_uint_eq(strlen(buf_text(&b)), b.bytes);
        ck_assert(buf_ok(&b) == (b.bytes == 1000));
    }
}
END_TEST

START_TEST(whole_numbers)
{
    char room[64];
    struct buf b;

    buf_init_fixed(&b, room, sizeof room);
    buf_u64(&b, 0);
    buf_char(&b, ' ');
    buf_u64(&b, UINT64_MAX);
    ck_assert_str_eq(buf_text(&b), "0 18446744073709551615");
}
END_TEST

UNIT_TESTS("base/buf",
    unit_test(grows_to_its_maximum_and_not_beyond);
    unit_test(a_failure_sticks);
    unit_test(other_tenants_make_it_move);
    unit_test(survives_any_arena_size);
    unit_test(whole_numbers);
)
