#include "server/hash.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>

bool hash_key_draw(struct hash_key *ret)
{
    return getrandom(ret, sizeof *ret, 0) == sizeof *ret;
}

static uint64_t rotated(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void round_of(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] = rotated(v[2], 32);
}

static void take_quick(struct hash *h, uint64_t word)
{
    h->v[3] ^= word;
    round_of(h->v);
    h->v[0] ^= word;
}

static void take_word(struct hash *h, uint64_t word)
{
    h->v[3] ^= word;
    round_of(h->v);
    if (!h->is_quick)
        round_of(h->v);
    h->v[0] ^= word;
}

/* The words "somepseudorandomlygeneratedbytes"; 0xee marks the 128-bit variant. */
void hash_begin(struct hash *h, const struct hash_key *key)
{
    *h = (struct hash){.v = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d ^ 0xee, key->k[0] ^ 0x6c7967656e657261,
                             key->k[1] ^ 0x7465646279746573}};
}

void hash_begin_quick(struct hash *h, const struct hash_key *key)
{
    hash_begin(h, key);
    h->is_quick = true;
}

static uint64_t word_at(const unsigned char *p)
{
    uint64_t w;

    memcpy(&w, p, sizeof w);
    return le64toh(w);
}

static void take_byte(struct hash *h, unsigned char c)
{
    h->tail |= (uint64_t)c << 8 * (h->bytes & 7);
    if ((++h->bytes & 7) == 0) {
        take_word(h, h->tail);
        h->tail = 0;
    }
}

/* On a copy, which the compiler keeps in registers. */
static const unsigned char *take_words(struct hash *h, const unsigned char *p, size_t n)
{
    const unsigned char *end = p + 8 * n;
    struct hash copy = *h;

    if (copy.is_quick)
        for (; p < end; p += 8)
            take_quick(&copy, word_at(p));
    for (; p < end; p += 8)
        take_word(&copy, word_at(p));
    copy.bytes += 8 * n;
    *h = copy;
    return p;
}

void hash_add(struct hash *h, const void *data, size_t bytes)
{
    const unsigned char *p = data, *end = p + bytes;

    while (p < end && (h->bytes & 7))
        take_byte(h, *p++);
    p = take_words(h, p, (size_t)(end - p) / 8);
    while (p < end)
        take_byte(h, *p++);
}

static uint64_t squeeze(struct hash *h)
{
    for (int i = h->is_quick; i < 4; i++)
        round_of(h->v);
    return h->v[0] ^ h->v[1] ^ h->v[2] ^ h->v[3];
}

struct digest hash_end(struct hash *h)
{
    struct digest ret;

    take_word(h, h->tail | h->bytes << 56);
    h->v[2] ^= 0xee;
    ret.d[0] = squeeze(h);
    h->v[1] ^= 0xdd;
    ret.d[1] = squeeze(h);
    return ret;
}
