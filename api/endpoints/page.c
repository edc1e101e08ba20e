/* GET /: a form that asks GET /estimate, what it loads, and the words of an answer. No inline script: the server's Content-Security-Policy forbids it. */
#include "api/routes.h"

static enum err_code give(struct call *c, const char *type, const char *text, size_t bytes)
{
    c->ret->status = 200;
    c->ret->content_type = type;
    c->ret->body = text;
    c->ret->bytes = bytes;
    return ERR_OK;
}

const char *page_text(size_t *ret_bytes)
{
    static const char text[] =
#include "gen/page_html.inc"
        ;

    *ret_bytes = sizeof text - 1;
    return text;
}

enum err_code get_page(struct call *c)
{
    size_t bytes;
    const char *text = page_text(&bytes);

    return give(c, "text/html; charset=utf-8", text, bytes);
}

enum err_code get_script(struct call *c)
{
    static const char text[] =
#include "gen/page_js.inc"
        ;

    return give(c, "text/javascript; charset=utf-8", text, sizeof text - 1);
}

enum err_code get_style(struct call *c)
{
    static const char text[] =
#include "gen/page_css.inc"
        ;

    return give(c, "text/css; charset=utf-8", text, sizeof text - 1);
}

enum err_code get_charts(struct call *c)
{
    static const char text[] =
#include "gen/uplot_js.inc"
        ;

    return give(c, "text/javascript; charset=utf-8", text, sizeof text - 1);
}

enum err_code get_glossary(struct call *c)
{
    static const char text[] =
#include "gen/glossary_html.inc"
        ;

    return give(c, "text/html; charset=utf-8", text, sizeof text - 1);
}

enum err_code get_icon(struct call *c)
{
    static const char text[] =
#include "gen/icon_svg.inc"
        ;

    return give(c, "image/svg+xml", text, sizeof text - 1);
}
