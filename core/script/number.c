#include "script/number.h"

#include "base/ascii.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool strpbrk_any(const char *text, const char *any)
{
    return text[strcspn(text, any)] != '\0';
}

size_t utf8_put(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3F));
        to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3F));
    to[2] = (char)(0x80 | (c >> 6 & 0x3F));
    to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

enum number_what number_int(const char *text, size_t n, int base, int64_t *ret)
{
    bool negative = n && *text == '-';
    uint64_t v = 0;
    size_t i = n && (*text == '-' || *text == '+');

    if (n - i > 1 && text[i] == '0') {
        char c = ascii_lower(text[i + 1]);
        int said = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;

        if (said && (base == 0 || base == said)) {
            base = said;
            i += 2;
        }
    }
    if (base == 0)
        base = 10;
    if (i >= n)
        return NUMBER_BAD;
    for (bool big = false; i < n; i++) {
        char c = ascii_lower(text[i]);
        int d = ascii_digit(c) ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;

        if (d >= base)
            return NUMBER_BAD;
        big |= v > (UINT64_MAX - (uint64_t)d) / (uint64_t)base;
        v = v * (uint64_t)base + (uint64_t)d;
        if (i + 1 == n && (big || v > (uint64_t)INT64_MAX + negative))
            return NUMBER_BIG;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return NUMBER_OK;
}

/* ---- decimal to binary: a guess, set right by exact comparison with the middle between two neighbours */

enum { BIG_WORDS = 200, BIG_DIGITS = 800 };
struct big {
    uint32_t n, w[BIG_WORDS];
};

static void big_mul(struct big *b, uint32_t by, uint32_t plus)
{
    uint64_t carry = plus;

    for (uint32_t i = 0; i < b->n; i++) {
        carry += (uint64_t)b->w[i] * by;
        b->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && b->n < BIG_WORDS)
        b->w[b->n++] = (uint32_t)carry;
}

static void big_power(struct big *b, uint32_t of, int n)
{
    for (; n > 0; n--)
        big_mul(b, of, 0);
}

static void big_shift(struct big *b, int bits)
{
    int words = bits / 32;

    for (int i = 0; i < bits % 32; i++)
        big_mul(b, 2, 0);
    if (!b->n || !words || (int)b->n + words > BIG_WORDS)
        return;
    memmove(b->w + words, b->w, b->n * sizeof *b->w);
    memset(b->w, 0, (size_t)words * sizeof *b->w);
    b->n += (uint32_t)words;
}

static int big_compare(const struct big *a, const struct big *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0;)
        if (a->w[i] != b->w[i])
            return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}

struct decimal {
    const char *digits; /* n of them, without the point */
    int n, exponent;
};

static double of_bits(uint64_t bits)
{
    double f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The decimal against the middle between `bits` and the next double up. */
static int against_middle(const struct decimal *d, uint64_t bits)
{
    uint64_t m = bits & ((UINT64_C(1) << 52) - 1);
    int k = (int)(bits >> 52);
    struct big a = {0}, b = {0};

    if (k)
        m |= UINT64_C(1) << 52;
    else
        k = 1;
    k -= 1075 + 1;
    m = 2 * m + 1;
    for (int i = 0; i < d->n; i++)
        big_mul(&a, 10, (uint32_t)(d->digits[i] - '0'));
    b.w[0] = (uint32_t)m;
    b.w[1] = (uint32_t)(m >> 32);
    b.n = b.w[1] ? 2 : 1;
    if (d->exponent >= 0)
        big_power(&a, 10, d->exponent);
    else
        big_power(&b, 10, -d->exponent);
    if (k >= 0)
        big_shift(&b, k);
    else
        big_shift(&a, -k);
    return big_compare(&a, &b);
}

static double decimal_double(const struct decimal *d)
{
    static const uint64_t top = UINT64_C(0x7FF) << 52;
    double guess = 0, scale;
    uint64_t bits;
    int lead = d->n < 19 ? d->n : 19, e = d->exponent + d->n - lead;

    for (int i = 0; i < lead; i++)
        guess = guess * 10 + (d->digits[i] - '0');
    if (d->n <= 15 && e >= 0 && e <= 22) {
        for (scale = 1; e > 0; e--)
            scale *= 10;
        return guess * scale;
    }
    if (d->n <= 15 && e < 0 && e >= -22) {
        for (scale = 1; e < 0; e++)
            scale *= 10;
        return guess / scale;
    }
    if (e + lead > 310)
        return INFINITY;
    if (e + lead < -330)
        return 0;
    guess = e < -280 ? guess * pow(10, e + 100) * 1e-100 : guess * pow(10, e);
    if (isinf(guess))
        guess = 1.7976931348623157e308;
    memcpy(&bits, &guess, sizeof bits);
    for (int i = 0; i < 64; i++) {
        int up = against_middle(d, bits), down;

        if (up > 0 || (up == 0 && (bits & 1))) {
            if (++bits == top)
                return INFINITY;
            continue;
        }
        if (!bits)
            break;
        down = against_middle(d, bits - 1);
        if (down > 0 || (down == 0 && !(bits & 1)))
            break;
        bits--;
    }
    return of_bits(bits);
}

static bool word(const char *text, size_t n, const char *is)
{
    if (strlen(is) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (ascii_lower(text[i]) != is[i])
            return false;
    return true;
}

bool number_double(const char *text, size_t n, double *ret)
{
    char digits[BIG_DIGITS];
    struct decimal d = {.digits = digits};
    bool negative = n && *text == '-', point = false, any = false;
    size_t i = n && (*text == '-' || *text == '+');

    if (word(text + i, n - i, "inf") || word(text + i, n - i, "infinity")) {
        *ret = negative ? -INFINITY : INFINITY;
        return true;
    }
    if (word(text + i, n - i, "nan")) {
        *ret = NAN;
        return true;
    }
    for (; i < n; i++) {
        char c = text[i];

        if (c == '.') {
            if (point)
                return false;
            point = true;
        } else if (ascii_digit(c)) {
            any = true;
            if (d.n || c != '0') {
                if (d.n < BIG_DIGITS - 1)
                    digits[d.n++] = c;
                else
                    d.exponent++;
            }
            d.exponent -= point;
        } else
            break;
    }
    if (!any)
        return false;
    if (i < n) {
        int64_t e = 0;

        if (ascii_lower(text[i]) != 'e' || number_int(text + i + 1, n - i - 1, 10, &e) == NUMBER_BAD)
            return false;
        if (e > 100000 || e < -100000)
            e = e > 0 ? 100000 : -100000;
        d.exponent += (int)e;
    }
    while (d.n && digits[d.n - 1] == '0') {
        d.n--;
        d.exponent++;
    }
    *ret = d.n ? decimal_double(&d) : 0;
    if (negative)
        *ret = -*ret;
    return true;
}

/* ---- binary to decimal */

size_t number_repr(double f, char *text)
{
    char digits[40];
    int exponent = 0, n, precision = fabs(f) < 2.3e-308 ? 0 : 14; /* the smallest have fewer digits */
    size_t at = 0;
    char *e;

    if (isnan(f) || isinf(f)) {
        return (size_t)snprintf(text, 8, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
    }
    for (; precision <= 16; precision++) {
        double back = 0;

        n = snprintf(digits, sizeof digits, "%.*e", precision, fabs(f));
        if (precision == 16 || (number_double(digits, (size_t)n, &back) && back == fabs(f)))
            break;
    }
    e = strchr(digits, 'e');
    for (const char *x = e + 2; *x; x++)
        exponent = exponent * 10 + (*x - '0');
    if (e[1] == '-')
        exponent = -exponent;
    n = (int)(e - digits);
    if (n > 1) /* without the point */
        memmove(digits + 1, digits + 2, (size_t)--n - 1);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (signbit(f))
        text[at++] = '-';
    if (exponent < -4 || exponent >= 16) {
        text[at++] = digits[0];
        if (n > 1) {
            text[at++] = '.';
            memcpy(text + at, digits + 1, (size_t)n - 1);
            at += (size_t)n - 1;
        }
        return at + (size_t)snprintf(text + at, 8, "e%c%02d", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
    }
    if (exponent < 0) {
        text[at++] = '0';
        text[at++] = '.';
        for (int i = -1; i > exponent; i--)
            text[at++] = '0';
        memcpy(text + at, digits, (size_t)n);
        at += (size_t)n;
    } else {
        for (int i = 0; i <= exponent || i < n; i++) {
            if (i == exponent + 1)
                text[at++] = '.';
            text[at++] = i < n ? digits[i] : '0';
        }
        if (n <= exponent + 1) {
            text[at++] = '.';
            text[at++] = '0';
        }
    }
    text[at] = '\0';
    return at;
}

/* ---- format specs */

bool number_spec(const char *text, size_t n, struct number_spec *ret)
{
    struct number_spec s = {.fill = " ", .precision = -1};
    size_t i = 0, fill = 1;

    while (fill < n && fill < 4 && ((unsigned char)text[fill] & 0xC0) == 0x80)
        fill++;
    if (n > fill && strchr("<>=^", text[fill]) && n) {
        memcpy(s.fill, text, fill);
        s.fill[fill] = '\0';
        s.align = text[fill];
        i = fill + 1;
    } else if (n && strchr("<>=^", text[0])) {
        s.align = text[0];
        i = 1;
    }
    if (i < n && strchr("+- ", text[i]))
        s.sign = text[i++];
    if (i < n && text[i] == '#') {
        s.alternate = true;
        i++;
    }
    if (i < n && text[i] == '0') {
        s.zero = true;
        if (!s.align) {
            s.align = '=';
            memcpy(s.fill, "0", 2);
        }
        i++;
    }
    for (; i < n && ascii_digit(text[i]); i++) {
        if (s.width > 100000)
            return false;
        s.width = s.width * 10 + (uint32_t)(text[i] - '0');
    }
    if (i < n && (text[i] == ',' || text[i] == '_'))
        s.group = text[i++];
    if (i < n && text[i] == '.') {
        s.precision = 0;
        if (++i >= n || !ascii_digit(text[i]))
            return false;
        for (; i < n && ascii_digit(text[i]); i++) {
            if (s.precision > 100000)
                return false;
            s.precision = s.precision * 10 + (text[i] - '0');
        }
    }
    if (i < n)
        s.type = text[i++];
    *ret = s;
    return i == n;
}

/* Puts the group's sign between each three digits of the whole part. */
static size_t grouped(char *text, size_t n, char sign, size_t room)
{
    size_t from = text[0] == '-' || text[0] == '+' || text[0] == ' ', whole = from, marks;

    while (whole < n && ascii_digit(text[whole]))
        whole++;
    marks = whole > from ? (whole - from - 1) / 3 : 0;
    if (n + marks >= room)
        return n;
    for (size_t i = n + 1; i-- > whole;)
        text[i + marks] = text[i];
    for (size_t i = whole, m = marks, digits = 0; m > 0;) {
        i--;
        text[i + m] = text[i];
        if (++digits % 3 == 0 && i > from)
            text[i + --m] = sign;
    }
    return n + marks;
}

static size_t signed_text(char *text, size_t n, char sign)
{
    if (text[0] == '-' || (sign != '+' && sign != ' '))
        return n;
    memmove(text + 1, text, n + 1);
    text[0] = sign;
    return n + 1;
}

size_t number_format_double(double f, const struct number_spec *spec, char *text, size_t room)
{
    char type = spec->type;
    int precision = spec->precision > 60 ? 60 : spec->precision;
    size_t n;

    if (type && !strchr("eEfFgGn%", type))
        return 0;
    if (isnan(f) || isinf(f)) {
        n = number_repr(f, text);
        return signed_text(text, n, spec->sign);
    }
    if (!type && precision < 0) {
        n = number_repr(f, text);
    } else if (!type) {
        /* as g, but with one digit behind the point, and e as soon as the exponent meets the precision */
        double size = fabs(f);
        int digits = precision ? precision : 1;

        n = (size_t)snprintf(text, room, spec->alternate ? "%#.*g" : "%.*g", digits, f);
        if (size != 0 && !strchr(text, 'e') && size >= pow(10, digits - 1) && !strchr(text, '.'))
            n = (size_t)snprintf(text, room, "%.*e", digits - 1, f);
        else if (!strpbrk_any(text, ".e"))
            n += (size_t)snprintf(text + n, room - n, ".0");
    } else if (type == '%') {
        n = (size_t)snprintf(text, room - 1, "%.*f%%", precision < 0 ? 6 : precision, f * 100);
    } else {
        char fmt[8] = {'%', spec->alternate ? '#' : '.', spec->alternate ? '.' : '*',
                       spec->alternate ? '*'
                       : type == 'n'   ? 'g'
                                       : type,
                       spec->alternate ? type : 0};

        n = (size_t)snprintf(text, room, fmt, precision < 0 ? 6 : precision, f);
    }
    n = n >= room ? room - 1 : n;
    if (spec->group)
        n = grouped(text, n, spec->group, room);
    return signed_text(text, n, spec->sign);
}

size_t number_format_int(int64_t i, const struct number_spec *spec, char *text, size_t room)
{
    char digits[72];
    size_t n = 0, at = 0;
    uint64_t v = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    unsigned base = spec->type == 'b' ? 2 : spec->type == 'o' ? 8 : spec->type == 'x' || spec->type == 'X' ? 16 : 10;

    if (spec->type && strchr("eEfFgG%", spec->type))
        return number_format_double((double)i, spec, text, room);
    if ((spec->type && !strchr("bdnoxX", spec->type)) || spec->precision >= 0)
        return 0;
    do {
        digits[n++] = (spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
        v /= base;
    } while (v);
    if (i < 0)
        text[at++] = '-';
    if (spec->alternate && base != 10) {
        text[at++] = '0';
        text[at++] = spec->type;
    }
    for (size_t k = n; k-- > 0;)
        text[at++] = digits[k];
    text[at] = '\0';
    if (spec->group)
        at = grouped(text, at, spec->group, room);
    return signed_text(text, at, spec->sign);
}
