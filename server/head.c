#include "server/head.h"

#include <string.h>
#include <strings.h>

/* Its digits are the library's to check. */
static uint64_t length_of(const char *value)
{
    uint64_t n = 0;

    for (; value && *value >= '0' && *value <= '9'; value++)
        n = n > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 : n * 10 + (uint64_t)(*value - '0');
    return n;
}

/* Whether a byte is below `least`, or DEL: eight at once, every request has all its lines read. */
static bool has_control(const char *text, size_t n, unsigned least)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t found = 0, w, x;

    for (size_t i = 0; i < n; i += 8) {
        w = ones * 'x';
        memcpy(&w, text + (n >= 8 && n - i < 8 ? n - 8 : i), n < 8 ? n : 8);
        x = w ^ ones * 127;
        found |= ((w - ones * least) & ~w) | ((x - ones) & ~x);
    }
    return found & ones * 128;
}

/* "Content-Length : 2" is a length for some readers and a name of another kind for others (RFC 9112, 5.1). */
static bool is_odd_name(const char *name, size_t n)
{
    return has_control(name, n, ' ' + 1);
}

/* Where a CR without its LF ends a line, what follows it is a line of its own (RFC 9112, 2.2). A tab is none of them. */
static bool is_odd_value(const char *value, size_t n)
{
    size_t at = 0;

    if (!has_control(value, n, ' '))
        return false;
    while (at < n && ((unsigned char)value[at] >= ' ' || value[at] == '\t') && value[at] != 127)
        at++;
    return at < n;
}

static bool is_packed(const char *coding)
{
    return coding && strcasecmp(coding, "identity") != 0;
}

const char *head_target(char *target, const char **ret_host)
{
    size_t scheme = !target ? 0 : !strncasecmp(target, "http://", 7) ? 7 : !strncasecmp(target, "https://", 8) ? 8 : 0;
    size_t n = scheme ? strcspn(target + scheme, "/") : 0;
    char *host;

    if (!n)
        return target;
    host = target + scheme - 1;
    memmove(host, host + 1, n);
    host[n] = 0;
    *ret_host = host;
    return host[n + 1] ? host + n + 1 : "/";
}

void head_line(struct head_reading *r, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    static const struct {
        const char *name;
        size_t bytes, at;
    } wanted[] = {
#define WANTED(name, member) {name, sizeof name - 1, offsetof(struct head, member)}
        WANTED("Host", host),     WANTED("Content-Type", content_type),   WANTED("X-HF-Token", token),
        WANTED("Origin", origin), WANTED("X-Request-Id", id),             WANTED("Access-Control-Request-Method", preflight),
        WANTED("If-None-Match", if_none_match), WANTED("Accept", accept), WANTED("X-Forwarded-For", forwarded),
        WANTED("traceparent", trace), WANTED("Accept-Encoding", encodings),  WANTED("Content-Encoding", coding),
    };

    r->odd |= is_odd_name(name, name_bytes) || is_odd_value(value, value_bytes);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i].bytes == name_bytes && !strcasecmp(wanted[i].name, name)) {
            if (wanted[i].at == offsetof(struct head, coding) && is_packed(r->head->coding)) /* lines are one list: RFC 9110, 5.3 */
                return;
            memcpy((char *)r->head + wanted[i].at, &value, sizeof value);
            r->hosts += wanted[i].at == offsetof(struct head, host);
            r->tokens += wanted[i].at == offsetof(struct head, token);
            return;
        }
    /* libmicrohttpd 0.9.75 puts what a folded line goes on with behind its name: "X-HF-Token:" CRLF " hf_a" is a header "X-HF-Tokenhf_a" */
    r->folded |= name_bytes > 10 && (name[0] | 32) == 'x' && !strncasecmp(name, "X-HF-Token", 10);
    if (name_bytes == 14 && !strcasecmp(name, "Content-Length")) {
        r->lengths++;
        r->head->length = length_of(value);
    } else if (name_bytes == 17 && !strcasecmp(name, "Transfer-Encoding")) {
        r->codings++;
        r->head->is_chunked = value && !strcasecmp(value, "chunked");
    }
}

void head_follows(struct head_reading *r, const char *text, const char *end)
{
    r->hidden |= r->end && text != r->end + 1 && text != r->end + 2;
    r->end = end;
}

void head_end(struct head_reading *r)
{
    r->head->is_ambiguous = r->lengths > 1 || r->codings > 1 || r->hosts > 1 || r->tokens > 1 || r->folded || r->hidden || r->odd ||
                            (r->codings && (r->lengths || r->is_old || !r->head->is_chunked));
}
