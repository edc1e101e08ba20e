#include "server/policy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ID_MAX = 128, TOKEN_MAX = 512, TRACE_BYTES = 55 };

bool policy_listed(const char *list, const char *word, size_t bytes)
{
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ",");

        if (n == bytes && !strncasecmp(p, word, n))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* "[::1]:8080" and "localhost:8080" without the port. */
static size_t name_bytes(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    size_t n = 0;

    if (end)
        return (size_t)(end + 1 - host);
    while (host[n] && host[n] != ':')
        n++;
    return n;
}

static bool is_loopback_address(const char *host, size_t n)
{
    return n > 4 && !strncmp(host, "127.", 4) && strspn(host, "0123456789.") >= n;
}

bool policy_host_is_ours(const char *host, const char *listed)
{
    size_t n = name_bytes(host);
    const char *port = host + n;

    if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")]))
        return false;
    if (n == 9 && !strncasecmp(host, "localhost", 9))
        return true;
    return policy_listed("[::1]", host, n) || is_loopback_address(host, n) || policy_listed(listed, host, n);
}

const char *policy_origin(const char *origin, const char *listed)
{
    if (!origin || !listed)
        return NULL;
    if (!strcmp(listed, "*"))
        return "*";
    return policy_listed(listed, origin, strlen(origin)) ? origin : NULL;
}

void policy_forwarded(const char *header, char *ret, size_t bytes)
{
    const char *last = strrchr(header, ',');
    size_t n;

    last = last ? last + 1 : header;
    last += strspn(last, " \t");
    n = strcspn(last, " \t");
    if (n >= bytes)
        n = bytes - 1;
    memcpy(ret, last, n);
    ret[n] = 0;
}

/* "[::1]:80", "[::1]" and "1.2.3.4:80" without what is around; an address of six has colons of its own. */
static void bare(const char *who, char ret[INET6_ADDRSTRLEN])
{
    const char *colon = strchr(who, ':');
    size_t n = strlen(who);

    if (who[0] == '[') {
        who++;
        n = strcspn(who, "]");
    } else if (colon && !strchr(colon + 1, ':')) {
        n = (size_t)(colon - who);
    }
    if (n >= INET6_ADDRSTRLEN)
        n = INET6_ADDRSTRLEN - 1;
    memcpy(ret, who, n);
    ret[n] = 0;
}

void policy_network(const char *who, char *ret, size_t bytes)
{
    char address[INET6_ADDRSTRLEN];
    unsigned char a[16];

    bare(who, address);
    if (inet_pton(AF_INET6, address, a) != 1)
        (void)snprintf(ret, bytes, "%s", address);
    else if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)a))
        (void)snprintf(ret, bytes, "%u.%u.%u.%u", a[12], a[13], a[14], a[15]);
    else
        (void)snprintf(ret, bytes, "%02x%02x:%02x%02x:%02x%02x:%02x%02x::", a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

bool policy_id_is_good(const char *id)
{
    size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/+@");

    return n && !id[n] && n <= ID_MAX;
}

static bool is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") >= n;
}

static bool is_zeros(const char *text, size_t n)
{
    return strspn(text, "0") >= n;
}

bool policy_trace_is_good(const char *t)
{
    if (strlen(t) < TRACE_BYTES || t[2] != '-' || t[35] != '-' || t[52] != '-')
        return false;
    if (!is_hex(t, 2) || !is_hex(t + 3, 32) || !is_hex(t + 36, 16) || !is_hex(t + 53, 2))
        return false;
    if (!strncmp(t, "ff", 2) || is_zeros(t + 3, 32) || is_zeros(t + 36, 16))
        return false;
    return !t[TRACE_BYTES] || (strncmp(t, "00", 2) != 0 && t[TRACE_BYTES] == '-');
}

/* "gzip;q=0.0": what is named so is not wanted. */
static bool is_refused(const char *parameters, const char *end)
{
    const char *q = memchr(parameters, '=', (size_t)(end - parameters));

    if (!q)
        return false;
    for (q++; q < end && (*q == '0' || *q == '.' || *q == ' '); q++)
        ;
    return q == end;
}

bool policy_takes_gzip(const char *encodings)
{
    bool any = false;

    for (const char *p = encodings, *end; *p; p = *end ? end + 1 : end) {
        size_t n;

        p += strspn(p, " \t");
        end = p + strcspn(p, ",");
        n = strcspn(p, " \t;,");
        if ((n == 4 && !strncasecmp(p, "gzip", 4)) || (n == 6 && !strncasecmp(p, "x-gzip", 6)))
            return !is_refused(p + n, end);
        any |= n == 1 && *p == '*' && !is_refused(p + n, end);
    }
    return any;
}

enum verb policy_verb(const char *method)
{
    switch (method[0]) {
    case 'G':
        return strcmp(method, "GET") ? VERB_OTHER : VERB_GET;
    case 'H':
        return strcmp(method, "HEAD") ? VERB_OTHER : VERB_HEAD;
    case 'P':
        return strcmp(method, "POST") ? VERB_OTHER : VERB_POST;
    case 'O':
        return strcmp(method, "OPTIONS") ? VERB_OTHER : VERB_OPTIONS;
    default:
        return VERB_OTHER;
    }
}

bool policy_method_is_good(const char *method)
{
    size_t n = 0;

    while ((unsigned char)((method[n] | 32) - 'a') < 26 || method[n] == '-' || method[n] == '_')
        n++;
    return n && !method[n];
}

bool policy_token_is_good(const char *token)
{
    size_t n = 0;

    while (token[n] > ' ' && token[n] < 127)
        n++;
    return n && !token[n] && n <= TOKEN_MAX;
}

bool policy_etag_matches(const char *header, const char *etag)
{
    size_t n = strlen(etag);

    for (const char *p = header; *p;) {
        p += strspn(p, " \t,");
        if (*p == '*')
            return true;
        if (!strncmp(p, "W/", 2))
            p += 2;
        if (!strncmp(p, etag, n) && (!p[n] || strchr(" \t,", p[n])))
            return true;
        p += strcspn(p, ",");
    }
    return false;
}
