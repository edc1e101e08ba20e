#include "stack/release.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t at;
} packages[PACKAGE_COUNT] = {
    [PACKAGE_TORCH]        = {"torch", offsetof(struct stack, torch)},
    [PACKAGE_TRANSFORMERS] = {"transformers", offsetof(struct stack, transformers)},
    [PACKAGE_PEFT]         = {"peft", offsetof(struct stack, peft)},
    [PACKAGE_ACCELERATE]   = {"accelerate", offsetof(struct stack, accelerate)},
    [PACKAGE_BITSANDBYTES] = {"bitsandbytes", offsetof(struct stack, bitsandbytes)},
    [PACKAGE_DEEPSPEED]    = {"deepspeed", offsetof(struct stack, deepspeed)},
    [PACKAGE_FLASH_ATTN]   = {"flash_attn", offsetof(struct stack, flash_attn)},
    [PACKAGE_LIGER]        = {"liger", offsetof(struct stack, liger)},
    [PACKAGE_CAUSAL_CONV1D] = {"causal_conv1d", offsetof(struct stack, causal_conv1d)},
    [PACKAGE_MAMBA_SSM]    = {"mamba_ssm", offsetof(struct stack, mamba_ssm)},
    [PACKAGE_FLA]          = {"fla", offsetof(struct stack, fla)},
};

/* Sorted by date within a package. */
static const struct released {
    size_t package; /* offset in struct stack */
    release release;
    uint32_t day;   /* 20240418 */
} released[] = {
#define RELEASE(package, major, minor, year, month, day) \
    {offsetof(struct stack, package), (major) * 1000 + (minor), (year) * 10000 + (month) * 100 + (day)},
#include "stack/releases.def"
#undef RELEASE
};

/* By rising release of the package. */
static const struct need {
    size_t package, beside;
    release release, from;
} needs[] = {
#define RELEASE(package, major, minor, year, month, day)
#define RUNS_FROM(package, major, minor, other, other_major, other_minor) \
    {offsetof(struct stack, package), offsetof(struct stack, other), (major) * 1000 + (minor), (other_major) * 1000 + (other_minor)},
#include "stack/releases.def"
#undef RELEASE
#undef RUNS_FROM
};

#define RELEASED (sizeof released / sizeof *released)

/* From these on releases were laid side by side (quirks.def, defaults.c, tuning/targets.def). */
static const struct stack first_read = {2002, 4040, 2, 29, 43, 14, 2005, 3, 1004, 2003, 5};

/* Whether it is installed is for the request to say. */
static bool is_optional(enum package package)
{
    return package >= PACKAGE_CAUSAL_CONV1D;
}

const char *package_name(enum package package)
{
    return packages[package].name;
}

static release *member(struct stack *s, enum package package)
{
    return (release *)(void *)((char *)s + packages[package].at);
}

release stack_release(const struct stack *s, enum package package)
{
    release r;

    memcpy(&r, (const char *)s + packages[package].at, sizeof r);
    return r;
}

static const char *digits(const char *p, release *ret)
{
    const char *start = p;
    release n = 0;

    while (*p >= '0' && *p <= '9' && p - start < 4)
        n = n * 10 + (release)(*p++ - '0');
    if (p == start || n > 999 || (*start == '0' && p - start > 1))
        return NULL;
    *ret = n;
    return p;
}

/* ".0", "+cu121", "a0", "rc1", ".post2", ".dev0": whatever may follow major.minor. */
static bool is_tail(const char *p)
{
    static const char word[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    while (*p) {
        size_t n;

        p += *p == '.' || *p == '+' || *p == '-' || *p == '_';
        n = strspn(p, word);
        if (!n)
            return false;
        p += n;
    }
    return true;
}

bool release_parse(const char *text, release *ret)
{
    release major, minor;
    const char *p = strlen(text) <= 64 ? digits(text, &major) : NULL;

    if (!p || *p != '.')
        return false;
    p = digits(p + 1, &minor);
    if (!p || (*p && !strchr(".+-_abrdp", *p)) || !is_tail(p))
        return false;
    *ret = major * 1000 + minor;
    return true;
}

struct release_text release_text(release r)
{
    struct release_text t;

    (void)snprintf(t.text, sizeof t.text, "%u.%u", r / 1000, r % 1000);
    return t;
}

static bool of(const struct released *row, enum package package)
{
    return row->package == packages[package].at;
}

/* The release of the package that was current on `day`, 0 before the first. */
static release current(enum package package, uint32_t day)
{
    release r = 0;

    for (size_t i = 0; i < RELEASED; i++)
        if (of(&released[i], package) && released[i].day <= day)
            r = released[i].release;
    return r;
}

release stack_newest(enum package package)
{
    return current(package, UINT32_MAX);
}

static release oldest(enum package package)
{
    size_t i = 0;

    while (!of(&released[i], package))
        i++;
    return released[i].release;
}

/* 0: none that ever was. What is older than all that is known counts as of the day of the oldest, what is newer as of today. */
static uint32_t day_of(enum package package, release r)
{
    if (r && r < oldest(package))
        r = oldest(package);
    if (r > stack_newest(package))
        return UINT32_MAX;
    for (size_t i = 0; i < RELEASED; i++)
        if (of(&released[i], package) && released[i].release == r)
            return released[i].day;
    return 0;
}

static enum err_code refuse(enum package package, const char *what, struct err *err)
{
    struct release_text from = release_text(oldest(package)), to = release_text(current(package, UINT32_MAX));
    char at[32];

    (void)snprintf(at, sizeof at, "/%s", packages[package].name);
    return err_set(err, ERR_FIELD_VALUE, at, "%s; known are the releases of %s from %s to %s, written as \"%s\" or \"%s.0\"", what,
                   packages[package].name, from.text, to.text, to.text, to.text);
}

static enum err_code check_known(enum package package, release r, struct err *err)
{
    char what[64];

    if (day_of(package, r))
        return ERR_OK;
    (void)snprintf(what, sizeof what, "%s is not known here", release_text(r).text);
    return refuse(package, what, err);
}

enum err_code stack_name(struct stack *s, enum package package, const char *text, struct err *err)
{
    char what[96];
    release r;
    enum err_code rc;

    if (!release_parse(text, &r)) {
        (void)snprintf(what, sizeof what, "'%.40s' is not a version", text);
        return refuse(package, what, err);
    }
    rc = check_known(package, r, err);
    if (!rc)
        *member(s, package) = r;
    return rc;
}

/* The newest release of a package that runs beside the others, 0: it goes by its date. */
static release newest_beside(const struct stack *s, enum package package)
{
    release found = 0, have;

    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        memcpy(&have, (const char *)s + needs[i].beside, sizeof have);
        if (needs[i].package == packages[package].at && (have >= needs[i].from || !found))
            found = needs[i].release;
    }
    return found;
}

release stack_needs(const struct stack *complete, enum package package)
{
    release from = 0;

    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (needs[i].package == packages[package].at && needs[i].release <= stack_release(complete, package))
            from = needs[i].from;
    return from;
}

enum err_code stack_complete(struct stack *s, struct err *err)
{
    uint32_t day = 0;

    for (int i = 0; i < PACKAGE_COUNT; i++) {
        enum package p = (enum package)i;
        release r = stack_release(s, p);
        enum err_code rc = r ? check_known(p, r, err) : ERR_OK;

        if (rc)
            return rc;
        if (r && !is_optional(p) && day_of(p, r) > day)
            day = day_of(p, r);
    }
    for (int i = 0; i < PACKAGE_COUNT; i++) {
        enum package p = (enum package)i;
        release r = newest_beside(s, p);

        if (!r)
            r = current(p, day ? day : UINT32_MAX);
        if (!*member(s, p) && !is_optional(p))
            *member(s, p) = r ? r : oldest(p);
    }
    return ERR_OK;
}

release stack_first_read(enum package package)
{
    return stack_release(&first_read, package);
}

struct stack_gaps stack_unread(const struct stack *complete)
{
    struct stack_gaps gaps = {0, 0};

    for (int i = 0; i < PACKAGE_COUNT; i++) {
        enum package p = (enum package)i;

        if (!stack_release(complete, p))
            continue;
        gaps.older |= stack_release(complete, p) < stack_first_read(p) ? PACKAGE_BIT(p) : 0;
        gaps.newer |= stack_release(complete, p) > stack_newest(p) ? PACKAGE_BIT(p) : 0;
    }
    return gaps;
}
