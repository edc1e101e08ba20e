/* Regular expressions of target_modules against CPython's re.fullmatch (tests/data/pattern/make_cases.py). */
#include "tuning/pattern.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum err_code compile(const char *text, void *block, size_t room, const struct pattern **ret, struct err *err)
{
    struct arena a;

    arena_init(&a, block, room);
    return pattern_compile(text, "/training/lora/target_modules", &a, ret, err);
}

START_TEST(agrees_with_cpython)
{
    FILE *f = fopen("tests/data/pattern/cases.txt", "r");
    void *block = malloc(1 << 20);
    char line[2048];
    unsigned n = 0;

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        char *name = strchr(line, '\t') + 1, *text = strchr(name, '\t') + 1;
        const struct pattern *p = NULL;
        struct pattern_effort effort = {0};
        struct err err = {0};
        char got;

        text[-1] = 0;
        text[strcspn(text, "\n")] = 0;
        got = compile(text, block, 1 << 20, &p, &err) ? 'e' : pattern_matches(p, name, &effort) ? '1' : '0';
        ck_assert_msg(got == line[0] && !effort.exhausted, "%s and %s: %c, not %c %s", text, name, line[0], got, err.detail);
        n++;
    }
    ck_assert_uint_gt(n, 5000);
    fclose(f);
    free(block);
}
END_TEST

/* What takes re a lifetime. */
static const char *const costly[] = {
    "(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)*.*(.*)*x", "((a{0,9}){0,9}){0,9}b", "(?=(a*)*b)a*", "(?!(a+)+b)(?=(a+)+$)a*b", "(x+x+)+y",
};

START_TEST(takes_a_bounded_time)
{
    void *block = malloc(1 << 20);
    const struct pattern *p = NULL;
    clock_t begin = clock();
    struct pattern_effort effort = {0};
    char name[256];

    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    if (!compile(costly[_i], block, 1 << 20, &p, NULL))
        ck_assert(!pattern_matches(p, name, &effort) || _i == 6);
    ck_assert_double_lt((double)(clock() - begin) / CLOCKS_PER_SEC, 0.5);
    free(block);
}
END_TEST

START_TEST(refuses_what_is_too_long)
{
    const struct pattern *p = NULL;
    void *block = malloc(1 << 20);
    struct err err = {0};
    char text[2048];

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    ck_assert_int_eq(compile(text, block, 1 << 20, &p, &err), ERR_FIELD_VALUE);
    ck_assert_int_eq(compile("((((a{9}){9}){9}){9}){9}", block, 1 << 20, &p, &err), ERR_FIELD_VALUE);
    memset(text, '(', 600);
    text[600] = 0;
    ck_assert_int_eq(compile(text, block, 1 << 20, &p, &err), ERR_FIELD_VALUE);
    ck_assert_int_eq(compile("a", block, 64, &p, &err), ERR_NOMEM);
    free(block);
}
END_TEST

/* No end of a text is read over: each stands at the end of its memory. */
START_TEST(reads_no_further_than_the_end)
{
    static const char text[] = "(?i)^(?!.*[^a-z\\d]x)(?P<name>a|[]b-]{2,3}?|\\x61)+(?<=q)(?:z{,4})*(?#c)\\bend$";
    void *block = malloc(1 << 20);

    for (size_t from = 0; from < sizeof text - 1; from++)
        for (size_t n = 0; n <= sizeof text - 1 - from; n++) {
            const struct pattern *p = NULL;
            struct pattern_effort effort = {0};
            char *copy = malloc(n + 1);

            memcpy(copy, text + from, n);
            copy[n] = 0;
            if (!compile(copy, block, 1 << 20, &p, NULL))
                (void)pattern_matches(p, "model.layers.0.mlp", &effort);
            free(copy);
        }
    free(block);
}
END_TEST

UNIT_TESTS("tuning/pattern",
    unit_test(reads_no_further_than_the_end);
    unit_test(agrees_with_cpython);
    unit_rows(takes_a_bounded_time, costly);
    unit_test(refuses_what_is_too_long);
)
