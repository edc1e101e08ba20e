#include "server/hub/reply.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool code_is(const struct reply *r, const char *code)
{
    return !strcmp(r->error_code, code);
}

/* An expired token has another sentence than a wrong one. */
static bool refuses_token(const struct reply *r, bool token_sent)
{
    return r->status == 401 && (!strncmp(r->error_message, "Invalid credentials", strlen("Invalid credentials")) ||
                                (token_sent && strcasestr(r->error_message, "token") && strcasestr(r->error_message, "expired")));
}

static const enum verdict of_fault[] = {
    [FAULT_UNREACHABLE] = VERDICT_UNREACHABLE, [FAULT_TIMEOUT] = VERDICT_TIMEOUT,  [FAULT_CUT] = VERDICT_FAILED,
    [FAULT_TOO_LARGE] = VERDICT_USELESS,       [FAULT_REDIRECT] = VERDICT_USELESS, [FAULT_MEMORY] = VERDICT_NO_MEMORY,
};

/* Who asks for JSON and is given a page stands before somebody's login. */
static bool is_html(const struct reply *r)
{
    const char *p = r->body ? r->body + strspn(r->body, " \t\r\n") : "";

    return !strncasecmp(r->content_type, "text/html", 9) || *p == '<';
}

static enum verdict judge_content(const struct reply *r, char *why, size_t bytes)
{
    if (is_html(r)) {
        (void)snprintf(why, bytes, "a page of HTML came instead of a file: a portal or a proxy answers in its place");
        return VERDICT_USELESS;
    }
    if (r->commit_bad || !r->commit[0]) {
        (void)snprintf(why, bytes, "%s X-Repo-Commit came with the file: a portal or a bad mirror answers in its place",
                       r->commit_bad ? "a malformed" : "no");
        return VERDICT_USELESS;
    }
    return r->unchanged ? VERDICT_UNCHANGED : VERDICT_OK;
}

enum verdict reply_verdict(const struct reply *r, bool token_sent, char *ret_why, size_t bytes)
{
    (void)snprintf(ret_why, bytes, "%s", r->why);
    if (r->fault == FAULT_UNREACHABLE && r->away)
        return VERDICT_FAILED; /* the hub itself did answer */
    if (r->fault != FAULT_NONE)
        return of_fault[r->fault];
    if (r->unchanged || r->status == 200)
        return judge_content(r, ret_why, bytes);
    (void)snprintf(ret_why, bytes, "it answered %d%s%.90s%s%.40s", r->status, r->error_message[0] ? ": " : "", r->error_message,
                   r->request_id[0] ? ", request " : "", r->request_id);
    if (code_is(r, "RevisionNotFound"))
        return VERDICT_REVISION_ABSENT;
    if (code_is(r, "EntryNotFound"))
        return VERDICT_CONFIG_ABSENT;
    if (code_is(r, "GatedRepo"))
        return VERDICT_GATED;
    if (r->status == 403 && !strcmp(r->error_message, "Access to this resource is disabled."))
        return VERDICT_DISABLED;
    if (code_is(r, "RepoNotFound"))
        return VERDICT_MODEL_ABSENT;
    if (refuses_token(r, token_sent))
        return VERDICT_TOKEN_REFUSED;
    if (r->status == 401 || r->status == 404)
        return VERDICT_MODEL_ABSENT;
    if (r->status == 403 && token_sent)
        return VERDICT_FORBIDDEN;
    if (r->status == 429)
        return VERDICT_LIMITED;
    return r->status >= 500 || r->status == 408 ? VERDICT_FAILED : VERDICT_USELESS;
}
