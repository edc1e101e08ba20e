#include "catalog/gpu_name.h"

#include "base/ascii.h"
#include "base/name.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 96 };

static const double MUCH = 1.5; /* of memory: nobody would take one for the other */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '-' || c == '_' || c == '(' || c == ')' || c == ',';
}

static void trim(char *text)
{
    size_t n = strlen(text), lead = 0;

    while (n && is_blank(text[n - 1]))
        text[--n] = '\0';
    while (is_blank(text[lead]))
        lead++;
    memmove(text, text + lead, n - (lead < n ? lead : n) + 1);
}

static size_t digits(const char *text, unsigned *ret)
{
    size_t n = 0;

    for (*ret = 0; ascii_digit(text[n]) && n < 4; n++)
        *ret = *ret * 10 + (unsigned)(text[n] - '0');
    return n;
}

/* --- what stands around the name --------------------------------------------------------------------------------------------------- */

/* "2x RTX 3090", "8xH100", "RTX 3090 x2". */
static unsigned take_count(char *name)
{
    unsigned count;
    size_t n = digits(name, &count), end = strlen(name), from = end, at;

    for (at = n; n && name[at] == ' '; at++)
        ;
    if (n && count && ascii_lower(name[at]) == 'x' && name[at + 1] && (at == n || name[at + 1] == ' ')) {
        memmove(name, name + at + 1, end - at);
        trim(name);
        return count;
    }
    while (from && ascii_digit(name[from - 1]))
        from--;
    if (from == end || from < 2 || ascii_lower(name[from - 1]) != 'x' || !is_blank(name[from - 2]) || digits(name + from, &count) != end - from)
        return 0;
    name[from - 1] = '\0';
    trim(name);
    return count;
}

/* "24GB", "24 GiB", "24G" at the end, "24": 0 where none is. */
static unsigned take_size(char *name)
{
    static const char *const units[] = {"GiB", "GB", "G"};
    size_t n = strlen(name), from;
    unsigned size;

    for (size_t i = 0; i < 3; i++) {
        size_t m = strlen(units[i]), end = n - (n > m ? m : n);

        if (n <= m || !ascii_begins(name + end, units[i], m))
            continue;
        while (end && name[end - 1] == ' ')
            end--;
        for (from = end; from && ascii_digit(name[from - 1]); from--)
            ;
        if (from == end || from < 2 || !is_blank(name[from - 1]) || digits(name + from, &size) != end - from)
            continue;
        name[from] = '\0';
        trim(name);
        return size;
    }
    return 0;
}

/* Makers' and series' words before a name. */
static void drop_makers(char *name)
{
    static const char *const words[] = {"NVIDIA", "AMD", "Intel", "Tesla", "GeForce", "Instinct", "Radeon", "Nvidia GPU", "GPU"};

    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            size_t n = strlen(words[i]);

            if (ascii_begins(name, words[i], n) && is_blank(name[n]) && name[n + 1]) {
                memmove(name, name + n, strlen(name) - n + 1);
                trim(name);
                more = true;
            }
        }
    }
}

/* --- boards ------------------------------------------------------------------------------------------------------------------------ */

/* One of the names joined by ';' ends in `name`, before which a word ends: "RTX 4090" in "4090". */
static bool ends_in(const char *list, const char *name)
{
    size_t n = strlen(name);

    while (list && *list) {
        size_t bytes = strcspn(list, ";");

        if (bytes > n && is_blank(list[bytes - n - 1]) && ascii_begins(list + bytes - n, name, n))
            return true;
        list += bytes + (list[bytes] == ';');
    }
    return false;
}

static bool has_digit(const char *text)
{
    return strcspn(text, "0123456789") < strlen(text);
}

/* The only one that ends so. */
static const struct gpu *only_ending(const char *name)
{
    const struct gpu *found = NULL;

    if (strlen(name) < 2 || !has_digit(name))
        return NULL;
    for (size_t i = 0; i < gpu_count(); i++)
        if (ends_in(gpu_at(i)->name, name) || ends_in(gpu_at(i)->aliases, name)) {
            if (found)
                return NULL;
            found = gpu_at(i);
        }
    return found;
}

/* What tells boards of one name apart: "80GB SXM", "PCIe". */
static bool tells_apart(const char *word)
{
    unsigned size;
    size_t n = digits(word, &size);

    return n ? ascii_begins(word + n, "GB", 2) : ascii_begins(word, "SXM", 3) || ascii_begins(word, "PCIe", 4) || ascii_begins(word, "NVL", 3);
}

/* "A100-40GB PCIe" is a board of "A100"; "RTX 3090 Ti" none of "RTX 3090", slices of one none either. */
static bool is_board_of(const struct gpu *gpu, const char *base)
{
    const char *rest = gpu->name + strlen(base);

    return ascii_begins(gpu->name, base, strlen(base)) && is_blank(*rest) && tells_apart(rest + 1) && !strstr(rest, "MIG");
}

static double capacity(const struct gpu *gpu)
{
    return gpu->usable_bytes ? (double)gpu->usable_bytes : gpu->memory_gb_marketing * 1e9;
}

/* As it is sold, give or take a rounding. */
static bool has_size(const struct gpu *gpu, unsigned size)
{
    return !size || (gpu->memory_gb_marketing <= size + 1.0 && gpu->memory_gb_marketing >= size - 1.0);
}

static void list_others(struct gpu_reading *r, const char *base)
{
    size_t used = 0;

    for (size_t i = 0; i < gpu_count() && used < GPU_OTHERS_BYTES - 40; i++)
        if (gpu_at(i) != r->gpu && is_board_of(gpu_at(i), base)) {
            r->differ |= r->gpu && capacity(gpu_at(i)) > MUCH * capacity(r->gpu);
            used += (size_t)snprintf(r->others + used, GPU_OTHERS_BYTES - used, "%s%.32s", used ? ", " : "", gpu_at(i)->name);
        }
}

/* The first of the boards that has the size, and as much as is free. */
static const struct gpu *board_with(const char *base, unsigned size, uint64_t free_bytes)
{
    for (size_t i = 0; i < gpu_count(); i++)
        if (is_board_of(gpu_at(i), base) && has_size(gpu_at(i), size) && capacity(gpu_at(i)) >= (double)free_bytes)
            return gpu_at(i);
    return NULL;
}

/* A name without a size: the board that has it as an alias, unless more is free than that one has. */
static void choose(struct gpu_reading *r, const char *base, uint64_t free_bytes)
{
    const struct gpu *larger;

    list_others(r, base);
    r->is_choice = r->others[0] != '\0';
    larger = r->is_choice && free_bytes && capacity(r->gpu) < (double)free_bytes ? board_with(base, 0, free_bytes) : NULL;
    if (!larger)
        return;
    r->gpu = larger;
    r->by_free_bytes = true;
    list_others(r, base);
}

static void read_bare(struct gpu_reading *r, char *name, uint64_t free_bytes)
{
    unsigned size = take_size(name);

    drop_makers(name);
    if (!r->gpu) {
        r->gpu = gpu_find(name);
        r->gpu = r->gpu ? r->gpu : only_ending(name);
        if (size && !(r->gpu && has_size(r->gpu, size))) {
            r->gpu = board_with(name, size, 0);
            if (!r->gpu)
                list_others(r, name);
        }
    }
    if (r->gpu && !size && name_same(name, r->gpu->name) == 0)
        choose(r, name, free_bytes);
}

struct gpu_reading gpu_read_name(const char *text, uint64_t free_bytes)
{
    struct gpu_reading ret = {0};
    char name[NAME_BYTES];

    if (strlen(text) >= sizeof name)
        return ret;
    memcpy(name, text, strlen(text) + 1);
    trim(name);
    ret.count = take_count(name);
    ret.gpu = gpu_find(text);
    ret.gpu = ret.gpu ? ret.gpu : gpu_find(name);
    if (name[0])
        read_bare(&ret, name, free_bytes);
    return ret;
}
