/* GET /gpus and /clusters: what there is, and one of them. */
#include "api/endpoints/rows.h"
#include "api/request/named.h"
#include "api/routes.h"
#include "catalog/clusters.h"
#include "catalog/gpu_name.h"

static const struct rows gpu_rows = {"gpus", "{\n  \"gpus\": "
#include "gen/gpus_json.inc"
                                             "\n}\n"};

static const struct rows cluster_rows = {"clusters", "{\n  \"clusters\": "
#include "gen/clusters_json.inc"
                                                     "\n}\n"};

static enum err_code nothing_else(struct call *c)
{
    if (!c->query.n)
        return ERR_OK;
    c->parameter = c->query.v[0].name;
    return err_set(c->err, ERR_UNKNOWN_MEMBER, "", "'%.60s' is not known here: this is one object, which takes no parameters", c->parameter);
}

enum err_code get_gpus(struct call *c)
{
    return rows_give(c, &gpu_rows);
}

/* What is not there is a path that is not there, whose sentence names what is near. */
static enum err_code not_there(struct call *c)
{
    c->err->code = ERR_NOT_FOUND;
    c->err->at[0] = 0;
    return ERR_NOT_FOUND;
}

enum err_code get_gpu(struct call *c)
{
    struct gpu_reading r;
    const struct gpu *gpu = gpu_named(c->rest, 0, "", &r, c->err);
    enum err_code rc = gpu ? nothing_else(c) : not_there(c);

    return rc ? rc : rows_give_one(c, &gpu_rows, (size_t)(gpu - gpu_at(0)));
}

enum err_code get_clusters(struct call *c)
{
    return rows_give(c, &cluster_rows);
}

enum err_code get_cluster(struct call *c)
{
    const struct cluster *cluster = cluster_named(c->rest, "", c->err);
    enum err_code rc = cluster ? nothing_else(c) : not_there(c);

    return rc ? rc : rows_give_one(c, &cluster_rows, (size_t)(cluster - cluster_at(0)));
}
