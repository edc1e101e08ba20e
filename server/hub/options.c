/* The environment as huggingface_hub reads it: constants.py, utils/_auth.py of 1.29. */
#include "server/hub/hub.h"

#include "server/hub/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_BYTES = 4096 };

/* Where the options' texts lie. */
struct texts {
    char endpoint[TEXT_BYTES], token[TEXT_BYTES], hf_cache[TEXT_BYTES], ca[TEXT_BYTES], origin[TEXT_BYTES];
};

/* Set and not empty; the newer name wins. */
static const char *env(const char *name, const char *old)
{
    const char *value = getenv(name);

    if ((!value || !value[0]) && old)
        value = getenv(old);
    return value && value[0] ? value : NULL;
}

static bool is_true(const char *value)
{
    static const char *const yes[] = {"1", "ON", "YES", "TRUE"};

    for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++)
        if (!strcasecmp(value, yes[i]))
            return true;
    return false;
}

static bool complain(const char *name, const char *what)
{
    fprintf(stderr, "llmemd: %s: %s\n", name, what);
    return false;
}

/* "~/x" is the home's. */
static bool join(char *ret, const char *dir, const char *name)
{
    const char *home = getenv("HOME");
    bool tilde = dir[0] == '~' && (!dir[1] || dir[1] == '/') && home;
    int n = snprintf(ret, TEXT_BYTES, "%s%s%s%s", tilde ? home : "", dir + tilde, name[0] ? "/" : "", name);

    return n > 0 && n < TEXT_BYTES;
}

/* HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. */
static bool home_of(char *ret)
{
    const char *home = env("HF_HOME", NULL), *cache = env("XDG_CACHE_HOME", NULL);

    if (home)
        return join(ret, home, "");
    if (cache)
        return join(ret, cache, "huggingface");
    return getenv("HOME") && join(ret, "~/.cache/huggingface", "");
}

/* No line ends anywhere, no white space at either end. */
static void clean_token(char *text)
{
    size_t put = 0, skip;

    for (const char *p = text; *p; p++)
        if (*p != '\r' && *p != '\n')
            text[put++] = *p;
    while (put && strchr(" \t\v\f", text[put - 1]))
        put--;
    text[put] = 0;
    skip = strspn(text, " \t\v\f");
    memmove(text, text + skip, put - skip + 1);
}

static void read_file(const char *path, char *ret)
{
    FILE *file = fopen(path, "re");

    ret[0] = 0;
    if (!file)
        return;
    ret[fread(ret, 1, TEXT_BYTES - 1, file)] = 0;
    (void)fclose(file);
}

/* HF_TOKEN wins over the file. Empty is none. */
static void read_token(const char *home, char *ret)
{
    const char *token = env("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), *at = env("HF_TOKEN_PATH", NULL);
    char path[TEXT_BYTES];

    ret[0] = 0;
    if (is_true(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")))
        return;
    (void)snprintf(ret, TEXT_BYTES, "%s", token ? token : "");
    clean_token(ret);
    if (!ret[0] && (at ? join(path, at, "") : home[0] && join(path, home, "token"))) {
        read_file(path, ret);
        clean_token(ret);
    }
}

static bool read_endpoint(char *ret)
{
    const char *endpoint = env("HF_ENDPOINT", NULL);
    size_t n = (size_t)snprintf(ret, TEXT_BYTES, "%s", endpoint ? endpoint : "https://huggingface.co");

    if (n >= 1024)
        return complain("HF_ENDPOINT", "too long");
    while (n && ret[n - 1] == '/')
        ret[--n] = 0;
    return true;
}

/* Whole seconds or not, as Python's int() reads them; 10 where nothing sensible stands. */
static unsigned seconds_ms(const char *name)
{
    const char *value = env(name, NULL);
    char *end;
    long s = value ? strtol(value, &end, 10) : 10;

    return value && (*end || s < 1 || s > 600) ? 10000 : (unsigned)s * 1000;
}

static const char *first_ca(void)
{
    static const char *const names[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR"};
    const char *ca = NULL;

    for (size_t i = 0; !ca && i < sizeof names / sizeof *names; i++)
        ca = env(names[i], NULL);
    return ca;
}

static const char *unless_empty(const char *text)
{
    return text[0] ? text : NULL;
}

static bool read_texts(struct texts *t)
{
    const char *cache = env("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"), *ca = first_ca(), *origin = env("HF_HUB_USER_AGENT_ORIGIN", NULL);
    char home[TEXT_BYTES] = "";

    if (!home_of(home))
        home[0] = 0;
    read_token(home, t->token);
    if (t->token[0] && token_fault(t->token))
        return complain("HF_TOKEN", "a token has no blanks and nothing but ASCII");
    if (cache ? !join(t->hf_cache, cache, "") : home[0] && !join(t->hf_cache, home, "hub"))
        return complain("HF_HUB_CACHE", "too long");
    if (ca && !join(t->ca, ca, ""))
        return complain("SSL_CERT_FILE", "too long");
    for (size_t i = 0; origin && origin[i] && i < 200; i++)
        t->origin[i] = origin[i] >= ' ' && origin[i] <= '~' ? origin[i] : '?';
    return read_endpoint(t->endpoint);
}

bool hub_options_read(struct hub_options *ret)
{
    struct texts *t = calloc(1, sizeof *t);

    if (!t)
        return complain("options", "no memory");
    if (!read_texts(t)) {
        free(t);
        return false;
    }
    *ret = (struct hub_options){
        .endpoint = t->endpoint,
        .token = unless_empty(t->token),
        .offline = is_true(env("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")),
        .hf_cache = unless_empty(t->hf_cache),
        .ca = unless_empty(t->ca),
        .origin = unless_empty(t->origin),
        .total_ms = seconds_ms("HF_HUB_DOWNLOAD_TIMEOUT"),
        .fresh_s = 300,
        .absent_s = 30,
        .down_s = 30,
        .owned = t,
    };
    ret->connect_ms = ret->total_ms < 3000 ? ret->total_ms : 3000;
    return true;
}

void hub_options_release(struct hub_options *o)
{
    struct texts *t = o->owned;

    if (t)
        explicit_bzero(t->token, sizeof t->token);
    free(t);
    o->owned = NULL;
}
