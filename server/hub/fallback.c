#include "server/hub/inside.h"

#include "catalog/renamed.h"
#include "server/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What each verdict lets be shown, by rows: ours that is stale, huggingface_hub's, the one carried. */
static const struct row {
    enum err_code code;
    bool mine, theirs, builtin;
    enum { KEEP_FAILED, KEEP_ABSENT, KEEP_FRESH, KEEP_DOWN, KEEP_LIMIT, KEEP_NOTHING } keep;
} rows[VERDICTS] = {
    [VERDICT_REVISION_ABSENT] = {ERR_REVISION_NOT_FOUND, false, false, false, KEEP_ABSENT},
    [VERDICT_CONFIG_ABSENT] = {ERR_CONFIG_NOT_FOUND, false, false, false, KEEP_ABSENT},
    [VERDICT_GATED] = {ERR_MODEL_GATED, true, false, true, KEEP_ABSENT},
    [VERDICT_DISABLED] = {ERR_MODEL_NOT_FOUND, false, false, false, KEEP_ABSENT},
    [VERDICT_MODEL_ABSENT] = {ERR_MODEL_NOT_FOUND, false, false, false, KEEP_ABSENT},
    [VERDICT_TOKEN_REFUSED] = {ERR_HUB_TOKEN, false, false, false, KEEP_ABSENT},
    [VERDICT_FORBIDDEN] = {ERR_HUB_FORBIDDEN, false, false, false, KEEP_ABSENT},
    [VERDICT_LIMITED] = {ERR_HUB_LIMITED, true, true, true, KEEP_LIMIT},
    [VERDICT_FAILED] = {ERR_HUB_FAILED, true, true, true, KEEP_FAILED},
    [VERDICT_USELESS] = {ERR_HUB_FAILED, true, true, true, KEEP_FAILED},
    [VERDICT_TIMEOUT] = {ERR_HUB_TIMEOUT, true, true, true, KEEP_FAILED},
    [VERDICT_UNREACHABLE] = {ERR_HUB_FAILED, true, true, true, KEEP_DOWN},
    [VERDICT_NO_MEMORY] = {ERR_NOMEM, true, true, true, KEEP_NOTHING},
    [VERDICT_OFFLINE] = {ERR_MODEL_NOT_FOUND, true, true, true, KEEP_FRESH},
};

/* A row for who sent no token of his own: what the server's cannot open is not his fault. */
static const struct row *row_of(const struct flight *f)
{
    return f->verdict == VERDICT_TOKEN_REFUSED && !f->is_callers ? &rows[VERDICT_FAILED] : &rows[f->verdict];
}

static uint64_t keep_ms(struct flight *f, const struct row *row)
{
    struct hub *h = f->loop->hub;
    unsigned down_s;

    switch (row->keep) {
    case KEEP_ABSENT:
        return (uint64_t)h->o.absent_s * 1000;
    case KEEP_FRESH:
        return (uint64_t)h->o.fresh_s * 1000;
    case KEEP_NOTHING:
        return 0;
    case KEEP_LIMIT:
        return (uint64_t)f->retry_after_s * 1000;
    case KEEP_DOWN:
        pthread_mutex_lock(&h->lock);
        down_s = limit_down_s(&h->limits, clock_ms());
        pthread_mutex_unlock(&h->lock);
        return (uint64_t)down_s * 1000;
    default:
        return FAILED_KEEP_MS;
    }
}

/* --- words ---------------------------------------------------------------------------------------------------------------------------- */

/* A clause: why this is not the hub's own answer of today. */
static void say_why(const struct flight *f, char *ret, size_t bytes)
{
    switch (f->verdict) {
    case VERDICT_OFFLINE:
        (void)snprintf(ret, bytes, "the service runs offline");
        return;
    case VERDICT_GATED:
        (void)snprintf(ret, bytes, "%.96s is gated on the hub", f->model);
        return;
    case VERDICT_LIMITED:
        (void)snprintf(ret, bytes, "the hub limits this service for %u s", f->retry_after_s);
        return;
    case VERDICT_TOKEN_REFUSED:
        (void)snprintf(ret, bytes, "the hub does not accept the server's token");
        return;
    case VERDICT_MODEL_ABSENT:
        (void)snprintf(ret, bytes, "the hub has no %.96s, which names no organisation", f->model);
        return;
    case VERDICT_NO_MEMORY:
        (void)snprintf(ret, bytes, "the service was short of memory or file descriptors to ask the hub with (%.100s)", f->why);
        return;
    case VERDICT_TIMEOUT:
        (void)snprintf(ret, bytes, "the hub did not answer in time");
        return;
    case VERDICT_UNREACHABLE:
        (void)snprintf(ret, bytes, "the hub could not be reached (%.150s)", f->why);
        return;
    default:
        (void)snprintf(ret, bytes, "the hub gave no usable answer (%.150s)", f->why);
    }
}

static void say_gated(const struct flight *f, struct err *e)
{
    const char *endpoint = f->loop->hub->o.endpoint;

    if (f->has_token)
        (void)err_set(e, ERR_MODEL_GATED, "/model",
                      "the token's owner has no access to '%.96s' yet: ask for it at %.120s/%.96s, or send its config.json as `config`",
                      f->model, endpoint, f->model);
    else
        (void)err_set(
            e, ERR_MODEL_GATED, "/model",
            "'%.96s' is gated: accept its terms at %.120s/%.96s and send a token of yours as X-HF-Token, or its config.json as `config`",
            f->model, endpoint, f->model);
}

static void say(const struct flight *f, const struct row *row, struct err *e)
{
    char why[220];

    switch (f->verdict) {
    case VERDICT_REVISION_ABSENT:
        (void)err_set(e, row->code, "/revision", "'%.96s' has no branch, tag or commit '%.80s'", f->model, f->revision);
        return;
    case VERDICT_CONFIG_ABSENT:
        (void)err_set(e, row->code, "/model", "'%.96s' has no %.63s%.160s", f->model, flight_file(f), f->about);
        return;
    case VERDICT_GATED:
        say_gated(f, e);
        return;
    case VERDICT_DISABLED:
        (void)err_set(e, row->code, "/model", "the hub has disabled '%.96s'", f->model);
        return;
    case VERDICT_MODEL_ABSENT:
        (void)err_set(e, row->code, "/model", "'%.96s' does not exist on the hub, or is private%s", f->model,
                      f->has_token ? " and not open to this token" : ": a token of yours goes into X-HF-Token");
        return;
    case VERDICT_FORBIDDEN:
        (void)err_set(e, row->code, "/model", "the token may not read '%.96s': a fine-grained one needs read access to gated repositories",
                      f->model);
        return;
    case VERDICT_TOKEN_REFUSED:
        if (f->is_callers) {
            (void)err_set(e, row->code, "", "the hub does not know the token in X-HF-Token, or it has expired");
            return;
        }
        break;
    default:
        break;
    }
    say_why(f, why, sizeof why);
    if (f->file[0])
        (void)err_set(e, row->code, "/model", "%s, and no %.63s of '%.96s' is at hand: send it in `modeling`", why, f->file, f->model);
    else
        (void)err_set(e, row->code, "/model", "%s, and no config.json of '%.96s' is at hand: send it as `config`", why, f->model);
}

/* --- what there is --------------------------------------------------------------------------------------------------------------------- */

/* What is carried is what main had once: of another revision nothing is known. A token that was sent was to open the real one. */
static struct known carried(const struct flight *f)
{
    return f->file[0] || strcmp(f->revision, "main") != 0 || (f->verdict == VERDICT_GATED && f->is_callers) ? (struct known){0} : builtin_known_as(f->model);
}

static struct snapshot *take_builtin(const struct flight *f)
{
    const struct builtin *found = carried(f).model;
    const struct builtin_block *block = found ? builtin_block(found) : NULL;
    struct snapshot_facts facts = {.source = "builtin", .parameters = f->has_facts ? f->facts.parameters : 0};
    struct snapshot *ret = NULL;
    char *text = block ? malloc(block->bytes) : NULL;

    if (text && pack_open(block->packed, block->packed_bytes, text, block->bytes))
        ret = snapshot_new(text + found->offset, found->bytes, &facts);
    free(text);
    return ret;
}

/* "Qwen3-8B": the hub has few repositories without an organisation, and people leave it out. */
static bool is_bare_name(const struct flight *f)
{
    return f->verdict == VERDICT_MODEL_ABSENT && !strchr(f->model, '/');
}

static const char *take(struct flight *f, const struct row *row, struct snapshot **ret)
{
    if (row->mine && f->mine) {
        *ret = snapshot_hold(f->mine);
        return f->mine_tier;
    }
    if (row->theirs && f->theirs) {
        *ret = snapshot_hold(f->theirs);
        return "hf_cache";
    }
    *ret = row->builtin || is_bare_name(f) ? take_builtin(f) : NULL;
    return *ret ? "builtin" : "hub";
}

/* Where it is another model's, or no file of the hub's, that too; false: nobody has to know. */
static bool say_what(const struct flight *f, const char *tier, const char *why, char *ret, size_t bytes)
{
    const struct known found = strcmp(tier, "builtin") ? (struct known){0} : carried(f);
    char what[KNOWN_SAY_BYTES];
    bool worth_it = f->verdict != VERDICT_OFFLINE; /* a service that is never to ask need not say so each time */

    (void)snprintf(what, sizeof what, "the %s that was kept here", flight_file(f));
    if (found.model)
        worth_it |= known_say(&found, f->model, what);
    (void)snprintf(ret, bytes, "%s: this is %s", why, what);
    return worth_it;
}

bool fallback_find(struct flight *f, struct fallback *ret)
{
    const struct row *row = row_of(f);
    char why[220];

    *ret = (struct fallback){.view = {.model = f->model, .revision = f->revision}, .keep_ms = keep_ms(f, row)};
    ret->view.tier = take(f, row, &ret->view.snapshot);
    ret->view.retry_after_s = f->verdict == VERDICT_LIMITED && !ret->view.snapshot ? f->retry_after_s : 0;
    if (ret->view.snapshot) {
        say_why(f, why, sizeof why);
        if (say_what(f, ret->view.tier, why, ret->note, sizeof ret->note))
            ret->view.note = ret->note;
        return true;
    }
    say(f, row, &ret->err);
    ret->view.err = &ret->err;
    return false;
}
