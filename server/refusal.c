#include "server/refusal.h"

#include "server/headers.h"

#include <time.h>

static const struct {
    unsigned status;
    enum err_code code;
    const char *detail;
} known[] = {
    {413, ERR_TOO_LARGE, "Content-Length, or a chunk, is larger than any body may be"},
    {414, ERR_URI_TOO_LONG, "a request line and its headers have room for some 8,000 bytes; what is longer belongs in the body of a POST"},
    {431, ERR_HEADERS_TOO_LARGE, "a request line and its headers have room for some 8,000 bytes"},
    {505, ERR_HTTP_VERSION, "versions 1.1 and 1.0 are"},
    {400, ERR_REQUEST, "no HTTP/1.1: a request line of three words, header lines with a colon, a Host, digits in Content-Length, chunks with their sizes"},
};
enum { KNOWN = sizeof known / sizeof *known };

static void add_line(void *arg, const char *name, const char *value)
{
    struct buf *b = arg;

    buf_str(b, name);
    buf_str(b, ": ");
    buf_str(b, value);
    buf_str(b, "\r\n");
}

static void add_number(struct buf *b, uint64_t n)
{
    buf_u64(b, n);
    buf_str(b, "\r\n");
}

static void add_date(struct buf *b)
{
    time_t now = time(NULL);
    char text[40];
    struct tm t;

    if (gmtime_r(&now, &t) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &t))
        add_line(b, "Date", text);
}

size_t refusal_write(struct exchange *x, unsigned status, const char *phrase, char *into, size_t room)
{
    struct buf b;
    int i = 0;

    while (i < KNOWN - 1 && known[i].status != status)
        i++;
    exchange_name(x);
    (void)exchange_refuse(x, known[i].code, 0, "%s", known[i].detail);
    if (!x->answer)
        return 0;
    buf_init_fixed(&b, into, room);
    buf_str(&b, "HTTP/1.1 ");
    buf_u64(&b, (uint64_t)x->answer->status);
    buf_str(&b, " ");
    buf_str(&b, phrase);
    buf_str(&b, "\r\n");
    add_date(&b);
    buf_str(&b, "Connection: close\r\n");
    headers_write_common(x, 0, add_line, &b);
    headers_write_own(x, add_line, &b);
    buf_str(&b, "Content-Length: ");
    add_number(&b, x->answer->bytes);
    buf_str(&b, "\r\n");
    buf_add(&b, x->answer->body, x->answer->bytes);
    return buf_ok(&b) ? b.bytes : 0;
}
