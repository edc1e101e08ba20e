#include "api/answer/pickle.h"

#include <string.h>

static void put(struct pickle *p, char opcode)
{
    buf_char(p->out, opcode);
}

/* Little-endian. */
static void put_number(struct pickle *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        buf_char(p->out, (char)(value >> 8 * i & 0xff));
}

void pickle_begin(struct pickle *p, struct buf *out)
{
    *p = (struct pickle){.out = out};
    put(p, '\x80'); /* PROTO */
    put(p, '\x02');
}

void pickle_end(struct pickle *p)
{
    put(p, '.');
}

void pickle_dict(struct pickle *p)
{
    put(p, '}');
    put(p, '(');
}

void pickle_dict_end(struct pickle *p)
{
    put(p, 'u');
}

void pickle_list(struct pickle *p)
{
    put(p, ']');
    put(p, '(');
}

void pickle_list_more(struct pickle *p)
{
    put(p, 'e');
    put(p, '(');
}

void pickle_list_end(struct pickle *p)
{
    put(p, 'e');
}

void pickle_str(struct pickle *p, const char *text)
{
    size_t n = strlen(text);

    put(p, 'X'); /* BINUNICODE */
    put_number(p, n, 4);
    buf_add(p->out, text, n);
}

/* BININT is signed; LONG1 has as many bytes as follow, the sign in the highest: nine only where eight would be negative (memory_viz reads more than
 * eight as a BigInt, with which it cannot add). */
void pickle_u64(struct pickle *p, uint64_t value)
{
    if (value < UINT64_C(1) << 31) {
        put(p, 'J');
        put_number(p, value, 4);
        return;
    }
    put(p, '\x8a');
    put(p, value >> 63 ? 9 : 8);
    put_number(p, value, 8);
    if (value >> 63)
        put(p, 0);
}

void pickle_bool(struct pickle *p, bool value)
{
    put(p, value ? '\x88' : '\x89');
}

void pickle_pair(struct pickle *p, uint64_t a, uint64_t b)
{
    pickle_u64(p, a);
    pickle_u64(p, b);
    put(p, '\x86'); /* TUPLE2 */
}

uint32_t pickle_keep(struct pickle *p)
{
    put(p, 'r'); /* LONG_BINPUT */
    put_number(p, p->memos, 4);
    return p->memos++;
}

void pickle_again(struct pickle *p, uint32_t number)
{
    put(p, 'j'); /* LONG_BINGET */
    put_number(p, number, 4);
}

void pickle_key(struct pickle *p, const char *text, uint32_t *number)
{
    if (*number) {
        pickle_again(p, *number - 1);
        return;
    }
    pickle_str(p, text);
    *number = pickle_keep(p) + 1;
}
