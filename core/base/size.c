#include "base/size.h"

#include "base/ascii.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { MAX_FRACTION_DIGITS = 18 };

bool size_add(uint64_t a, uint64_t b, uint64_t *ret)
{
    if (b > UINT64_MAX - a)
        return false;
    *ret = a + b;
    return true;
}

bool size_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
    if (a && b > UINT64_MAX / a)
        return false;
    *ret = a * b;
    return true;
}

/* "", "b", "k", "kb", "ki", "kib", ...: bytes of one unit; 0 for another word. */
static uint64_t unit_bytes(const char *unit)
{
    static const char prefixes[] = "kmgtpe";
    uint64_t bytes = 1;
    const char *prefix;
    uint64_t step = 1000;

    if (!*unit)
        return 1;
    prefix = memchr(prefixes, ascii_lower(*unit), sizeof prefixes - 1);
    if (prefix) {
        unit++;
        if (ascii_lower(*unit) == 'i') {
            step = 1024;
            unit++;
        }
        for (const char *p = prefixes; p <= prefix; p++)
            bytes *= step;
    }
    if (ascii_lower(*unit) == 'b')
        unit++;
    return *unit ? 0 : bytes;
}

bool size_parse(const char *text, uint64_t *ret_bytes)
{
    uint64_t whole = 0, fraction = 0, scale = 1, unit, bytes;
    const char *p = text;
    int digits = 0;

    if (!ascii_digit(*p))
        return false;
    for (; ascii_digit(*p); p++)
        if (!size_mul(whole, 10, &whole) || !size_add(whole, (uint64_t)(*p - '0'), &whole))
            return false;
    if (*p == '.') {
        for (p++; ascii_digit(*p); p++) {
            if (++digits > MAX_FRACTION_DIGITS)
                return false;
            fraction = fraction * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
        if (!digits)
            return false;
    }
    while (*p == ' ')
        p++;
    unit = unit_bytes(p);
    if (!unit || !size_mul(whole, unit, &bytes))
        return false;
    return size_add(bytes, (uint64_t)((wide)fraction * unit / scale), ret_bytes);
}
