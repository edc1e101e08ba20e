/* Words and numbers within markup. */
#include "api/html/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double GIB = 1073741824.0;

void html_text(struct buf *out, const char *text)
{
    static const struct {
        char c;
        const char *as;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};

    while (text && *text) {
        size_t n = strcspn(text, "&<>\"");

        buf_add(out, text, n);
        text += n;
        for (size_t i = 0; *text && i < sizeof escapes / sizeof *escapes; i++)
            if (*text == escapes[i].c)
                buf_str(out, escapes[i].as);
        text += *text != 0;
    }
}

void html_textf(struct buf *out, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    html_text(out, text);
}

void html_gib(struct buf *out, double bytes)
{
    html_textf(out, "%.1f", bytes / GIB);
}

void html_count(struct buf *out, double n)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", n);

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            buf_char(out, ',');
        buf_char(out, digits[i]);
    }
}

double html_number(const struct json *object, const char *name)
{
    double v = 0;

    (void)json_number(json_get(object, name), &v);
    return v;
}

const char *html_str(const struct json *object, const char *name)
{
    const char *s = json_str(json_get(object, name));

    return s ? s : "";
}

bool html_is(const struct json *object, const char *name)
{
    bool b = false;

    return json_bool(json_get(object, name), &b) && b;
}

/* --- links ------------------------------------------------------------------------------------------------------------------------ */

static void put_percent(struct buf *out, const char *text)
{
    static const char hex[] = "0123456789ABCDEF", plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/,";

    for (const unsigned char *p = (const unsigned char *)text; p && *p; p++)
        if (strchr(plain, *p)) {
            buf_char(out, (char)*p);
        } else {
            buf_char(out, '%');
            buf_char(out, hex[*p >> 4]);
            buf_char(out, hex[*p & 15]);
        }
}

static void put_parameter(struct buf *out, bool *begun, const char *name, const char *value)
{
    buf_str(out, *begun ? "&amp;" : "");
    put_percent(out, name);
    buf_char(out, '=');
    put_percent(out, value);
    *begun = true;
}

const char *html_value(const struct parameter *p)
{
    return strstr(p->name, "method") || strstr(p->name, "offload") ? p->plus : p->value;
}

/* What else a query may call what a change names. */
static bool is_changed(const struct json *change, const char *name)
{
    static const struct {
        const char *also, *name;
    } same[] = {{"gpus", "gpus_per_node"}, {"cluster", "gpu"}, {"cluster.gpu", "gpu"}, {"method", "methods"}, {"global_batch_size", "micro_batch_size"}};
    size_t training = strlen("training.");

    if (!strncmp(name, "training.", training))
        name += training;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(name, same[i].also) && json_get(change, same[i].name))
            return true;
    return json_get(change, name) != NULL;
}

void html_query(struct buf *out, const struct query *q, const struct json *change)
{
    bool begun = false, on;
    double number;
    char text[32];

    for (uint32_t i = 0; i < q->n; i++)
        if (!is_changed(change, q->v[i].name))
            put_parameter(out, &begun, q->v[i].name, html_value(&q->v[i]));
    json_each (m, change) {
        const char *name = strcmp(json_name(m), "gpus_per_node") ? json_name(m) : "gpus";

        if (json_number(m, &number))
            (void)snprintf(text, sizeof text, "%.0f", number);
        else if (json_bool(m, &on))
            (void)snprintf(text, sizeof text, "%s", on ? "true" : "false");
        put_parameter(out, &begun, name, json_str(m) ? json_str(m) : text);
    }
}
