#include "base/err.h"
#include "tests/support/unit.h"

#include <string.h>

START_TEST(the_registry_is_whole)
{
    for (int i = ERR_OK; i < ERR_COUNT; i++) {
        enum err_code code = (enum err_code)i;

        ck_assert_ptr_nonnull(err_slug(code));
        ck_assert_ptr_nonnull(err_title(code));
        ck_assert(code == ERR_OK ? err_status(code) == 200 : err_status(code) >= 400 && err_status(code) < 600);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(err_slug(code), err_slug((enum err_code)j));
    }
}
END_TEST

START_TEST(fills_and_returns)
{
    struct err e = {0};

    ck_assert_int_eq(err_set(&e, ERR_FIELD_TYPE, "/a", "%s %d", "is", 7), ERR_FIELD_TYPE);
    ck_assert_int_eq(e.code, ERR_FIELD_TYPE);
    ck_assert_str_eq(e.at, "/a");
    ck_assert_str_eq(e.detail, "is 7");
    ck_assert_int_eq(err_set(NULL, ERR_JSON, "", "nobody listens"), ERR_JSON);
}
END_TEST

START_TEST(long_text_is_cut)
{
    struct err e = {0};
    char lengthy[1000];

    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    (void)err_set(&e, ERR_JSON, lengthy, "%s", lengthy);
    ck_assert_uint_eq(strlen(e.at), sizeof e.at - 1);
    ck_assert_uint_eq(strlen(e.detail), sizeof e.detail - 1);
}
END_TEST

static const struct {
    const char *prefix, *at, *under;
} pointers[] = {
    {"/config", "/vocab_size", "/config/vocab_size"},
    {"", "/a", "/a"},
    {"/config", "", "/config"},
};

START_TEST(pointers_are_put_under)
{
    struct err e = {0};

    (void)err_set(&e, ERR_FIELD_RANGE, pointers[_i].at, "x");
    ck_assert_int_eq(err_under(&e, pointers[_i].prefix), ERR_FIELD_RANGE);
    ck_assert_str_eq(e.at, pointers[_i].under);
}
END_TEST

UNIT_TESTS("base/err",
    unit_test(the_registry_is_whole);
    unit_test(fills_and_returns);
    unit_test(long_text_is_cut);
    unit_rows(pointers_are_put_under, pointers);
)
