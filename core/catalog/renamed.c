#include "catalog/renamed.h"

#include "base/ascii.h"
#include "base/name.h"

#include <stdio.h>
#include <string.h>

static const struct renamed {
    const char *from, *to;
} rows[] = {
#include "gen/renamed.inc"
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static bool ends_in_star(const char *name, size_t *ret_before)
{
    size_t n = strlen(name);

    *ret_before = n && name[n - 1] == '*' ? n - 1 : n;
    return *ret_before < n;
}

/* `id` as the other side of a row calls it. */
static bool apply(const char *from, const char *to, const char *id, char ret[RENAMED_BYTES])
{
    size_t n, m;
    bool all = ends_in_star(from, &n);
    int written;

    (void)ends_in_star(to, &m);
    if (!ascii_begins(id, from, n) || (!all && id[n]))
        return false;
    written = snprintf(ret, RENAMED_BYTES, "%.*s%s", (int)m, to, all ? id + n : "");
    return written > 0 && written < RENAMED_BYTES;
}

bool renamed_other(const char *id, unsigned i, char ret[RENAMED_BYTES])
{
    for (size_t r = 0; r < N_ROWS; r++) {
        if (apply(rows[r].from, rows[r].to, id, ret) && !i--)
            return true;
        if (apply(rows[r].to, rows[r].from, id, ret) && !i--)
            return true;
    }
    return false;
}

static struct known by_other_name(const char *id)
{
    char other[RENAMED_BYTES];
    struct known ret = {builtin_find(id), KNOWN_BY_ID};

    for (unsigned i = 0; !ret.model && renamed_other(id, i, other); i++)
        ret = (struct known){builtin_find(other), KNOWN_BY_RENAME};
    return ret;
}

static const char *last_part(const char *id)
{
    const char *slash = strchr(id, '/');

    return slash ? slash + 1 : id;
}

static bool same_text(const struct builtin *a, const struct builtin *b)
{
    return a->block == b->block && a->offset == b->offset;
}

/* The one that is called `name` by whatever organisation; of two that have the same config the one whose it is. */
static const struct builtin *called(const char *name)
{
    const struct builtin *found = NULL, *b;

    for (size_t i = 0; i < builtin_count(); i++) {
        b = builtin_at(i);
        if (!name_same(last_part(b->id), name))
            continue;
        if (found && !same_text(found, b))
            return NULL;
        if (!found || !b->of)
            found = b;
    }
    for (size_t r = 0; !found && r < N_ROWS; r++)
        if (name_same(last_part(rows[r].from), name) || name_same(last_part(rows[r].to), name)) {
            found = builtin_find(rows[r].from);
            found = found ? found : builtin_find(rows[r].to);
        }
    return found;
}

/* `id` less the ending that says how its weights are stored; false where it has none. */
static bool less_storage(const char *id, char ret[RENAMED_BYTES], bool *ret_packed)
{
    static const struct {
        const char *text;
        bool packed; /* in fewer bits, which its own config.json would tell */
    } endings[] = {{"-unsloth-bnb-4bit", true}, {"-bnb-4bit", true}, {"-bnb-8bit", true}, {"-BF16", false},     {"-FP8", true},
                   {"-FP8-dynamic", true},      {"-NVFP4", true},    {"-MXFP4", true},    {"-AWQ", true},       {"-GPTQ", true},
                   {"-GPTQ-Int4", true},        {"-GPTQ-Int8", true}, {"-quantized", true}, {"-GGUF", true},    {"-4bit", true},
                   {"-INT4", true},             {"-MLX-4bit", true}, {"-fp16", false},    {"-HF", false},       {"-FP8-Static-PerTensor", true}};
    size_t n = strlen(id);

    for (size_t i = 0; i < sizeof endings / sizeof *endings && n < RENAMED_BYTES; i++) {
        size_t m = strlen(endings[i].text);

        if (n > m && name_same(id + n - m, endings[i].text)) {
            memcpy(ret, id, n - m);
            ret[n - m] = '\0';
            *ret_packed = endings[i].packed;
            return true;
        }
    }
    return false;
}

static struct known by_copy(const char *id)
{
    return (struct known){called(last_part(id)), strchr(id, '/') ? KNOWN_BY_COPY : KNOWN_BY_LAST};
}

/* X-FP8 is X, by whatever organisation; never the reverse: a config of packed weights says how they are packed. */
static struct known by_storage(const char *id)
{
    char plain[RENAMED_BYTES];
    struct known ret = {NULL, KNOWN_BY_STORAGE};
    bool packed;

    if (!less_storage(id, plain, &packed))
        return ret;
    ret.model = by_other_name(plain).model;
    ret.model = ret.model ? ret.model : called(last_part(plain));
    return ret;
}

struct known builtin_known_as(const char *id)
{
    struct known ret = by_other_name(id);

    if (!ret.model && last_part(id)[0] && id[0] != '/')
        ret = by_copy(id);
    if (!ret.model && strchr(id, '/') && last_part(id)[0] && id[0] != '/')
        ret = by_storage(id);
    return ret;
}

/* --- words --------------------------------------------------------------------------------------------------------------------------- */

/* Not its own config.json, which would tell what a step trains on. */
static const char *of_packed(const struct builtin *b, const char *id, bool same)
{
    char plain[RENAMED_BYTES];
    bool packed;

    return (!same || b->of) && less_storage(id, plain, &packed) && packed
               ? "; how its own weights are packed is not in it: they are taken for 16 bits, unless training.quantization or inference.weights says"
               : "";
}

bool known_say(const struct known *k, const char *id, char ret[KNOWN_SAY_BYTES])
{
    const struct builtin *b = k->model;
    const char *owner = b->of ? b->of : b->id, *why = "that is carried here";
    bool same = k->by == KNOWN_BY_ID || (ascii_begins(id, b->id, strlen(b->id)) && !id[strlen(b->id)]);

    if (k->by == KNOWN_BY_COPY)
        why = "that is carried here: another organisation's repository of the same name";
    else if (k->by == KNOWN_BY_STORAGE)
        why = "that is carried here: the same model by its name, its weights stored otherwise";
    else if (b->made == BUILTIN_SAME)
        why = "that is carried here, a sibling of equal shape";
    else if (b->made == BUILTIN_PRESUMED)
        why = "that is carried here, a sibling whose shape by the names is the same";
    if (same && !b->of && b->made == BUILTIN_VERBATIM)
        (void)snprintf(ret, KNOWN_SAY_BYTES, "the config.json that is carried here");
    else if (same && !b->of)
        (void)snprintf(ret, KNOWN_SAY_BYTES, "what is carried here of its config.json, after %.120s", b->source);
    else
        (void)snprintf(ret, KNOWN_SAY_BYTES, "the config.json of %.96s %s%s", owner, why, of_packed(b, id, same));
    return (!same && k->by != KNOWN_BY_RENAME) || b->of || b->made != BUILTIN_VERBATIM;
}
