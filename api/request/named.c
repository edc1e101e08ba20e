#include "api/request/named.h"

#include "base/ascii.h"
#include "base/near.h"
#include "catalog/clusters.h"
#include "catalog/gpu_name.h"
#include "catalog/renamed.h"

#include <stdio.h>
#include <string.h>

/* --- clusters ---------------------------------------------------------------------------------------------------------------------- */

const struct cluster *cluster_named(const char *text, const char *at, struct err *err)
{
    const struct cluster *found = cluster_find(text);
    struct near near;

    if (found)
        return found;
    near_init(&near, text);
    for (size_t i = 0; i < cluster_count(); i++) {
        near_offer(&near, cluster_at(i)->name, cluster_at(i)->name);
        near_offer_all(&near, cluster_at(i)->name, cluster_at(i)->aliases, ';');
    }
    (void)err_set(err, ERR_FIELD_VALUE, at, "'%.40s' is no cluster that is known: GET /clusters lists them, or give cluster.gpu", text);
    (void)near_tell(&near, err);
    return NULL;
}

/* What a cluster's name says and the request does not. How many nodes a job takes is never the name's to say. */
static enum err_code take_preset(struct cluster_request *c, struct notes *warnings, struct err *err)
{
    const struct cluster *preset = c->name ? cluster_named(c->name, "/cluster/name", err) : NULL;

    if (!preset)
        return c->name ? err->code : ERR_OK;
    c->name = preset->name;
    if (preset->status && ascii_begins(preset->status, "retired", 7))
        note(warnings, "/cluster/name: %s is %s", preset->name, preset->status);
    if (!c->gpu.name && !c->gpu.by_numbers)
        c->gpu.name = preset->gpu;
    if (!c->gpus_per_node.set)
        c->gpus_per_node = (struct quantity){.set = true, .whole = preset->gpus_per_node};
    if (!c->host_memory_bytes_per_node.set && preset->host_memory_gb_per_node > 0)
        c->host_memory_bytes_per_node = (struct quantity){.set = true, .whole = (uint64_t)(preset->host_memory_gb_per_node * 1e9)};
    if (!c->intra_node)
        c->intra_node = preset->intra_node;
    if (!c->inter_node)
        c->inter_node = preset->inter_node;
    return ERR_OK;
}

/* --- GPUs -------------------------------------------------------------------------------------------------------------------------- */

const struct gpu *gpu_named(const char *text, uint64_t free_bytes, const char *at, struct gpu_reading *ret_reading, struct err *err)
{
    struct near near;

    *ret_reading = gpu_read_name(text, free_bytes);
    if (ret_reading->gpu)
        return ret_reading->gpu;
    if (ret_reading->others[0]) {
        (void)err_set(err, ERR_FIELD_VALUE, at, "'%.40s' is no size that it is sold with: %s", text, ret_reading->others);
        return NULL;
    }
    near_init(&near, text);
    for (size_t i = 0; i < gpu_count(); i++) {
        near_offer_all(&near, gpu_at(i)->name, gpu_at(i)->aliases, ';');
        for (const char *p = gpu_at(i)->name; p; p = strchr(p, ' ')) { /* "4090" of "RTX 4090" too */
            p += *p == ' ';
            near_offer(&near, gpu_at(i)->name, p);
        }
    }
    (void)err_set(err, ERR_FIELD_VALUE, at, "'%.40s' is no GPU that is known: GET /gpus lists them, or give an object of its numbers", text);
    (void)near_tell(&near, err);
    return NULL;
}

static enum err_code take_count(struct cluster_request *c, unsigned count, struct err *err)
{
    if (!count)
        return ERR_OK;
    if (c->gpus_per_node.set && c->gpus_per_node.whole != count)
        return err_set(err, ERR_FIELD_CONFLICT, "/cluster/gpus_per_node", "is %llu, and '%.40s' names %u", (unsigned long long)c->gpus_per_node.whole,
                       c->gpu.name, count);
    if (count > 1024)
        return err_set(err, ERR_FIELD_RANGE, "/cluster/gpu", "must name at most 1024 of them");
    c->gpus_per_node = (struct quantity){.set = true, .whole = count};
    return ERR_OK;
}

/* A warning where it is about memory. */
static void say_choice(const struct cluster_request *c, const struct gpu_reading *r, struct notes *assumptions, struct notes *warnings)
{
    if (r->is_choice)
        note(r->differ && !r->by_free_bytes ? warnings : assumptions, "cluster.gpu '%.40s' is read as %s%s; also called so: %s", c->gpu.name, r->gpu->name,
             r->by_free_bytes ? ", the first with as much memory as free_memory_bytes says" : ": the name does not say which", r->others);
}

bool names_no_gpu(const struct cluster_request *c)
{
    return c->gpu.name && (!strcmp(c->gpu.name, "none") || !strcmp(c->gpu.name, "cpu"));
}

static enum err_code read_gpu(struct cluster_request *c, bool is_presets, struct notes *assumptions, struct notes *warnings, struct err *err)
{
    uint64_t free_bytes = c->free_memory_bytes.set ? c->free_memory_bytes.whole : 0;
    struct gpu_reading r;
    enum err_code rc;

    if (c->gpu.by_numbers && !c->gpu.numbers.memory_bytes.set)
        return err_set(err, ERR_FIELD_MISSING, "/cluster/gpu/memory_bytes", "what the GPU offers to a program");
    if (c->gpu.by_numbers || is_presets)
        return ERR_OK;
    if (!c->gpu.name)
        return err_set(err, ERR_FIELD_MISSING, "/cluster/gpu", "a GPU's name (GET /gpus lists them), or an object of its numbers");
    if (names_no_gpu(c))
        return ERR_OK; /* of inference alone: cluster_read() */
    if (!gpu_named(c->gpu.name, free_bytes, "/cluster/gpu", &r, err))
        return err->code;
    rc = take_count(c, r.count, err);
    if (rc)
        return rc;
    say_choice(c, &r, assumptions, warnings);
    c->gpu.name = r.gpu->name;
    return ERR_OK;
}

/* gpu=lumi: one field of a form is enough for both. */
static void take_cluster_for_gpu(struct cluster_request *c, struct notes *assumptions)
{
    const struct cluster *meant = c->name || !c->gpu.name || gpu_find(c->gpu.name) ? NULL : cluster_find(c->gpu.name);

    if (!meant)
        return;
    note(assumptions, "cluster.gpu '%.40s' is the name of a cluster: it is read as cluster.name", c->gpu.name);
    c->name = meant->name;
    c->gpu.name = NULL;
}

enum err_code cluster_names(struct cluster_request *c, struct notes *assumptions, struct notes *warnings, struct err *err)
{
    bool is_presets;
    enum err_code rc;

    take_cluster_for_gpu(c, assumptions);
    is_presets = c->name && !c->gpu.name && !c->gpu.by_numbers;
    rc = is_presets ? ERR_OK : c->name && !cluster_find(c->name) ? ERR_OK : read_gpu(c, false, assumptions, warnings, err);

    return rc ? rc : take_preset(c, warnings, err);
}

/* --- models ------------------------------------------------------------------------------------------------------------------------ */

static const char *less_blanks(const char *text, size_t *ret_bytes)
{
    size_t n;

    text += strspn(text, " \t\r\n");
    n = strlen(text);
    while (n && strchr(" \t\r\n/", text[n - 1]))
        n--;
    *ret_bytes = n;
    return text;
}

/* What stands before "org/name" in an address of the hub's. */
static size_t host_bytes(const char *text)
{
    static const char *const hosts[] = {"https://", "http://", "www.", "huggingface.co/", "hf.co/", "hf-mirror.com/"};
    size_t at = 0;

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (ascii_begins(text + at, hosts[i], strlen(hosts[i])))
            at += strlen(hosts[i]);
    return at;
}

/* "/data/models/Qwen3-8B": a folder of somebody's own is called as its model; no other path is looked for anywhere. */
static const char *last_of_path(const char *id, size_t *bytes, struct arena *arena)
{
    for (const char *p = id + *bytes; strchr("/~$", id[0]) && p > id; p--)
        if (p[-1] == '/') {
            size_t n = *bytes - (size_t)(p - id);
            const char *last = arena_str(arena, p, n);

            if (!last || !builtin_find(last))
                return id;
            *bytes = n;
            return p;
        }
    return id;
}

const char *model_named(const char *text, struct arena *arena, const char **ret_revision)
{
    static const char *const views[] = {"/tree/", "/blob/", "/resolve/", "/raw/", "/commits/"};
    size_t bytes, host, end;
    const char *id = less_blanks(text, &bytes), *slash;

    id = last_of_path(id, &bytes, arena);
    host = host_bytes(id);
    end = bytes;
    for (size_t i = 0; host && i < sizeof views / sizeof *views; i++) {
        const char *at = strstr(id, views[i]);

        if (!at || (size_t)(at - id) >= end)
            continue;
        end = (size_t)(at - id);
        at += strlen(views[i]);
        if (ret_revision && !*ret_revision)
            *ret_revision = arena_str(arena, at, strcspn(at, "/?# \t\r\n"));
    }
    slash = host ? memchr(id + host, '/', end - host) : NULL;
    for (const char *p = slash ? slash + 1 : NULL; p && p < id + end; p++)
        if (strchr("/?#", *p))
            end = (size_t)(p - id);
    return arena_str(arena, id + host, end > host ? end - host : 0);
}

enum err_code model_tell_near(const char *id, struct err *err)
{
    const char *slash = strchr(id, '/'), *other;
    struct near near, last;

    near_init(&near, id);
    near_init(&last, slash ? slash + 1 : id);
    for (size_t i = 0; i < builtin_count(); i++)
        near_offer(&near, builtin_at(i)->id, builtin_at(i)->id);
    for (size_t i = 0; i < builtin_count(); i++) {
        other = strchr(builtin_at(i)->id, '/');
        near_offer(&last, builtin_at(i)->id, other + 1);
    }
    return near_tell(last.n && (!near.n || last.far[0] < near.far[0]) ? &last : &near, err);
}
