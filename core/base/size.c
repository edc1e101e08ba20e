#include "base/size.h"

#include "base/ascii.h"

#include <string.h>

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

/* floor(0.d1d2...dn x unit): from the last digit on, so that nothing but the last floor is lost and nothing overflows. */
static uint64_t fraction_bytes(const char *digits, size_t n, uint64_t unit)
{
    uint64_t bytes = 0;

    while (n--)
        bytes = ((uint64_t)(digits[n] - '0') * unit + bytes) / 10;
    return bytes;
}

static size_t count_digits(const char *p)
{
    size_t n = 0;

    while (ascii_digit(p[n]))
        n++;
    return n;
}

bool size_parse(const char *text, uint64_t *ret_bytes)
{
    size_t whole_digits = count_digits(text), digits = 0;
    const char *p = text + whole_digits, *fraction = p + 1;
    uint64_t whole = 0, unit, bytes;

    if (!whole_digits)
        return false;
    for (size_t i = 0; i < whole_digits; i++)
        if (!size_mul(whole, 10, &whole) || !size_add(whole, (uint64_t)(text[i] - '0'), &whole))
            return false;
    if (*p == '.') {
        digits = count_digits(fraction);
        if (!digits)
            return false;
        p = fraction + digits;
    }
    while (*p == ' ')
        p++;
    unit = unit_bytes(p);
    if (!unit || !size_mul(whole, unit, &bytes))
        return false;
    return size_add(bytes, fraction_bytes(fraction, digits, unit), ret_bytes);
}
