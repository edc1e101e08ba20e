/* GET /healthz and the contract itself. */
#include "api/routes.h"

enum err_code get_health(struct call *c)
{
    struct buf out;
    struct jsonw w;

    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    jsonw_str(&w, "status", "ok");
    jsonw_str(&w, "version", LLMEMD_VERSION);
    jsonw_end(&w);
    return finish_json(c, &w);
}

static const char contract[] =
#include "gen/openapi.inc"
    ;

enum err_code get_openapi(struct call *c)
{
    c->ret->status = 200;
    c->ret->content_type = "application/yaml";
    c->ret->body = contract;
    c->ret->bytes = sizeof contract - 1;
    return ERR_OK;
}
