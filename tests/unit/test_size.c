#include "base/size.h"
#include "tests/support/unit.h"

static const struct {
    const char *text;
    bool ok;
    uint64_t bytes;
} sizes[] = {
    {"0", true, 0},
    {"1024", true, 1024},
    {"80GB", true, UINT64_C(80000000000)},
    {"80 gb", true, UINT64_C(80000000000)},
    {"80G", true, UINT64_C(80000000000)},
    {"24Gi", true, UINT64_C(25769803776)},
    {"79.6GiB", true, UINT64_C(85469849190)}, /* 79.6 x 2^30 = 85469849190.4 */
    {"512MiB", true, UINT64_C(536870912)},
    {"512 mib", true, UINT64_C(536870912)},
    {"1.5T", true, UINT64_C(1500000000000)},
    {"0.1KiB", true, 102},
    {"7B", true, 7},
    {"7b", true, 7},
    {"18446744073709551615", true, UINT64_MAX},
    {"15.999999999999999999EiB", true, UINT64_C(18446744073709551614)},
    {"18446744073709551616", false, 0},
    {"16EiB", false, 0},
    {"99999999999999999999999GB", false, 0},
    {"1.00000000000000000000000000001GB", true, UINT64_C(1000000000)},
    {"0.9999999999999999999999999999KiB", true, 1023},
    {"", false, 0},
    {" 1GB", false, 0},
    {"-1GB", false, 0},
    {"+1GB", false, 0},
    {".5GB", false, 0},
    {"1.GB", false, 0},
    {"1e9", false, 0},
    {"GB", false, 0},
    {"80GBs", false, 0},
    {"80iB", false, 0},
    {"80ZB", false, 0},
    {"80GB ", false, 0},
    {"80\tGB", false, 0},
    {"0x10", false, 0},
};

START_TEST(parses)
{
    uint64_t bytes = 4711;

    ck_assert_msg(size_parse(sizes[_i].text, &bytes) == sizes[_i].ok, "'%s'", sizes[_i].text);
    ck_assert_uint_eq(bytes, sizes[_i].ok ? sizes[_i].bytes : 4711);
}
END_TEST

static const struct {
    uint64_t a, b;
    bool sums, multiplies;
} pairs[] = {
    {0, 0, true, true},
    {0, UINT64_MAX, true, true},
    {1, UINT64_MAX, false, true},
    {2, UINT64_MAX, false, false},
    {UINT64_C(1) << 32, UINT64_C(1) << 32, true, false},
    {UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, true, true},
    {UINT64_MAX, UINT64_MAX, false, false},
};

START_TEST(overflow_is_told)
{
    uint64_t a = pairs[_i].a, b = pairs[_i].b, sum = 1, product = 1;

    ck_assert(size_add(a, b, &sum) == pairs[_i].sums);
    ck_assert(size_mul(a, b, &product) == pairs[_i].multiplies);
    ck_assert_uint_eq(sum, pairs[_i].sums ? a + b : 1);
    ck_assert_uint_eq(product, pairs[_i].multiplies ? a * b : 1);
}
END_TEST

UNIT_TESTS("base/size",
    unit_rows(parses, sizes);
    unit_rows(overflow_is_told, pairs);
)
