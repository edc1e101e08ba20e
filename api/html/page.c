/* The page's own markup with a question in its fields. */
#include "api/html/html.h"

#include <string.h>

/* What the form calls a parameter that was given under another name. */
static const char *field_of(const char *name)
{
    static const char *const same[][2] = {{"gpus_per_node", "gpus"}, {"cluster", "gpu"}, {"cluster.gpu", "gpu"}, {"method", "methods"}};

    if (!strncmp(name, "training.", 9))
        name += 9;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(name, same[i][0]))
            return same[i][1];
    return name;
}

static const char *value_of(const struct query *q, const char *field, size_t n)
{
    for (uint32_t i = 0; i < q->n; i++) {
        const char *name = field_of(q->v[i].name);

        if (strlen(name) == n && !strncmp(name, field, n))
            return html_value(&q->v[i]);
    }
    return NULL;
}

static bool has_field(const char *page, const char *field)
{
    size_t n = strlen(field);

    for (const char *at = strstr(page, " name=\""); at; at = strstr(at + 1, " name=\""))
        if (!strncmp(at + 7, field, n) && at[7 + n] == '"')
            return true;
    return false;
}

/* Parameters that no field shows: they stay in the question. */
static void put_others(struct buf *out, const char *page, const struct query *q)
{
    for (uint32_t i = 0; i < q->n; i++) {
        if (has_field(page, field_of(q->v[i].name)))
            continue;
        buf_str(out, "<input type=\"hidden\" name=\"");
        html_text(out, q->v[i].name);
        buf_str(out, "\" value=\"");
        html_text(out, html_value(&q->v[i]));
        buf_str(out, "\">");
    }
}

/* `at` stands at an option of the select whose value is `chosen`. */
static const char *put_options(struct buf *out, const char *at, const char *chosen)
{
    const char *end = strstr(at, "</select>");
    size_t n = strlen(chosen);

    for (const char *o = strstr(at, "<option value=\""); o && end && o < end; o = strstr(o + 1, "<option value=\"")) {
        const char *value = o + strlen("<option value=\"");

        if (strncmp(value, chosen, n) != 0 || value[n] != '"')
            continue;
        buf_add(out, at, (size_t)(value + n + 1 - at));
        buf_str(out, " selected");
        return value + n + 1;
    }
    return at;
}

/* From a field's name to where the copy goes on: its value is put behind the name. */
static const char *fill_field(struct buf *out, const char *at, const struct query *q)
{
    const char *field = at + strlen(" name=\"");
    size_t n = strcspn(field, "\"");
    const char *value = value_of(q, field, n), *tag = at, *next = field + n + 1;

    while (*tag != '<')
        tag--;
    buf_add(out, at, (size_t)(next - at));
    if (!value || !value[0] || strncmp(tag, "<select", 7) == 0)
        return value && value[0] ? put_options(out, next, value) : next;
    if (!strncmp(tag, "<input", 6)) {
        buf_str(out, " value=\"");
        html_text(out, value);
        buf_char(out, '"');
    }
    return next;
}

static void fill_form(struct buf *out, const char *page, const char *end, const struct query *q)
{
    const char *at = page;

    while (at < end) {
        const char *next = strstr(at, " name=\"");

        if (!next || next >= end)
            next = end;
        buf_add(out, at, (size_t)(next - at));
        at = next < end ? fill_field(out, next, q) : end;
    }
}

static void put_wrong(struct buf *out, const char *wrong)
{
    buf_str(out, "<p id=\"status\" role=\"status\" class=\"bad\">");
    html_text(out, wrong);
    buf_str(out, "</p>");
}

void html_page(struct buf *out, const char *page, size_t bytes, const struct query *q, const struct json *answer, const char *wrong)
{
    static const char status[] = "<p id=\"status\" role=\"status\"></p>", section[] = "<section id=\"answer\"";
    const char *form = strstr(page, "<form"), *end = strstr(page, "</form>"), *told = strstr(page, status), *place = strstr(page, section);
    const char *behind = place ? strstr(place, "</section>") : NULL;

    if (!form || !end || !told || !behind) /* another page than this was written for: a test says so */
        return;
    buf_add(out, page, (size_t)(form - page));
    fill_form(out, form, end, q);
    put_others(out, page, q);
    buf_add(out, end, (size_t)(told - end));
    if (wrong)
        put_wrong(out, wrong);
    told += wrong ? strlen(status) : 0;
    if (answer) {
        buf_add(out, told, (size_t)(place - told));
        html_answer(out, answer, q);
        told = behind + strlen("</section>");
    }
    buf_add(out, told, (size_t)(page + bytes - told));
}
