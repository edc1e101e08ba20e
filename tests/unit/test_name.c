#include "base/name.h"
#include "tests/support/unit.h"

static const struct {
    const char *a, *b;
    bool same;
} pairs[] = {
    {"A100-80GB", "a100 80gb", true},
    {"A100-80GB", "A10080GB", true},
    {"A100-80GB", "A100-8GB", false},
    {"A100-80GB", "A100-80GB SXM", false},
    {"_a-b c\t", "ABC", true},
    {"", "", false},
    {" - ", "", false},
    {"", "a", false},
    {"a", "", false},
    {"a;b", "a", false},
    {"\xc3\x84", "\xc3\xa4", false}, /* ASCII only */
};

START_TEST(same)
{
    ck_assert(name_same(pairs[_i].a, pairs[_i].b) == pairs[_i].same);
    ck_assert(name_same(pairs[_i].b, pairs[_i].a) == pairs[_i].same);
}
END_TEST

static const struct {
    const char *name, *list;
    bool found;
} lists[] = {
    {"a", "a;b", true},
    {"B ", "a;b", true},
    {"c", "a;b", false},
    {"ab", "a;b", false},
    {"", "a;;b", false},
    {"a", "", false},
    {"b", ";b;", true},
    {"a;b", "a;b", false},
};

START_TEST(in_list)
{
    ck_assert(name_in_list(lists[_i].name, lists[_i].list) == lists[_i].found);
}
END_TEST

UNIT_TESTS("base/name",
    unit_rows(same, pairs);
    unit_rows(in_list, lists);
)
