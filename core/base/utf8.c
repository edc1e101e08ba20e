#include "base/utf8.h"

#include <stdbool.h>

static bool is_tail(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

size_t utf8_char(const char *p, size_t bytes)
{
    const unsigned char *u = (const unsigned char *)p;

    if (bytes < 1)
        return 0;
    if (u[0] < 0x80)
        return 1;
    if (u[0] < 0xC2 || bytes < 2 || !is_tail(u[1]))
        return 0;
    if (u[0] < 0xE0)
        return 2;
    if (bytes < 3 || !is_tail(u[2]))
        return 0;
    if (u[0] < 0xF0) {
        bool overlong = u[0] == 0xE0 && u[1] < 0xA0;
        bool surrogate = u[0] == 0xED && u[1] >= 0xA0;

        return overlong || surrogate ? 0 : 3;
    }
    if (bytes < 4 || !is_tail(u[3]))
        return 0;
    if (u[0] > 0xF4 || (u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] >= 0x90))
        return 0;
    return 4;
}
