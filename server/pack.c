#include "server/pack.h"

#include <string.h>
#include <zlib.h>

enum { GZIP = 16, WINDOW_BITS = 15, MEMORY_LEVEL = 8, LARGE = 128 << 10 /* where the best takes three times as long for a quarter less */ };

size_t pack_gzip(const char *text, size_t bytes, char *into, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(void *)(size_t)text, .avail_in = (uInt)bytes, .next_out = (Bytef *)into, .avail_out = (uInt)room};
    size_t packed;

    if (deflateInit2(&z, bytes > LARGE ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS + GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    packed = deflate(&z, Z_FINISH) == Z_STREAM_END ? z.total_out : 0;
    (void)deflateEnd(&z);
    return packed;
}

bool pack_open(const char *packed, size_t packed_bytes, char *into, size_t bytes)
{
    uLongf n = bytes;

    return uncompress((Bytef *)into, &n, (const Bytef *)packed, packed_bytes) == Z_OK && n == bytes;
}
