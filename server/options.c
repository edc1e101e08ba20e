#include "server/options.h"

#include "api/api.h"
#include "base/near.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_TEXT, KIND_FOLDERS, KIND_NUMBER, KIND_OCTAL, KIND_FLAG };

#define AT(member) offsetof(struct options, member)
// clang-format off
static const struct option_row {
    const char *flag, *environment, *value, *help;
    enum kind kind;
    size_t at;
    unsigned least, most;
    const char *one_of; /* joined by '|' */
} table[] = {
    {"--listen", "LLMEMD_LISTEN", "ADDR:PORT", "where to listen, or unix:/PATH; port 0 picks a free one (127.0.0.1:8080)", KIND_TEXT, AT(listen), 0, 0, NULL},
    {"--socket-mode", "LLMEMD_SOCKET_MODE", "MODE", "of a unix socket's file, octal (660)", KIND_OCTAL, AT(socket_mode), 0, 0777, NULL},
    {"--admin-listen", "LLMEMD_ADMIN_LISTEN", "ADDR:PORT", "/healthz, /readyz and /metrics here too, with room of their own when everything else is full, and to the end of a drain", KIND_TEXT, AT(admin_listen), 0, 0, NULL},
    {"--admin-only", "LLMEMD_ADMIN_ONLY", NULL, "these three are answered there alone", KIND_FLAG, AT(admin_only), 0, 0, NULL},
    {"--hosts", "LLMEMD_HOSTS", "NAME,..", "names besides localhost that a request to a loopback address may ask for", KIND_TEXT, AT(hosts), 0, 0, NULL},
    {"--origins", "LLMEMD_ORIGINS", "URL,..", "web pages that may ask from a browser (CORS), or *", KIND_TEXT, AT(origins), 0, 0, NULL},
    {"--proxies", "LLMEMD_PROXIES", "ADDR,..", "whose X-Forwarded-For is believed, for --rate, and whom --per-address does not count; \"unix\": who comes by a unix socket", KIND_TEXT, AT(proxies), 0, 0, NULL},
    {"--event-threads", "LLMEMD_EVENT_THREADS", "N", "threads that read and send; 0: one a core (0)", KIND_NUMBER, AT(event_threads), 0, 64, NULL},
    {"--threads", "LLMEMD_THREADS", "N", "answers computed at once; 0: one a core (0)", KIND_NUMBER, AT(threads), 0, 256, NULL},
    {"--connections", "LLMEMD_CONNECTIONS", "N", "open connections; beyond, who is idle longest makes room, else newcomers are told to come back (1024)", KIND_NUMBER, AT(connections), 1, 65536, NULL},
    {"--per-address", "LLMEMD_PER_ADDRESS", "N", "of these, by one address; 0: three quarters (0)", KIND_NUMBER, AT(per_address), 0, 65536, NULL},
    {"--waiting", "LLMEMD_WAITING", "N", "requests that may wait for the hub or a thread at once (512)", KIND_NUMBER, AT(waiting), 1, 65536, NULL},
    {"--queue", "LLMEMD_QUEUE", "N", "of these, how many may wait for a thread (256)", KIND_NUMBER, AT(queue), 1, 65536, NULL},
    {"--rate", "LLMEMD_RATE", "N", "answers a minute computed for one caller; 0: no limit (0)", KIND_NUMBER, AT(rate), 0, 1000000, NULL},
    {"--max-body", "LLMEMD_MAX_BODY", "BYTES", "of a request, at most 1048576 (1048576)", KIND_NUMBER, AT(max_body), 1, API_BODY_MAX, NULL},
    {"--deadline", "LLMEMD_DEADLINE", "SECONDS", "for one request, from its first byte to its last (60)", KIND_NUMBER, AT(deadline_s), 1, 3600, NULL},
    {"--batches", "LLMEMD_BATCHES", "N", "batches answered at once, half of them of one address (16)", KIND_NUMBER, AT(batches), 1, 65536, NULL},
    {"--batch-work", "LLMEMD_BATCH_WORK", "N", "what a batch may have computed, in questions of the greatest budget (40)", KIND_NUMBER, AT(batch_work), 1, API_ITEMS_MAX, NULL},
    {"--batch-fetches", "LLMEMD_BATCH_FETCHES", "N", "configs fetched from the hub for one batch (200)", KIND_NUMBER, AT(batch_fetches), 0, API_ITEMS_MAX, NULL},
    {"--batch-deadline", "LLMEMD_BATCH_DEADLINE", "SECONDS", "for a whole batch; then what is left of it is refused (600)", KIND_NUMBER, AT(batch_deadline_s), 1, 86400, NULL},
    {"--idle", "LLMEMD_IDLE", "SECONDS", "a connection without a request is closed (30)", KIND_NUMBER, AT(idle_s), 1, 3600, NULL},
    {"--drain-wait", "LLMEMD_DRAIN_WAIT", "SECONDS", "after SIGTERM: /readyz is red, everyone is still answered (0)", KIND_NUMBER, AT(drain_wait_s), 0, 3600, NULL},
    {"--drain", "LLMEMD_DRAIN", "SECONDS", "then, nobody new: for the answers under way (30)", KIND_NUMBER, AT(drain_s), 0, 3600, NULL},
    {"--work-budget", "LLMEMD_WORK_BUDGET", "EVENTS", "of work that one answer may cause; past it the answer is partial and says so (20000000)", KIND_NUMBER, AT(work_budget), 1000, UINT32_MAX, NULL},
    {"--answers", "LLMEMD_ANSWERS", "N", "ready answers kept; 0: none (10000)", KIND_NUMBER, AT(answers), 0, 10000000, NULL},
    {"--answers-mib", "LLMEMD_ANSWERS_MIB", "MIB", "memory for them (128)", KIND_NUMBER, AT(answers_mib), 1, 1048576, NULL},
    {"--models", "LLMEMD_MODELS", "DIR", "models on disk, shown before the hub is asked: OWNER/NAME/config.json or OWNER__NAME.json", KIND_TEXT, AT(models), 0, 0, NULL},
    {"--transformers", "LLMEMD_TRANSFORMERS", "DIR", "an installed transformers, whose own files answer for model types that are not carried; again, or joined by ':', for more", KIND_FOLDERS, AT(installed), 0, 0, NULL},
    {"--cache-dir", "LLMEMD_CACHE_DIR", "DIR", "where fetched configs are kept; left out: in memory alone", KIND_TEXT, AT(cache_dir), 0, 0, NULL},
    {"--offline", "LLMEMD_OFFLINE", NULL, "never ask the network, like HF_HUB_OFFLINE", KIND_FLAG, AT(offline), 0, 0, NULL},
    {"--share-token", "LLMEMD_SHARE_TOKEN", NULL, "HF_TOKEN opens gated models for every caller, not for none", KIND_FLAG, AT(share_token), 0, 0, NULL},
    {"--hub-connect", "LLMEMD_HUB_CONNECT", "MS", "to reach the hub; 0: as huggingface_hub (0)", KIND_NUMBER, AT(hub_connect_ms), 0, 600000, NULL},
    {"--hub-timeout", "LLMEMD_HUB_TIMEOUT", "MS", "for one transfer; 0: as huggingface_hub (0)", KIND_NUMBER, AT(hub_total_ms), 0, 600000, NULL},
    {"--hub-fresh", "LLMEMD_HUB_FRESH", "SECONDS", "a branch's config is served without asking again; 0: the default (0)", KIND_NUMBER, AT(hub_fresh_s), 0, 31536000, NULL},
    {"--log", "LLMEMD_LOG", "FORMAT", "logfmt, json or none: a line a request on standard error (logfmt)", KIND_TEXT, AT(log), 0, 0, "logfmt|json|none"},
};
// clang-format on
enum { ROWS = sizeof table / sizeof *table };

static bool among(const char *joined, const char *word)
{
    for (const char *p = joined; *p;) {
        size_t n = strcspn(p, "|");

        if (strlen(word) == n && !strncmp(p, word, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static bool number(const struct option_row *row, const char *text, int base, unsigned *ret)
{
    char *end;
    unsigned long n = strtoul(text, &end, base);

    if (text[0] < '0' || text[0] > '9' || *end || n < row->least || n > row->most)
        return false;
    *ret = (unsigned)n;
    return true;
}

/* Said again, it is one more. */
static bool add_folder(const char **at, const char *value)
{
    static char joined[4096];
    size_t n = *at == joined ? strlen(joined) : 0;

    if (!value[0] || n + strlen(value) + 2 > sizeof joined)
        return false;
    if (n)
        joined[n++] = ':';
    memcpy(joined + n, value, strlen(value) + 1);
    *at = joined;
    return true;
}

static bool set(struct options *o, const struct option_row *row, const char *value)
{
    void *at = (char *)o + row->at;

    switch (row->kind) {
    case KIND_TEXT:
        if (!value[0] || (row->one_of && !among(row->one_of, value)))
            return false;
        memcpy(at, &value, sizeof value);
        return true;
    case KIND_FOLDERS:
        return add_folder(at, value);
    case KIND_NUMBER:
        return number(row, value, 10, at);
    case KIND_OCTAL:
        return number(row, value, 8, at);
    case KIND_FLAG:
        *(bool *)at = value[0] && strcmp(value, "0") != 0;
        return true;
    }
    return false;
}

static bool refuse(const char *name, const char *what)
{
    fprintf(stderr, "llmemd: %s: %s; see llmemd --help\n", name, what);
    return false;
}

static bool read_environment(struct options *o)
{
    for (int i = 0; i < ROWS; i++) {
        const char *value = getenv(table[i].environment);

        if (value && value[0] && !set(o, &table[i], value))
            return refuse(table[i].environment, "not a value it can have");
    }
    return true;
}

/* What other servers call --listen, and what is near. */
static bool no_such_option(const char *arg)
{
    static const char *const listens[] = {"--port", "-p", "--host", "--bind", "--address", "--addr"};
    char text[NEAR_SAY_BYTES], what[NEAR_SAY_BYTES + 64], name[64];
    struct near near;

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    for (size_t i = 0; i < sizeof listens / sizeof *listens; i++)
        if (!strcmp(name, listens[i]))
            return refuse(name, "no such option; where to listen is --listen ADDR:PORT, like --listen 127.0.0.1:8081");
    near_init(&near, name);
    for (int i = 0; i < ROWS; i++)
        near_offer(&near, table[i].flag, table[i].flag);
    (void)snprintf(what, sizeof what, "no such option%s", near_say(&near, text));
    return refuse(name, what);
}

/* NULL: none of the table's. */
static const struct option_row *row_of(const char *arg)
{
    size_t n = strcspn(arg, "=");

    for (const struct option_row *row = table; row < table + ROWS; row++)
        if (strlen(row->flag) == n && !strncmp(row->flag, arg, n))
            return row;
    return NULL;
}

/* "--listen X" and "--listen=X". */
static bool read_flag(struct options *o, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *value = strchr(arg, '=');
    const struct option_row *row = row_of(arg);

    if (!row)
        return no_such_option(arg);
    if (row->kind == KIND_FLAG)
        return value ? refuse(arg, "takes no value") : set(o, row, "1");
    value = value ? value + 1 : ++*i < argc ? argv[*i] : NULL;
    if (!value)
        return refuse(arg, "needs a value");
    return set(o, row, value) || refuse(arg, "not a value it can have");
}

bool options_read(struct options *ret, int argc, char **argv, int first, struct options_rest *rest)
{
    struct options o = {.listen = "127.0.0.1:8080", .socket_mode = 0660, .connections = 1024, .waiting = 512, .queue = 256,
                        .max_body = API_BODY_MAX, .batches = 16, .batch_work = API_BATCH_WORK, .batch_fetches = 200, .batch_deadline_s = 600,
                        .deadline_s = 60, .idle_s = 30, .drain_s = 30, .work_budget = API_WORK_EVENTS, .answers = 10000, .answers_mib = 128, .log = "logfmt"};

    if (!read_environment(&o))
        return false;
    if (rest)
        *rest = (struct options_rest){.v = argv + first};
    for (int i = first; i < argc; i++) {
        if (rest && (strncmp(argv[i], "--", 2) != 0 || !row_of(argv[i])))
            rest->v[rest->n++] = argv[i];
        else if (!read_flag(&o, argc, argv, &i))
            return false;
    }
    if (o.admin_only && !o.admin_listen && !getenv("LISTEN_FDNAMES"))
        return refuse("--admin-only", "needs --admin-listen");
    *ret = o;
    return true;
}

bool options_text(unsigned i, struct option_text *ret)
{
    if (i >= ROWS)
        return false;
    *ret = (struct option_text){table[i].flag, table[i].environment, table[i].value, table[i].help};
    return true;
}
