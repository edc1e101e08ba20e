/*
 * The header lines of a request, as the HTTP library hands them over, and what the server makes of their texts.
 */
#include "server/head.h"
#include "server/hub/name.h"
#include "server/log_line.h"
#include "server/policy.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* "Name: value" lines; the value lives as long as the text. */
static void read_lines(char *text, struct head_reading *r)
{
    while (*text) {
        char *end = text + strcspn(text, "\n"), *colon = memchr(text, ':', (size_t)(end - text)), *next = *end ? end + 1 : end;

        *end = 0;
        if (end > text && end[-1] == '\r')
            end[-1] = 0;
        if (colon) {
            char *value = colon + 1 + strspn(colon + 1, " \t");

            head_line(r, text, (size_t)(colon - text), value, strlen(value));
        } else {
            head_line(r, text, strlen(text), NULL, 0);
        }
        text = next;
    }
    head_end(r);
}

static void log_it(const char *id, const char *method)
{
    struct log_stamp stamp = {0};
    char block[4096];
    struct buf b;

    log_stamp_write(&stamp, 1700000000000000);
    for (int f = LOG_LOGFMT; f <= LOG_JSON; f++) {
        buf_init_fixed(&b, block, sizeof block);
        log_line_request(&b, (enum log_format)f, stamp.text, &(struct log_request){.id = id, .method = method, .route = "/estimate", .end = "sent", .status = 200});
        FUZZ_CHECK(!buf_ok(&b) || (b.bytes && strchr(buf_text(&b), '\n') == buf_text(&b) + b.bytes - 1), "a line of the log that is two: %s", buf_text(&b));
    }
}

static void judge(const struct head *h)
{
    char address[64];

    if (h->forwarded) {
        policy_forwarded(h->forwarded, address, sizeof address);
        FUZZ_CHECK(strlen(address) < sizeof address, "cut");
    }
    if (h->host && policy_host_is_ours(h->host, "planner.example"))
        FUZZ_CHECK(!strncasecmp(h->host, "localhost", 9) || !strncmp(h->host, "127.", 4) || !strncmp(h->host, "[::1]", 5) ||
                   !strncasecmp(h->host, "planner.example", 15), "a foreign host: %s", h->host);
    if (h->origin)
        (void)policy_origin(h->origin, "https://a.example,https://b.example");
    if (h->if_none_match)
        (void)policy_etag_matches(h->if_none_match, "\"0123456789abcdef0123456789abcdef\"");
    if (h->token && policy_token_is_good(h->token))
        FUZZ_CHECK(!strpbrk(h->token, "\r\n \t"), "a token that breaks out of a header");
    if (h->token && !token_fault(h->token))
        FUZZ_CHECK(!strpbrk(h->token, "\r\n"), "a token that breaks out of a header");
    if (h->id && policy_id_is_good(h->id))
        log_it(h->id, "POST");
    if (h->content_type && policy_method_is_good(h->content_type))
        log_it("x", h->content_type);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head = {.path = "/"};
    struct head_reading r = {.head = &head};
    char *text = fuzz_text(data, size);

    read_lines(text, &r);
    if (!head.is_ambiguous)
        FUZZ_CHECK(r.lengths <= 1 && r.codings <= 1 && r.hosts <= 1 && r.tokens <= 1 && !(r.lengths && r.codings), "where a body ends is said twice");
    judge(&head);
    free(text);
    return 0;
}
