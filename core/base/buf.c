#include "base/buf.h"

#include <string.h>

enum { FIRST_BYTES = 256 };

void buf_init(struct buf *b, struct arena *arena, size_t max_bytes)
{
    *b = (struct buf){.max = max_bytes, .arena = arena};
}

void buf_init_fixed(struct buf *b, char *block, size_t bytes)
{
    *b = (struct buf){.data = block, .cap = bytes, .max = bytes - 1};
    block[0] = '\0';
}

/* Doubling keeps the copies linear when another tenant forces the text to move. */
static size_t grown(const struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : FIRST_BYTES;

    while (cap < need)
        cap *= 2;
    return cap < b->max + 1 ? cap : b->max + 1;
}

static bool grow(struct buf *b, size_t need)
{
    size_t cap = grown(b, need);
    char *data;

    if (!b->arena)
        return false;
    if (b->data && (unsigned char *)b->data + b->cap == b->arena->cur) {
        if (!arena_push(b->arena, 1, 1, cap - b->cap))
            return false;
    } else {
        data = arena_push(b->arena, 1, 1, cap);
        if (!data)
            return false;
        if (b->data)
            memcpy(data, b->data, b->bytes);
        b->data = data;
    }
    b->cap = cap;
    return true;
}

void buf_add(struct buf *b, const void *data, size_t bytes)
{
    if (b->failed || !bytes)
        return;
    if (bytes > b->max - b->bytes || (b->bytes + bytes >= b->cap && !grow(b, b->bytes + bytes + 1))) {
        b->failed = true;
        return;
    }
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    b->data[b->bytes] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_u64(struct buf *b, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    buf_add(b, digits + at, sizeof digits - at);
}

bool buf_ok(const struct buf *b)
{
    return !b->failed;
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}
