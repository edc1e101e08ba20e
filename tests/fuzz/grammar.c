/* Names and values out of the tables that read them: a mutator gets past the reader, and to what a row's range ends at. */
#include "api/decode/decode.h"
#include "api/theirs/theirs.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

static const char *const odd[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2",
    "1e3",
    "0.5",
    "1e999",
    "-0.0",
    "9007199254740993",
    "18446744073709551616",
    "1e-300",
    "4294967296",
    "\"\"",
    "\"auto\"",
    "\"80GB\"",
    "\"1.5GiB\"",
    "\"none\"",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "[1,1]",
    "\"\\u00e4\"",
    "\"\\ud83d\\ude00\"",
    "\"2.6\"",
};

/* One of those joined by '|'. */
static void pick_name(uint64_t *random, const char *joined, char name[FUZZ_NAME])
{
    size_t n = 1, at;

    for (const char *p = joined; *p; p++)
        n += *p == '|';
    for (at = fuzz_below(random, n); at; at--)
        joined = strchr(joined, '|') + 1;
    n = strcspn(joined, "|");
    n = n < FUZZ_NAME ? n : FUZZ_NAME - 1;
    memcpy(name, joined, n);
    name[n] = 0;
}

static void pick_odd(uint64_t *random, char value[FUZZ_VALUE])
{
    (void)snprintf(value, FUZZ_VALUE, "%s", odd[fuzz_below(random, sizeof odd / sizeof *odd)]);
}

static size_t count(const struct member *members)
{
    size_t n = 0;

    while (members && members[n].key)
        n++;
    return n;
}

static void pick_word(uint64_t *random, const struct word *words, char value[FUZZ_VALUE])
{
    char name[FUZZ_NAME];
    size_t n = 0;

    while (words[n].name)
        n++;
    words += fuzz_below(random, n);
    pick_name(random, words->also && fuzz_below(random, 3) == 0 ? words->also : words->name, name);
    (void)snprintf(value, FUZZ_VALUE, "\"%s\"", name);
}

static void pick_number(uint64_t *random, const struct member *m, char value[FUZZ_VALUE])
{
    uint64_t max = m->max ? m->max : 1000000;
    const uint64_t at[] = {
        m->min, m->min + 1, max, max + 1, fuzz_random(random) % (max + 1), fuzz_random(random) % 64, 1ull << fuzz_below(random, 40)};
    uint64_t n = at[fuzz_below(random, sizeof at / sizeof *at)];

    if (m->kind == KIND_REAL && fuzz_below(random, 2))
        (void)snprintf(value, FUZZ_VALUE, "%llu.%03u", (unsigned long long)n, (unsigned)fuzz_below(random, 1000));
    else
        (void)snprintf(value, FUZZ_VALUE, "%llu", (unsigned long long)n);
}

static void pick_value(uint64_t *random, const struct member *m, char value[FUZZ_VALUE]);

static void pick_object(uint64_t *random, const struct member *members, char value[FUZZ_VALUE])
{
    const struct member *m = &members[fuzz_below(random, count(members))];
    char inner[FUZZ_VALUE];

    pick_value(random, m, inner);
    if ((size_t)snprintf(value, FUZZ_VALUE, "{\"%s\":%s}", m->key, inner) >= FUZZ_VALUE)
        (void)snprintf(value, FUZZ_VALUE, "{}");
}

static void pick_value(uint64_t *random, const struct member *m, char value[FUZZ_VALUE])
{
    static const char *const own[] = {"\"A100-80GB\"", "\"H100 SXM\"",    "\"nvlink4\"",  "\"pcie4 x2\"",        "\"zero3\"",
                                      "\"fsdp2\"",     "\"tp+pp+zero1\"", "\"tp+fsdp2\"", "[\"ddp\",\"zero2\"]", "\"llmem_adp\"",
                                      "[1,2,3]",       "{\"512\":3}",     "\"16GB\""};

    if (fuzz_below(random, 8) == 0) {
        pick_odd(random, value);
        return;
    }
    switch (m->kind) {
    case KIND_WORDS:
        pick_word(random, m->words, value);
        return;
    case KIND_WHOLE:
    case KIND_BYTES:
    case KIND_REAL:
        pick_number(random, m, value);
        return;
    case KIND_BOOL:
        (void)snprintf(value, FUZZ_VALUE, "%s", fuzz_below(random, 2) ? "true" : "false");
        return;
    case KIND_STRS:
        (void)snprintf(value, FUZZ_VALUE, "%s", fuzz_below(random, 2) ? "[\"q_proj\",\"v_proj\"]" : "\".*(q|v)_proj\"");
        return;
    case KIND_OBJECT:
        pick_object(random, m->members, value);
        return;
    case KIND_STR:
        (void)snprintf(value, FUZZ_VALUE, "%s", fuzz_below(random, 2) ? "\"2.6\"" : "\"gpt2\"");
        return;
    case KIND_OWN:
        if (m->members && fuzz_below(random, 2))
            pick_object(random, m->members, value);
        else
            (void)snprintf(value, FUZZ_VALUE, "%s", own[fuzz_below(random, sizeof own / sizeof *own)]);
        return;
    default:
        pick_odd(random, value);
    }
}

/* The table of the objects that are called so. */
static const struct member *table_of(const struct member *members, const char *of)
{
    const struct member *found = NULL;

    for (const struct member *m = members; m && m->key && !found; m++)
        if (m->members)
            found = strcmp(m->key, of) ? table_of(m->members, of) : m->members;
    return found;
}

static size_t count_keys(const struct their_key *keys)
{
    size_t n = 0;

    while (keys && keys[n].names)
        n++;
    return n;
}

static void pick_key(uint64_t *random, const struct their_key *keys, char name[FUZZ_NAME], char value[FUZZ_VALUE])
{
    const struct their_key *k = &keys[fuzz_below(random, count_keys(keys))];

    while (k->effect == ALSO)
        k = &k->keys[fuzz_below(random, count_keys(k->keys))];
    pick_name(random, k->names, name);
    pick_odd(random, value);
    if (k->effect == WITHIN && k->keys && fuzz_below(random, 4)) {
        char inner[FUZZ_NAME], inner_value[FUZZ_VALUE];

        pick_key(random, k->keys, inner, inner_value);
        if ((size_t)snprintf(value, FUZZ_VALUE, "{\"%s\":%s}", inner, inner_value) >= FUZZ_VALUE)
            (void)snprintf(value, FUZZ_VALUE, "{}");
    }
}

static size_t length(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

void fuzz_pick(const struct fuzz_grammar *g, uint64_t *random, const char *of, char name[FUZZ_NAME], char value[FUZZ_VALUE])
{
    const struct member *members = of && g->members ? table_of(g->members, of) : g->members;
    size_t n_names = length(g->names), n_values = length(g->values);
    size_t way = fuzz_below(random, 8);

    if (members && (way < 5 || !g->keys)) {
        const struct member *m = &members[fuzz_below(random, count(members))];

        pick_name(random, m->also && fuzz_below(random, 4) == 0 ? m->also : m->key, name);
        pick_value(random, m, value);
    } else if (g->keys && (way < 7 || !n_names)) {
        pick_key(random, g->keys, name, value);
    } else {
        (void)snprintf(name, FUZZ_NAME, "%s", n_names ? g->names[fuzz_below(random, n_names)] : "x");
        pick_odd(random, value);
    }
    if (n_values && fuzz_below(random, 4) == 0)
        (void)snprintf(value, FUZZ_VALUE, "%s", g->values[fuzz_below(random, n_values)]);
}
