/*
 * What a hub, or who stands in its place, sends: the first letter says what of it (h: header lines, a blank line, a body; f: the API's
 * facts; a: what it says of a repository; c: a config.json; d: a file of the disk cache; n: names, one a line).
 */
#include "api/request/request.h"
#include "server/hub/disk.h"
#include "server/hub/facts.h"
#include "server/hub/name.h"
#include "server/hub/reply.h"
#include "server/hub/sha256.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"safetensors",  "parameters", "total",    "F32",        "BF16",       "I64",
                                    "U8",           "sha",        "gated",    "private",    "siblings",   "rfilename",
                                    "library_name", "gguf",       "cardData", "base_model", "model_type", NULL};
static const char *const values[] = {"\"0123456789012345678901234567890123456789\"",
                                     "{\"rfilename\":\"adapter_config.json\"}",
                                     "\"peft\"",
                                     "18446744073709551615",
                                     "9007199254740992",
                                     "\"meta-llama/Llama-3.1-8B\"",
                                     "[\"a/b\"]",
                                     NULL};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const struct fuzz_grammar grammar = {.names = names, .values = values};

    if (size > 1 && max_size > 1 && strchr("fac", data[0]) && data[0])
        return 1 + fuzz_mutate_json(&grammar, data + 1, size - 1, max_size - 1, seed);
    return LLVMFuzzerMutate(data, size, max_size);
}

static bool is_printable(const char *s)
{
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            return false;
    return true;
}

static void read_reply(const char *text, size_t size)
{
    const char *end = text + size, *at = text, *next;
    char why[200];
    struct reply r;

    reply_init(&r);
    for (; at < end && !r.whole; at = next) {
        next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        reply_line(&r, at, (size_t)(next - at));
    }
    (void)reply_body(&r, at, (size_t)(end - at), 4096);
    FUZZ_CHECK(r.bytes <= 4096, "more was kept than may be");
    FUZZ_CHECK(!r.commit[0] || is_commit(r.commit), "a commit that is none");
    FUZZ_CHECK(is_printable(r.error_code) && is_printable(r.error_message) && is_printable(r.etag) && is_printable(r.request_id),
               "what may harm a log");
    FUZZ_CHECK(!strchr(r.etag, '"'), "an ETag that breaks out of its quotes");
    FUZZ_CHECK(!strpbrk(r.location, "\r\n") || r.location_bad, "a location of two lines");
    for (int token = 0; token < 2; token++) {
        enum verdict v = reply_verdict(&r, token, why, sizeof why);

        FUZZ_CHECK(v < VERDICTS, "verdict %d", v);
        FUZZ_CHECK(v != VERDICT_OK || (r.commit[0] && r.fault == FAULT_NONE), "a file without a commit is taken");
    }
    reply_release(&r);
}

static const char disk_key[] = "org/model\nmain\n-";

static void read_disk(const uint8_t *data, size_t size)
{
    static struct disk *d;
    static char dir[] = "/tmp/llmemd-fuzz-XXXXXX", path[256];
    char name[SHA256_HEX];
    struct snapshot *s;
    FILE *f;

    if (!d) {
        FUZZ_CHECK(mkdtemp(dir) && (d = disk_new(dir)), "no directory");
        sha256_hex(disk_key, strlen(disk_key), name);
        (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    }
    f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(data, 1, size, f) == size && !fclose(f), "no file");
    s = disk_read(d, disk_key);
    if (s) {
        FUZZ_CHECK(disk_write(d, disk_key, s), "what was read is not written");
        snapshot_release(s);
        s = disk_read(d, disk_key);
        FUZZ_CHECK(s, "what was written is not read");
        snapshot_release(s);
    }
    (void)unlink(path);
    (void)rmdir(dir);
    disk_free(d);
    d = NULL;
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
}

static void read_names(char *text)
{
    char url[2048], quoted[512];

    while (*text) {
        size_t n = strcspn(text, "\n");
        char *next = text[n] ? text + n + 1 : text + n;

        text[n] = 0;
        if (!model_id_fault(text)) {
            FUZZ_CHECK(!strstr(text, "..") && n <= 96, "an id that leads elsewhere: %s", text);
            FUZZ_CHECK(url_of_file("https://huggingface.co", text, "main", "config.json", url, sizeof url), "no URL for %s", text);
        }
        if (!revision_fault(text) && url_quote(text, quoted, sizeof quoted))
            FUZZ_CHECK(!strpbrk(quoted, "/?#@: \r\n"), "a revision that breaks out: %s", quoted);
        (void)is_loopback(text);
        (void)token_fault(text);
        text = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[160], *text;
    struct facts facts;

    if (!size)
        return 0;
    text = fuzz_text(data + 1, size - 1);
    switch (data[0]) {
    case 'f':
        (void)facts_read(text, size - 1, &facts);
        break;
    case 'a':
        facts_about(text, size - 1, why, sizeof why);
        break;
    case 'c':
        (void)snapshot_check("config.json", text, size - 1, why, sizeof why);
        (void)snapshot_check("modeling_x.py", text, size - 1, why, sizeof why);
        break;
    case 'd':
        read_disk(data + 1, size - 1);
        break;
    case 'n':
        read_names(text);
        break;
    default:
        read_reply(text, size - 1);
    }
    free(text);
    return 0;
}
