#include "stack/release.h"
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { EVERY = (1 << PACKAGE_COUNT) - 1 };

static const struct {
    const char *text;
    bool ok;
    release r;
} version[] = {
    {"4.40", true, 4040}, {"4.40.0", true, 4040}, {"2.15.0", true, 2015}, {"2.2.2+cu121", true, 2002}, {"0.21", true, 21},
    {"0.41.2.post2", true, 41}, {"5.0.0.dev0", true, 5000}, {"2.10.0a0+git1", true, 2010}, {"5.0.0rc1", true, 5000}, {"2.8.3.post1", true, 2008},
    {"1.15", true, 1015}, {"", false, 0}, {"4", false, 0}, {"4.", false, 0}, {"4.40.", false, 0}, {".40", false, 0}, {"v4.40", false, 0},
    {"4.x", false, 0}, {"4.40x", false, 0}, {"4,40", false, 0}, {" 4.40", false, 0}, {"4.40 ", false, 0}, {"-4.40", false, 0}, {"04.40", false, 0},
    {"4.040", false, 0}, {"4.1000", false, 0}, {"99999999999.1", false, 0}, {"2.2.2+", false, 0}, {"2.2..2", false, 0}, {"latest", false, 0},
    {"2.2.2222222222222222222222222222222222222222222222222222222222222222", false, 0},
};

START_TEST(parses)
{
    release r = 7;

    ck_assert_msg(release_parse(version[_i].text, &r) == version[_i].ok, "'%s'", version[_i].text);
    ck_assert_msg(r == (version[_i].ok ? version[_i].r : 7), "'%s' -> %u", version[_i].text, r);
}
END_TEST

START_TEST(prints)
{
    ck_assert_str_eq(release_text(4040).text, "4.40");
    ck_assert_str_eq(release_text(21).text, "0.21");
}
END_TEST

/* torch, transformers, peft, accelerate, bitsandbytes, deepspeed, flash_attn */
#define TRACED_2024 {2002, 4040, 10, 29, 43, 14, 2005}
#define TRACED_2026 {2015, 5023, 21, 1015, 50, 19, 2008}

static const struct {
    const char *what;
    struct stack asked, want;
} completion[] = {
    {"nothing named: the newest", {0}, TRACED_2026},
    {"transformers 5.23", {.transformers = 5023}, TRACED_2026},
    {"torch 2.15, transformers 5.23", {.torch = 2015, .transformers = 5023}, TRACED_2026},
    {"transformers 4.40", {.transformers = 4040}, TRACED_2024},
    {"torch 2.2, transformers 4.40", {.torch = 2002, .transformers = 4040}, TRACED_2024},
    {"an old peft beside it changes nothing else", {.transformers = 4040, .peft = 6}, {2002, 4040, 6, 29, 43, 14, 2005}},
    {"the newest named decides", {.torch = 2002, .peft = 21}, {2002, 5017, 21, 1015, 50, 19, 2008}},
    {"on the day itself", {.torch = 2002}, {2002, 4037, 8, 26, 42, 13, 2005}},
    {"before the first torch known: that one", {.deepspeed = 8}, {2000, 4027, 2, 17, 37, 8, 2}},
};

START_TEST(completes)
{
    struct stack s = completion[_i].asked;
    struct err err = {0};

    ck_assert_int_eq(stack_complete(&s, &err), ERR_OK);
    for (int p = 0; p < PACKAGE_COUNT; p++)
        ck_assert_msg(stack_release(&s, (enum package)p) == stack_release(&completion[_i].want, (enum package)p), "%s: %s %s, not %s", completion[_i].what,
                      package_name((enum package)p), release_text(stack_release(&s, (enum package)p)).text,
                      release_text(stack_release(&completion[_i].want, (enum package)p)).text);
}
END_TEST

static const struct {
    enum package package;
    const char *text, *at, *says;
} refusal[] = {
    {PACKAGE_TRANSFORMERS, "5.24", "/transformers", "5.24 is not known here; known are the releases of transformers from 4.27 to 5.23"},
    {PACKAGE_TRANSFORMERS, "four", "/transformers", "\"5.23\" or \"5.23.0\""},
    {PACKAGE_TRANSFORMERS, "4.58.0", "/transformers", "4.58"},
    {PACKAGE_TORCH, "2.99", "/torch", "from 2.0 to 2.15"},
    {PACKAGE_TORCH, "99.1", "/torch", "2.15"},
    {PACKAGE_FLASH_ATTN, "3.0", "/flash_attn", "2.8"},
};

START_TEST(refuses)
{
    struct stack s = {.torch = 2002}, before = s;
    struct err err = {0};

    ck_assert_int_eq(stack_name(&s, refusal[_i].package, refusal[_i].text, &err), ERR_FIELD_VALUE);
    ck_assert_str_eq(err.at, refusal[_i].at);
    ck_assert_msg(strstr(err.detail, refusal[_i].says) != NULL, "%s", err.detail);
    ck_assert(!memcmp(&s, &before, sizeof s));
}
END_TEST

/* Older than all that is known: of the day of the oldest, and answered by the older traced stack. */
START_TEST(takes_what_is_older_than_its_table)
{
    struct stack s = {0};
    struct err err = {0};

    ck_assert_int_eq(stack_name(&s, PACKAGE_TRANSFORMERS, "4.12.0", &err), ERR_OK);
    ck_assert_int_eq(stack_complete(&s, &err), ERR_OK);
    ck_assert_str_eq(release_text(s.transformers).text, "4.12");
    ck_assert_uint_eq(stack_modelled(&s, ~0U).by.transformers, 4040);
    ck_assert(stack_modelled(&s, ~0U).differing & PACKAGE_BIT(PACKAGE_TRANSFORMERS));
}
END_TEST

START_TEST(refuses_to_complete_the_unknown)
{
    struct stack s = {.peft = 22};
    struct err err = {0};

    ck_assert_int_eq(stack_complete(&s, &err), ERR_FIELD_VALUE);
    ck_assert_str_eq(err.at, "/peft");
}
END_TEST

START_TEST(names)
{
    struct stack s = {0};
    struct err err = {0};

    ck_assert_int_eq(stack_name(&s, PACKAGE_TORCH, "2.2.2+cu121", &err), ERR_OK);
    ck_assert_int_eq(stack_name(&s, PACKAGE_FLASH_ATTN, "2.5.8", &err), ERR_OK);
    ck_assert_uint_eq(s.torch, 2002);
    ck_assert_uint_eq(s.flash_attn, 2005);
}
END_TEST

static const struct {
    const char *what;
    struct stack asked;
    unsigned matters;
    release by, other; /* of transformers */
    unsigned differing;
} answer[] = {
    {"the new one", TRACED_2026, EVERY, 5023, 5023, 0},
    {"the old one", TRACED_2024, EVERY, 4040, 4040, 0},
    {"between", {2006, 4048, 10, 29, 43, 14, 2005}, EVERY, 4040, 5023, PACKAGE_BIT(PACKAGE_TORCH) | PACKAGE_BIT(PACKAGE_TRANSFORMERS)},
    {"one package behind", {2015, 5022, 21, 1015, 50, 19, 2008}, PACKAGE_BIT(PACKAGE_TRANSFORMERS), 4040, 5023, PACKAGE_BIT(PACKAGE_TRANSFORMERS)},
    {"another package behind, not in use", {2015, 5023, 21, 1015, 50, 18, 2008}, EVERY & ~PACKAGE_BIT(PACKAGE_DEEPSPEED), 5023, 5023, 0},
    {"the old one's transformers on the new torch", {2015, 4040, 10, 29, 43, 14, 2005}, EVERY, 4040, 5023, PACKAGE_BIT(PACKAGE_TORCH)},
    {"before the first", {2001, 4036, 10, 29, 43, 14, 2005}, EVERY, 4040, 4040, PACKAGE_BIT(PACKAGE_TORCH) | PACKAGE_BIT(PACKAGE_TRANSFORMERS)},
};

START_TEST(answers)
{
    struct stack_answer a = stack_modelled(&answer[_i].asked, answer[_i].matters);

    ck_assert_msg(a.by.transformers == answer[_i].by && a.other.transformers == answer[_i].other, "%s: %u, %u", answer[_i].what, a.by.transformers, a.other.transformers);
    ck_assert_msg(a.differing == answer[_i].differing, "%s: %#x", answer[_i].what, a.differing);
}
END_TEST

/* current() takes the last row whose day has come. */
START_TEST(table_is_sorted)
{
    static const struct { const char *package; release r; unsigned day; } row[] = {
#define RELEASE(package, major, minor, year, month, day) {#package, (major) * 1000 + (minor), (year) * 10000u + (month) * 100u + (day)},
#include "stack/releases.def"
#undef RELEASE
    };

    for (size_t i = 1; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].package, row[i - 1].package))
            ck_assert_msg(row[i].r > row[i - 1].r && row[i].day > row[i - 1].day, "%s %u", row[i].package, row[i].r);
}
END_TEST

UNIT_TESTS("stack/release",
    unit_rows(parses, version);
    unit_test(prints);
    unit_rows(completes, completion);
    unit_rows(refuses, refusal);
    unit_test(takes_what_is_older_than_its_table);
    unit_test(refuses_to_complete_the_unknown);
    unit_test(names);
    unit_rows(answers, answer);
    unit_test(table_is_sorted);
)
