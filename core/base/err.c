#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int status;
    const char *slug, *title;
} registry[ERR_COUNT] = {
    [ERR_OK] = {200, "ok", "No error"},
#define ERR(code, status, slug, title) [ERR_##code] = {status, slug, title},
#include "base/err.def"
#undef ERR
};

enum err_code err_set(struct err *e, enum err_code code, const char *at, const char *fmt, ...)
{
    va_list args;

    if (!e)
        return code;
    e->code = code;
    e->meant[0][0] = e->meant[1][0] = e->meant[2][0] = e->file[0] = e->construct[0] = 0;
    e->line = 0;
    (void)snprintf(e->at, sizeof e->at, "%s", at);
    va_start(args, fmt);
    (void)vsnprintf(e->detail, sizeof e->detail, fmt, args);
    va_end(args);
    return code;
}

enum err_code err_in_file(struct err *e, enum err_code code, const char *file, unsigned line, const char *construct)
{
    if (!e)
        return code;
    if (*file)
        (void)err_set(e, code, "", "%.120s:%u: %.220s", file, line, construct);
    else
        (void)err_set(e, code, "", "%.300s", construct);
    (void)snprintf(e->file, sizeof e->file, "%s", file);
    (void)snprintf(e->construct, sizeof e->construct, "%s", construct);
    e->line = line;
    return code;
}

enum err_code err_under(struct err *e, const char *prefix)
{
    char old[sizeof e->at];

    memcpy(old, e->at, sizeof old);
    (void)snprintf(e->at, sizeof e->at, "%s%.*s", prefix, (int)(sizeof old - 1 - strlen(prefix)), old);
    return e->code;
}

int err_status(enum err_code code)
{
    return registry[code].status;
}

const char *err_slug(enum err_code code)
{
    return registry[code].slug;
}

const char *err_title(enum err_code code)
{
    return registry[code].title;
}
