#include "stack/defaults.h"
#include "stack/refusals.h"
#include "stack/release.h"
#include "tests/support/unit.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* torch, transformers, peft, accelerate, bitsandbytes, deepspeed, flash_attn, liger, causal_conv1d, mamba_ssm, fla */
#define TRACED_2024 {2002, 4040, 10, 29, 43, 14, 2005, 6, 0, 0, 0}
#define TRACED_2026 {2015, 5023, 21, 1015, 50, 19, 2008, 8, 0, 0, 0}

static const struct {
    const char *what;
    struct stack asked, want;
} completion[] = {
    {"nothing named: the newest", {0}, TRACED_2026},
    {"transformers 5.23", {.transformers = 5023}, TRACED_2026},
    {"torch 2.15, transformers 5.23", {.torch = 2015, .transformers = 5023}, TRACED_2026},
    {"transformers 4.40", {.transformers = 4040}, TRACED_2024},
    {"torch 2.2, transformers 4.40", {.torch = 2002, .transformers = 4040}, TRACED_2024},
    {"an old peft beside it changes nothing else", {.transformers = 4040, .peft = 6}, {2002, 4040, 6, 29, 43, 14, 2005, 6, 0, 0, 0}},
    {"the newest named decides", {.torch = 2002, .peft = 21}, {2002, 5017, 21, 1015, 50, 19, 2008, 8, 0, 0, 0}},
    {"on the day itself", {.torch = 2002}, {2002, 4037, 8, 26, 42, 13, 2005, 6, 0, 0, 0}},
    {"before the first torch known: that one", {.deepspeed = 8}, {2000, 4027, 2, 17, 37, 8, 2, 6, 0, 0, 0}},
    {"what is installed by name stands beside the newest, and dates nothing", {.mamba_ssm = 2002, .causal_conv1d = 1004}, {2015, 5023, 21, 1015, 50, 19, 2008, 8, 1004, 2002, 0}},
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
    {PACKAGE_TRANSFORMERS, "4.99", "/transformers", "4.99 is not known here; known are the releases of transformers from 4.27 to 5.23"},
    {PACKAGE_TRANSFORMERS, "four", "/transformers", "\"5.23\" or \"5.23.0\""},
    {PACKAGE_TRANSFORMERS, "4.58.0", "/transformers", "4.58"},
    {PACKAGE_TORCH, "two", "/torch", "from 2.0 to 2.15"},
    {PACKAGE_FLASH_ATTN, "1.1", "/flash_attn", "2.8"},
    {PACKAGE_MAMBA_SSM, "two", "/mamba_ssm", "from 2.2 to 2.3"},
    {PACKAGE_FLA, "installed", "/fla", "from 0.1 to 0.6"},
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

/* Older than all that is known: of the day of the oldest. Newer: of the newest's. Both are told. */
START_TEST(takes_what_is_beyond_its_table)
{
    struct stack s = {0}, newest = {0};
    struct err err = {0};

    ck_assert_int_eq(stack_name(&s, PACKAGE_TRANSFORMERS, "4.12.0", &err), ERR_OK);
    ck_assert_int_eq(stack_complete(&s, &err), ERR_OK);
    ck_assert_str_eq(release_text(s.transformers).text, "4.12");
    ck_assert_uint_eq(stack_unread(&s).older & PACKAGE_BIT(PACKAGE_TRANSFORMERS), PACKAGE_BIT(PACKAGE_TRANSFORMERS));
    ck_assert_uint_eq(stack_unread(&s).newer, 0);

    s = (struct stack){0};
    ck_assert_int_eq(stack_name(&s, PACKAGE_TORCH, "2.99", &err), ERR_OK);
    ck_assert_int_eq(stack_complete(&s, &err), ERR_OK);
    ck_assert_int_eq(stack_complete(&newest, &err), ERR_OK);
    ck_assert_uint_eq(s.transformers, newest.transformers);
    ck_assert_uint_eq(stack_unread(&s).newer, PACKAGE_BIT(PACKAGE_TORCH));
    ck_assert_uint_eq(stack_unread(&newest).newer | stack_unread(&newest).older, 0);
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

/* One by one: a stack at the release of a row has what is since, one at the release before it what was. */
static const struct dated {
    const char *name;
    size_t package, at; /* of struct stack, of struct quirks */
    release from;
    int before, since;
} dated[] = {
#define QUIRK(name, package, from, before, since, meaning) {#name, offsetof(struct stack, package), offsetof(struct quirks, name), from, before, since},
#include "stack/quirks.def"
};

typedef struct quirks reading(const struct stack *, const char *);

static int value_at(const struct dated *row, release r, reading *read, const char *model_type)
{
    struct stack s = {2002, 4040, 10, 29, 43, 14, 2005, 6, 0, 0, 0};
    struct quirks q;
    int v;

    memcpy((char *)&s + row->package, &r, sizeof r);
    q = read(&s, model_type);
    memcpy(&v, (const char *)&q + row->at, sizeof v);
    return v;
}

START_TEST(changes_on_its_date)
{
    for (size_t i = 0; i < sizeof dated / sizeof *dated; i++) {
        ck_assert_msg(dated[i].before != dated[i].since, "%s changes nothing", dated[i].name);
        ck_assert_msg(value_at(&dated[i], dated[i].from, quirks_for, NULL) == dated[i].since, "%s", dated[i].name);
        ck_assert_msg(value_at(&dated[i], dated[i].from - 1, quirks_for, NULL) == dated[i].before, "%s", dated[i].name);
    }
}
END_TEST

/* What nobody asks for changes with a release too. */
static const struct default_row {
    const char *name;
    size_t package, at; /* of struct stack, of struct stack_defaults */
    release from;
    bool since;
} defaults[] = {
#define DEFAULT(name, package, from, since) {#name, offsetof(struct stack, package), offsetof(struct stack_defaults, name), from, since}
    DEFAULT(fused_adamw, transformers, 4054, true), DEFAULT(fused_adamw, torch, 2008, true), DEFAULT(reentrant, transformers, 5000, false),
    DEFAULT(fsdp_upcasts, accelerate, 30, true),    DEFAULT(fsdp2_units, accelerate, 1014, true), DEFAULT(trainer_fsdp2, transformers, 5010, true),
};

START_TEST(a_default_changes_on_its_date)
{
    const struct default_row *row = &defaults[_i];

    for (int i = 0; i < 2; i++) {
        struct stack s = {2015, 5023, 21, 1015, 50, 19, 2008, 8, 0, 0, 0};
        struct stack_defaults d;
        release r = row->from - (release)i;

        memcpy((char *)&s + row->package, &r, sizeof r);
        d = stack_defaults_of(&s);
        ck_assert_msg(((const bool *)&d)[row->at / sizeof(bool)] == (i ? !row->since : row->since), "%s at %s", row->name, release_text(r).text);
    }
}
END_TEST

static const struct dated *dated_row(const char *name)
{
    for (size_t i = 0; i < sizeof dated / sizeof *dated; i++)
        if (!strcmp(dated[i].name, name))
            return &dated[i];
    return NULL;
}

/* What a later row says holds from its release on, and not before. */
START_TEST(changes_again)
{
    static const struct {
        const char *name;
        release from;
        int value;
    } later[] = {
#define QUIRK(name, package, from, before, since, meaning)
#define QUIRK_LATER(name, package, from, value, meaning) {#name, from, value},
#include "stack/quirks.def"
        {NULL, 0, 0},
    };

    for (size_t i = 0; later[i].name; i++) {
        const struct dated *row = dated_row(later[i].name);

        ck_assert_msg(later[i].from > row->from, "%s: later than its first row", later[i].name);
        ck_assert_int_eq(value_at(row, later[i].from, quirks_for, NULL), later[i].value);
        ck_assert_int_ne(value_at(row, later[i].from - 1, quirks_for, NULL), later[i].value);
    }
}
END_TEST

/* A row for some model types: its date is theirs, each one's, and nobody else's. */
START_TEST(changes_by_model_type)
{
    static const struct {
        const char *types, *name;
        release from;
    } other[] = {
#define QUIRK(name, package, from, before, since, meaning)
#define QUIRK_FOR(model_types, name, package, from) {model_types, #name, from},
#include "stack/quirks.def"
        {NULL, NULL, 0},
    };

    for (size_t i = 0; other[i].name; i++) {
        const struct dated *row = dated_row(other[i].name);
        char types[256], *word;

        ck_assert_msg(other[i].from != row->from, "%s for %s: its row says so", other[i].name, other[i].types);
        (void)snprintf(types, sizeof types, "%s", other[i].types);
        for (word = strtok(types, " "); word; word = strtok(NULL, " ")) {
            ck_assert_int_eq(value_at(row, other[i].from, quirks_for, word), row->since);
            ck_assert_int_eq(value_at(row, other[i].from - 1, quirks_for, word), row->before);
        }
        ck_assert_int_eq(value_at(row, row->from, quirks_for, "of no model"), row->since);
    }
}
END_TEST

START_TEST(changes_again_by_model_type)
{
    static const struct {
        const char *type, *name;
        release from;
        int value;
    } later[] = {
#define QUIRK(name, package, from, before, since, meaning)
#define QUIRK_LATER_FOR(model_types, name, package, from, value, meaning) {model_types, #name, from, value},
#include "stack/quirks.def"
        {NULL, NULL, 0, 0},
    };

    for (size_t i = 0; later[i].name; i++) {
        const struct dated *row = dated_row(later[i].name);

        ck_assert_ptr_null(strchr(later[i].type, ' ')); /* a list would need a loop here */
        ck_assert_int_eq(value_at(row, later[i].from, quirks_for, later[i].type), later[i].value);
        ck_assert_int_ne(value_at(row, later[i].from - 1, quirks_for, later[i].type), later[i].value);
    }
}
END_TEST

/* A change that lies between two releases: before and since between them, one of the two outside. */
START_TEST(spans_what_is_not_dated)
{
    static const struct {
        const char *name;
        size_t package, at;
        release seen, from;
        int before, since;
    } span[] = {
#define QUIRK(name, package, from, before, since, meaning)
#define QUIRK_SPAN(name, package, seen, from, before, since, meaning) \
    {#name, offsetof(struct stack, package), offsetof(struct quirks, name), seen, from, before, since},
#include "stack/quirks.def"
        {NULL, 0, 0, 0, 0, 0, 0},
    };

    for (size_t i = 0; span[i].name; i++) {
        struct dated row = {span[i].name, span[i].package, span[i].at, span[i].from, span[i].before, span[i].since};

        ck_assert_msg(span[i].seen + 1 < span[i].from, "%s is dated: a QUIRK", span[i].name);
        ck_assert_int_eq(value_at(&row, span[i].seen, quirks_otherwise, NULL), span[i].before);
        ck_assert_int_eq(value_at(&row, span[i].seen + 1, quirks_otherwise, NULL), span[i].since);
        ck_assert_int_eq(value_at(&row, span[i].from - 1, quirks_for, NULL), span[i].before);
        ck_assert_int_eq(value_at(&row, span[i].from, quirks_for, NULL), span[i].since);
    }
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

/* What a class raises on: first the last release that does, then the first that does not. */
static const struct {
    enum refusal what;
    const char *type;
    release transformers, until;
} refused[] = {
    {REFUSAL_PADDING_RIGHT, "mistral", 4040, 4053}, {REFUSAL_PADDING_RIGHT, "mistral", 4052, 4053}, {REFUSAL_PADDING_RIGHT, "mistral", 4053, 0},
    {REFUSAL_PADDING_RIGHT, "qwen2", 4041, 4042},   {REFUSAL_PADDING_RIGHT, "qwen2", 4042, 0},      {REFUSAL_PADDING_RIGHT, "qwen2", 4048, 0},
    {REFUSAL_PADDING_RIGHT, "qwen2", 4049, 4053},   {REFUSAL_PADDING_RIGHT, "llama", 4040, 0},      {REFUSAL_ROPE, "llama", 4042, 4043},
    {REFUSAL_ROPE, "llama", 4043, 0},               {REFUSAL_ROPE, "mistral", 4040, 0},             {REFUSAL_UNEVEN_HEADS, "mistral", 4042, 4043},
    {REFUSAL_UNEVEN_HEADS, "mistral", 4043, 0},     {REFUSAL_UNEVEN_HEADS, "llama", 4044, 4045},    {REFUSAL_UNEVEN_HEADS, "llama", 5003, 0},
    {REFUSAL_UNEVEN_HEADS, "llama", 5004, NO_RELEASE},
    {REFUSAL_UNEVEN_HEADS, "gemma2", 5003, 0},      {REFUSAL_UNEVEN_HEADS, "gemma2", 5004, NO_RELEASE},
};

START_TEST(raises_as_its_release)
{
    struct stack s = {.transformers = refused[_i].transformers};

    ck_assert_uint_eq(stack_refuses(refused[_i].what, refused[_i].type, &s), refused[_i].until);
}
END_TEST

UNIT_TESTS("stack/release",
    unit_rows(raises_as_its_release, refused);
    unit_rows(parses, version);
    unit_test(prints);
    unit_rows(completes, completion);
    unit_rows(refuses, refusal);
    unit_test(takes_what_is_beyond_its_table);
    unit_test(names);
    unit_rows(a_default_changes_on_its_date, defaults);
    unit_test(changes_on_its_date);
    unit_test(changes_again);
    unit_test(changes_by_model_type);
    unit_test(changes_again_by_model_type);
    unit_test(spans_what_is_not_dated);
    unit_test(table_is_sorted);
)
