#include "base/budget.h"
#include "tests/support/unit.h"

START_TEST(without_one_all_goes)
{
    struct err err = {0};

    ck_assert(budget_spend(NULL, UINT64_MAX) && !budget_is_over(NULL));
    ck_assert_int_eq(budget_status(NULL, &err), ERR_OK);
}
END_TEST

START_TEST(ends_beyond_its_limit)
{
    struct budget b = {.limit_events = 10};
    struct err err = {0};

    ck_assert(budget_spend(&b, 4) && budget_spend(&b, 6));
    ck_assert_int_eq(budget_status(&b, &err), ERR_OK);
    ck_assert(!budget_spend(&b, 1));
    ck_assert_int_eq(budget_status(&b, &err), ERR_BUDGET);
    ck_assert_int_eq(budget_take(&b, 0, &err), ERR_BUDGET);
    b.limit_events = 20; /* a further part of the whole */
    ck_assert(budget_spend(&b, 9) && b.events == 20);
}
END_TEST

START_TEST(counts_without_wrapping)
{
    struct budget b = {.limit_events = UINT64_MAX};

    ck_assert(budget_spend(&b, UINT64_MAX - 1) && budget_spend(&b, 5) && b.events == UINT64_MAX);
}
END_TEST

START_TEST(ends_when_cancelled)
{
    atomic_bool cancelled = false;
    struct budget b = {.limit_events = 10, .cancelled = &cancelled};
    struct err err = {0};

    ck_assert(budget_spend(&b, 1));
    atomic_store(&cancelled, true);
    ck_assert(!budget_spend(&b, 1));
    ck_assert_int_eq(budget_status(&b, &err), ERR_CANCELLED);
}
END_TEST

static bool on_to_the_next(struct budget *b)
{
    b->mark_events *= 2;
    return b->mark_events < 32;
}

START_TEST(tells_of_marks)
{
    struct budget b = {.limit_events = 100, .passed = on_to_the_next, .mark_events = 8};
    struct err err = {0};

    ck_assert(budget_spend(&b, 7) && b.mark_events == 8);
    ck_assert(budget_spend(&b, 1) && b.mark_events == 16);
    ck_assert(!budget_spend(&b, 8) && b.is_stopped);
    ck_assert_int_eq(budget_status(&b, &err), ERR_CANCELLED);
    ck_assert(!budget_spend(&b, 100) && b.mark_events == 32); /* it is told once */
}
END_TEST

UNIT_TESTS("base/budget", unit_test(without_one_all_goes); unit_test(ends_beyond_its_limit); unit_test(counts_without_wrapping);
           unit_test(ends_when_cancelled); unit_test(tells_of_marks);)
