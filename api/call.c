#include "api/call.h"

#include <stdio.h>
#include <string.h>

void begin_json(struct call *c, struct buf *out, struct jsonw *w)
{
    buf_init(out, c->arena, ANSWER_MAX_BYTES);
    jsonw_init(w, out, true);
}

enum err_code finish_json(struct call *c, const struct jsonw *w)
{
    if (!jsonw_done(w))
        return err_set(c->err, ERR_NOMEM, "", "the answer is larger than the service grants");
    c->ret->status = 200;
    c->ret->content_type = "application/json";
    c->ret->body = buf_text(w->out);
    c->ret->bytes = w->out->bytes;
    return ERR_OK;
}

/* A hub that limits us says for how long; else it is our own load, which passes. */
static unsigned retry_after(const struct call *c)
{
    if (c->ret->status == 429)
        return c->retry_after_s;
    if (c->ret->status != 503 || c->err->code == ERR_BUDGET)
        return 0;
    return c->retry_after_s ? c->retry_after_s : 1;
}

/* All of them, where there are several. */
static void write_meant(struct jsonw *w, const struct err *err)
{
    if (!err->meant[1][0])
        return;
    jsonw_array(w, "suggestions");
    for (int i = 0; i < ERR_MEANT && err->meant[i][0]; i++)
        jsonw_str(w, NULL, err->meant[i]);
    jsonw_end(w);
}

static void write_problem(struct jsonw *w, const struct call *c)
{
    const char *slug = err_slug(c->err->code);
    char type[96];

    (void)snprintf(type, sizeof type, "urn:llmemd:problem:%s", slug);
    jsonw_object(w, NULL);
    jsonw_str(w, "type", type);
    jsonw_str(w, "title", err_title(c->err->code));
    jsonw_u64(w, "status", (uint64_t)c->ret->status);
    jsonw_str(w, "detail", c->err->detail);
    jsonw_str(w, "code", slug);
    if (c->err->at[0])
        jsonw_str(w, "pointer", c->err->at);
    if (c->err->meant[0][0])
        jsonw_str(w, "did_you_mean", c->err->meant[0]);
    write_meant(w, c->err);
    if (c->err->file[0]) {
        jsonw_str(w, "file", c->err->file);
        jsonw_u64(w, "line", c->err->line);
        jsonw_str(w, "construct", c->err->construct);
    }
    if (c->parameter)
        jsonw_str(w, "parameter", c->parameter);
    if (c->ret->retry_after_s)
        jsonw_u64(w, "retry_after_s", c->ret->retry_after_s);
    jsonw_end(w);
}

void problem(struct call *c)
{
    static const char last_resort[] = "{\"type\":\"urn:llmemd:problem:out-of-memory\",\"title\":\"out of memory\",\"status\":503,"
                                      "\"detail\":\"no room for a sentence\",\"code\":\"out-of-memory\"}\n";
    struct api_response *ret = c->ret;
    struct err *copy;
    struct buf out;
    struct jsonw w;

    ret->status = err_status(c->err->code);
    ret->code = err_slug(c->err->code);
    ret->content_type = "application/problem+json";
    ret->retry_after_s = retry_after(c);
    ret->accept_post = ret->status == 415 ? "application/json" : NULL;
    ret->max_age_s = 0;
    copy = arena_new(c->arena, struct err);
    if (copy)
        *copy = *c->err;
    ret->err = copy;
    buf_init(&out, c->arena, 8192);
    jsonw_init(&w, &out, true);
    write_problem(&w, c);
    if (jsonw_done(&w)) {
        ret->body = buf_text(&out);
    } else { /* whatever it was, this is what is told */
        ret->body = last_resort;
        ret->status = err_status(ERR_NOMEM);
        ret->code = err_slug(ERR_NOMEM);
        ret->retry_after_s = 1;
        ret->allow = ret->accept_post = NULL;
    }
    ret->bytes = strlen(ret->body);
}

void api_problem(const struct err *err, struct arena *arena, struct api_response *ret)
{
    struct err copy = *err;
    struct call c = {.arena = arena, .ret = ret, .err = &copy};

    problem(&c);
}
