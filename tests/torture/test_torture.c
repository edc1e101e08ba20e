/*
 * Each thing that can fail fails once: an answer is then the right one, or it says that there was no memory; nothing is lost, and the next
 * request is answered as if nothing had been. curl's torture tests are the model (tests/runtests.1, -t).
 */
#include "api/api.h"
#include "base/json.h"
#include "catalog/renamed.h"
#include "tests/support/carried.h"
#include "tests/support/unit.h"
#include "tests/torture/fail.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TINY                                                                                                                                      \
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":128}"
#define ONE "\"training\":{\"seq_len\":64,\"micro_batch_size\":1,\"methods\":\"single\",\"tuning\":\"full\",\"gradient_checkpointing\":false}"

static const struct {
    const char *method, *path, *query, *body;
} asked[] = {
    {"POST", "/estimate", NULL, "{\"model\":\"facebook/opt-125m\",\"cluster\":{\"gpu\":\"A100-40GB\"}," ONE "}"},
    {"POST", "/estimate", "top=1&unknown=1", "{\"config\":" TINY ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":2},\"no_such_thing\":1," ONE "}"},
    {"POST", "/estimate", NULL, "{\"model\":\"gpt2\",\"config\":{\"n_layer\":2,\"rope_scaling\":null},\"cluster\":{\"gpu\":\"T4\"}," ONE "}"},
    {"POST", "/estimate", "timeline=true&launch=all",
     "{\"config\":" TINY ",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":4},\"training\":{\"seq_len\":64,\"micro_batch_size\":1,\"tuning\":\"lora\","
     "\"lora\":{\"rank\":4,\"target_modules\":\".*(q|v)_proj\"},\"methods\":[\"zero3\",\"ddp\"],\"gradient_checkpointing\":false}}"},
    {"POST", "/estimate", NULL,
     "{\"config\":" TINY ",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"tuning\":\"full\",\"gradient_checkpointing\":false},\"training_arguments\":\"bf16: true\\nper_device_train_batch_size: 2\\n"
     "max_length: 64\\n\",\"accelerate_config\":\"distributed_type: FSDP\\nfsdp_config:\\n  fsdp_version: 2\\nmixed_precision: bf16\\nnum_processes: 2\\n\"}"},
    {"POST", "/estimate", NULL,
     "{\"config\":" TINY ",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"seq_len\":64,\"tuning\":\"full\",\"gradient_checkpointing\":true},\"deepspeed_config\":"
     "{\"zero_optimization\":{\"stage\":2},\"bf16\":{\"enabled\":true},\"train_micro_batch_size_per_gpu\":1,\"what_is_this\":NaN}}"},
    {"POST", "/estimate", NULL,
     "{\"config\":" TINY ",\"cluster\":{\"gpu\":\"A100-40GB\"},\"training\":{\"seq_len\":64,\"micro_batch_size\":1,\"methods\":\"single\",\"tuning\":\"full\",\"gradient_checkpointing\":true,"
     "\"checkpoint_reentrant\":false}}"},
    {"POST", "/estimate", NULL, "{\"config\":" TINY ",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"seq_len\":-1}}"},
    {"GET", "/estimate", "model=gpt2&gpu=T4&seq_len=64&micro_batch_size=1&methods=single&lora.rank=4&config=%7B%22n_layer%22:2%7D", ""},
    {"GET", "/estimate", "model=gpt2&gpu=T4&seq_len=much", ""},
    {"POST", "/estimate/batch", "top=1",
     "{\"requests\":[{\"model\":\"gpt2\",\"cluster\":{\"gpu\":\"T4\"}," ONE "},{},{\"model\":\"facebook/opt-125m\",\"cluster\":{\"gpu\":\"T4\"}," ONE "}]}"},
    {"POST", "/models", NULL, "{\"config\":" TINY ",\"lora\":{\"rank\":4},\"dtype\":\"bf16\"}"},
    {"GET", "/models/gpt2", NULL, ""},
    {"GET", "/models/no/such", NULL, ""},
    {"GET", "/models", NULL, ""},
    {"GET", "/gpus", NULL, ""},
    {"GET", "/methods", NULL, ""},
    {"GET", "/", NULL, ""},
    {"PUT", "/estimate", NULL, ""},
    {"GET", "/nothing", NULL, ""},
};
enum { ASKED = sizeof asked / sizeof *asked, CONFIGS_MAX = 8 };

/* What fail.c puts before a sanitizer hides from it who holds what the loader allocated. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_leaks=0";
}

static void *block;
#define ROOM ((size_t)64 << 20)

/* As a server does it: what is needed, found, answered. No needs: nobody is asked. */
static struct api_response answer(int i)
{
    struct api_config found[CONFIGS_MAX];
    struct api_response r = {0};
    struct api_needs needs;
    struct arena arena;
    struct api_request rq = {.method = asked[i].method, .path = asked[i].path, .query = asked[i].query, .body = asked[i].body,
                             .body_bytes = strlen(asked[i].body), .arena = &arena};
    size_t n = 0;

    arena_init(&arena, block, ROOM);
    if (!api_is_cheap(&rq)) {
        api_needs(&rq, &needs);
        if (needs.failed)
            return (struct api_response){.status = 503, .code = "out-of-memory", .body = "{}", .bytes = 2};
        for (uint32_t k = 0; k < needs.n; k++) {
            const struct builtin *b = builtin_known_as(needs.v[k].model).model;

            if (b)
                found[n++] = (struct api_config){.model = needs.v[k].model, .revision = needs.v[k].revision, .text = carried_text(b), .bytes = b->bytes,
                                                 .source = "builtin"};
        }
    }
    api_answer(&rq, found, n, &r);
    return r;
}

struct kept {
    int status;
    size_t bytes;
    char *body;
};

static struct kept keep(struct api_response r)
{
    struct kept k = {r.status, r.bytes, malloc(r.bytes + 1)};

    memcpy(k.body, r.body, r.bytes);
    k.body[r.bytes] = 0;
    return k;
}

static bool is_same(const struct kept *k, const struct api_response *r)
{
    return k->status == r->status && k->bytes == r->bytes && !memcmp(k->body, r->body, r->bytes);
}

static bool says_no_memory(const struct api_response *r)
{
    return r->status == 503 && r->code && (!strcmp(r->code, "out-of-memory") || !strcmp(r->code, "overloaded"));
}

static void arm(enum fail_kind kind, uint64_t at)
{
    fail_control->of[kind].seen = 0;
    fail_control->of[kind].at = at;
}

/* libcheck ends a test that hangs without a word: this one says first where it was. */
static const char *failing;
static int failing_row;
static volatile uint64_t failing_at;

static void tell_where(int number)
{
    char text[160];
    int n = snprintf(text, sizeof text, "\nit hangs: %s %d of row %d, %s %s\n", failing, (int)failing_at, failing_row, asked[failing_row].method,
                     asked[failing_row].path);

    (void)number;
    (void)!write(2, text, (size_t)n);
    _exit(1);
}

static void begin_row(const char *what, int row)
{
    failing = what;
    failing_row = row;
    (void)signal(SIGALRM, tell_where);
    (void)alarm(TEST_TIMEOUT_S - 2);
}

/* --- the arena ------------------------------------------------------------------------------------------------------------------------ */

/* The linker puts these before the arena's own (-Wl,--wrap): the push numbered push_at finds it full. */
static uint64_t pushes, push_at;
static bool push_forever;

void *__real_arena_push(struct arena *a, size_t size, size_t align, size_t count);
void *__real_arena_push_raw(struct arena *a, size_t size, size_t align, size_t count);
char *__real_arena_str(struct arena *a, const char *s, size_t bytes);
void *__wrap_arena_push(struct arena *a, size_t size, size_t align, size_t count);
void *__wrap_arena_push_raw(struct arena *a, size_t size, size_t align, size_t count);
char *__wrap_arena_str(struct arena *a, const char *s, size_t bytes);

static bool is_full(struct arena *a)
{
    bool full = push_at && (pushes + 1 == push_at || (push_forever && pushes + 1 > push_at));

    pushes++;
    a->full |= full;
    return full;
}

void *__wrap_arena_push(struct arena *a, size_t size, size_t align, size_t count)
{
    return is_full(a) ? NULL : __real_arena_push(a, size, align, count);
}

void *__wrap_arena_push_raw(struct arena *a, size_t size, size_t align, size_t count)
{
    return is_full(a) ? NULL : __real_arena_push_raw(a, size, align, count);
}

char *__wrap_arena_str(struct arena *a, const char *s, size_t bytes)
{
    return is_full(a) ? NULL : __real_arena_str(a, s, bytes);
}

static struct json *parsed(const char *text, size_t bytes)
{
    struct json *doc = NULL;
    struct err err = {0};

    ck_assert_msg(!json_parse(text, bytes, &(struct json_limits){.bytes = 64 << 20, .depth = 64, .values = 10000000}, &doc, &err), "%s: %.200s", err.detail,
                  text);
    return doc;
}

static bool equal(const struct json *a, const struct json *b)
{
    double x, y;
    bool p, q;

    if (json_type(a) != json_type(b))
        return false;
    switch (json_type(a)) {
    case JSON_NUMBER:
        return json_number(a, &x) && json_number(b, &y) && !(x < y || x > y);
    case JSON_BOOL:
        return json_bool(a, &p) && json_bool(b, &q) && p == q;
    case JSON_STRING:
        return !strcmp(json_str(a), json_str(b));
    case JSON_ARRAY:
    case JSON_OBJECT:
        for (a = json_first(a), b = json_first(b); a && b; a = json_next(a), b = json_next(b))
            if ((json_name(a) && strcmp(json_name(a), json_name(b)) != 0) || !equal(a, b))
                return false;
        return !a && !b;
    default:
        return true;
    }
}

static bool is_budget(const struct json *candidate)
{
    const char *code = json_str(json_get(json_get(candidate, "reason"), "code"));

    return code && !strcmp(code, "budget");
}

/* Each member of `of`, but the one named `but` where `a` has none. */
static bool holds_all(const struct json *a, const struct json *of, const char *but)
{
    json_each(v, of) {
        const struct json *w = json_get(a, json_name(v));

        if (!equal(v, w) && (w || strcmp(json_name(v), but) != 0))
            return false;
    }
    return true;
}

/* Which of them is recommended, and has what is told around its step, and what is better than it, changes with those that are missing. */
static bool same_figures(const struct json *a, const struct json *b, bool lacks_around)
{
    json_each(v, a) {
        const char *name = json_name(v);
        const struct json *w = json_get(b, name);

        if (!strcmp(name, "dominated") || !strcmp(name, "launch"))
            continue;
        if (strcmp(name, "memory") != 0 ? !equal(v, w) : !w || !holds_all(w, v, "around") || !(lacks_around || holds_all(v, w, "")))
            return false;
    }
    return true;
}

static bool warns(const struct json *answer, const char *of)
{
    json_each(w, json_get(answer, "warnings"))
        if (strstr(json_str(w), of))
            return true;
    return false;
}

/* How much was done may differ. */
static bool same_but_work(const struct json *a, const struct json *b)
{
    for (a = json_first(a), b = json_first(b); a && b; a = json_next(a), b = json_next(b))
        if (strcmp(json_name(a), json_name(b)) != 0 || (strcmp(json_name(a), "work") != 0 && !equal(a, b)))
            return false;
    return !a && !b;
}

/* A candidate that was not finished says so; every other one is as it was, and so is what was read of the question. */
static const char *lies(const struct json *whole, const struct json *part)
{
    static const char *const read[] = {"ignored", "not_in_figures"};
    bool lacks_around = warns(part, "memory.around is not in the answer");
    bool budget = false, fits;

    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!equal(json_get(whole, read[i]), json_get(part, read[i])))
            return read[i];
    json_each(c, json_get(part, "candidates")) {
        bool found = is_budget(c);

        budget |= found;
        json_each(d, json_get(whole, "candidates"))
            found |= same_figures(c, d, lacks_around);
        if (!found)
            return "a candidate";
    }
    if (budget && json_bool(json_get(part, "fits"), &fits) && !fits)
        return "what was not finished does not fit";
    return budget || lacks_around || warns(part, "the advice is not complete") || same_but_work(whole, part) ? NULL : "nothing says that something is missing";
}

static size_t where_they_part(const char *a, const char *b)
{
    size_t at = 0;

    while (a[at] && a[at] == b[at])
        at++;
    return at < 200 ? 0 : at - 200;
}

static void check_part(int i, const struct kept *whole, const struct api_response *r, uint64_t k)
{
    struct json *a, *b;
    const char *what;
    size_t at;

    if (is_same(whole, r) || says_no_memory(r))
        return;
    ck_assert_msg(r->status == 200 && whole->status == 200, "failure %d: status %d instead of %d: %.400s", (int)k, r->status, whole->status, r->body);
    a = parsed(whole->body, whole->bytes);
    b = parsed(r->body, r->bytes);
    if (!strcmp(asked[i].path, "/estimate")) {
        what = lies(a, b);
        at = where_they_part(whole->body, r->body);
        ck_assert_msg(!what, "failure %d: %s: instead of\n%.600s\nit says\n%.600s", (int)k, what, whole->body + at, r->body + at);
    } else if (!strcmp(asked[i].path, "/estimate/batch")) {
        const struct json *w = json_first(json_get(a, "results"));

        json_each(p, json_get(b, "results")) {
            const char *code = json_str(json_get(p, "code"));

            what = equal(w, p) || (code && !strcmp(code, "out-of-memory")) ? NULL : lies(w, p);
            ck_assert_msg(!what, "failure %d: %s of an item", (int)k, what);
            w = json_next(w);
        }
        ck_assert(!w);
    } else {
        ck_abort_msg("failure %d: instead of\n%.600s\nit says\n%.600s", (int)k, whole->body, r->body);
    }
    json_free(a);
    json_free(b);
}

START_TEST(memory)
{
    struct kept whole;
    uint64_t k, n;
    int64_t held;

    block = malloc(ROOM);
    begin_row("allocation", _i);
    (void)answer(_i);
    whole = keep(answer(_i));
    for (k = n = 1; n >= k; k++) {
        struct api_response r;

        failing_at = k;
        held = fail_control->blocks;
        arm(FAIL_MEMORY, k);
        r = answer(_i);
        n = fail_control->of[FAIL_MEMORY].seen;
        arm(FAIL_MEMORY, 0);
        check_part(_i, &whole, &r, k);
        ck_assert_msg(n >= k || is_same(&whole, &r), "another answer though nothing failed");
        ck_assert_msg(fail_control->blocks == held, "allocation %d: %d blocks are lost", (int)k, (int)(fail_control->blocks - held));
        if (k % 8 == 0)
            r = answer(_i);
        ck_assert_msg(k % 8 || is_same(&whole, &r), "after allocation %d had failed: status %d", (int)k, r.status);
        n = n < k ? 0 : k + 1;
    }
    free(whole.body);
    free(block);
}
END_TEST

/* All of the first, which read; then fewer and fewer, which run. TORTURE=all: every one. */
static uint64_t after(uint64_t k)
{
    return k < 150 || getenv("TORTURE") ? k + 1 : k + k / 8;
}

static void fill(int i, bool forever)
{
    struct kept whole;
    uint64_t n = 1;

    block = malloc(ROOM);
    begin_row(forever ? "push, and each after it," : "push", i);
    push_at = 0;
    whole = keep(answer(i));
    push_forever = forever;
    for (uint64_t k = 1; n >= k; k = after(k)) {
        int64_t held = fail_control->blocks;
        struct api_response r;

        failing_at = k;
        pushes = 0;
        push_at = k;
        r = answer(i);
        n = pushes;
        push_at = 0;
        check_part(i, &whole, &r, k);
        ck_assert_msg(fail_control->blocks == held, "push %d: %d blocks are lost", (int)k, (int)(fail_control->blocks - held));
        n = n < k ? 0 : after(k);
    }
    free(whole.body);
    free(block);
}

START_TEST(arena_once)
{
    fill(_i, false);
}
END_TEST

START_TEST(arena_from_then_on)
{
    fill(_i, true);
}
END_TEST

UNIT_TESTS("torture", unit_rows(arena_once, asked); unit_rows(arena_from_then_on, asked); unit_rows(memory, asked);)
