/* GET /answer: what GET /estimate answers, as a page. The form submits it where no script does. */
#include "api/html/html.h"
#include "api/routes.h"

#include <stdio.h>
#include <string.h>

/* The sentence that a problem document would have told, and its status. The query stands before the mark. */
static const char *tell_wrong(struct call *c, unsigned char *mark)
{
    char text[sizeof c->err->detail + 256], name[128] = "";

    if (c->parameter)
        (void)snprintf(name, sizeof name, "%.100s ", c->parameter);
    (void)snprintf(text, sizeof text, "%s: %s%s", err_title(c->err->code), name, c->err->detail);
    arena_rewind(c->arena, mark);
    c->ret->status = err_status(c->err->code);
    c->ret->code = err_slug(c->err->code);
    c->ret->retry_after_s = c->retry_after_s;
    c->ret->max_age_s = 0;
    return arena_str(c->arena, text, strlen(text));
}

static enum err_code write_page(struct call *c, const struct json *answer, const char *wrong)
{
    struct buf out;
    size_t bytes;
    const char *page = page_text(&bytes);

    buf_init(&out, c->arena, ANSWER_MAX_BYTES);
    html_page(&out, page, bytes, &c->query, answer, wrong);
    if (!buf_ok(&out))
        return err_set(c->err, ERR_NOMEM, "", "no room for the answer");
    c->ret->content_type = "text/html; charset=utf-8";
    c->ret->body = buf_text(&out);
    c->ret->bytes = out.bytes;
    return ERR_OK;
}

enum err_code get_answer(struct call *c)
{
    unsigned char *mark = c->arena->cur;
    struct json *doc = NULL;
    const char *wrong = NULL;
    enum err_code rc = get_estimate(c);

    if (rc == ERR_NOMEM)
        return rc;
    if (rc)
        wrong = tell_wrong(c, mark);
    else if (json_parse(c->ret->body, c->ret->bytes, &json_limits_config, &doc, c->err))
        return err_set(c->err, ERR_NOMEM, "", "no room for the answer");
    if (rc && !wrong)
        return err_set(c->err, ERR_NOMEM, "", "no room for the answer");
    rc = write_page(c, doc, wrong);
    json_free(doc);
    return rc;
}
