#include "server/hub/name.h"

#include "api/request/request.h"
#include "server/hub/hub.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { TOKEN_MAX = 1024 };

const char *token_fault(const char *token)
{
    size_t n = strlen(token);

    if (!n || n > TOKEN_MAX)
        return "has 1 to 1024 characters";
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~')
            return "has no blanks and nothing but ASCII";
    return NULL;
}

const char *code_file_fault(const char *file)
{
    size_t n = strspn(file, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return n && n + 3 <= HUB_FILE_MAX && !strcmp(file + n, ".py") ? NULL : "has a name of letters, digits and '_' that ends in .py";
}

bool is_commit(const char *revision)
{
    return strspn(revision, "0123456789abcdef") == 40 && !revision[40];
}

bool url_quote(const char *text, char *ret, size_t bytes)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t put = 0;

    for (; *text; text++) {
        bool as_is = strchr(plain, *text);

        if (put + (as_is ? 1 : 3) >= bytes)
            return false;
        if (as_is)
            ret[put++] = *text;
        else
            put += (size_t)snprintf(ret + put, 4, "%%%02X", (unsigned)(unsigned char)*text);
    }
    ret[put] = 0;
    return put < bytes;
}

static bool fits(int printed, size_t bytes)
{
    return printed > 0 && (size_t)printed < bytes;
}

bool url_of_file(const char *endpoint, const char *model, const char *revision, const char *file, char *ret, size_t bytes)
{
    char quoted[3 * REVISION_MAX + 1];

    return url_quote(revision, quoted, sizeof quoted) &&
           fits(snprintf(ret, bytes, "%s/%s/resolve/%s/%s", endpoint, model, quoted, file), bytes);
}

bool url_of_facts(const char *endpoint, const char *model, const char *revision, const char *query, char *ret, size_t bytes)
{
    char quoted[3 * REVISION_MAX + 1];

    return url_quote(revision, quoted, sizeof quoted) &&
           fits(snprintf(ret, bytes, "%s/api/models/%s/revision/%s?%s", endpoint, model, quoted, query), bytes);
}

bool is_loopback(const char *host)
{
    struct in_addr four;

    if (!strcasecmp(host, "localhost") || !strcmp(host, "::1") || !strcmp(host, "[::1]"))
        return true;
    return inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127;
}
