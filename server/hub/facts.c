#include "server/hub/facts.h"

#include "api/request/request.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>

static struct json *parse(const char *text, size_t bytes)
{
    const struct json_limits limits = {.bytes = ABOUT_BYTES_MAX, .depth = 32, .values = 20000, .python_floats = true};
    struct json *doc = NULL;

    return text && !json_parse(text, bytes, &limits, &doc, NULL) ? doc : NULL;
}

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, list[i]))
            return true;
    return false;
}

/* Elements of floating dtypes; 0 as soon as one may hold packed weights. Integers and masks are buffers. */
static uint64_t count(const struct json *by_dtype)
{
    static const char *const floats[] = {"F64", "F32", "F16", "BF16"}, *const buffers[] = {"I64", "BOOL"};
    uint64_t sum = 0, n;

    json_each (v, by_dtype) {
        if (is_one_of(json_name(v), buffers, sizeof buffers / sizeof *buffers))
            continue;
        if (!is_one_of(json_name(v), floats, sizeof floats / sizeof *floats) || !json_uint64(v, &n) || n > UINT64_MAX / 2 - sum)
            return 0;
        sum += n;
    }
    return sum;
}

static bool says_no(const struct json *v)
{
    bool b = true;

    return json_bool(v, &b) && !b;
}

bool facts_read(const char *text, size_t bytes, struct facts *ret)
{
    struct json *doc = parse(text, bytes);
    const char *sha = json_str(json_get(doc, "sha"));
    const struct json *weights = json_get(doc, "safetensors"), *by_dtype = json_get(weights, "parameters");

    *ret = (struct facts){0};
    if (sha && strlen(sha) == 40)
        memcpy(ret->sha, sha, 41);
    if (json_type(by_dtype) == JSON_OBJECT)
        ret->parameters = count(by_dtype);
    else
        (void)json_uint64(json_get(weights, "total"), &ret->parameters);
    ret->is_open = says_no(json_get(doc, "gated")) && says_no(json_get(doc, "private"));
    json_free(doc);
    return doc;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

static bool has_file(const struct json *siblings, const char *end)
{
    json_each (v, siblings) {
        const char *name = json_str(json_get(v, "rfilename"));

        if (name && ends_in(name, end))
            return true;
    }
    return false;
}

/* cardData.base_model: a name, or a list of them. Whoever wrote the card wrote it: no name that is none is repeated. */
static const char *base_model(const struct json *doc)
{
    const struct json *base = json_get(json_get(doc, "cardData"), "base_model");
    const char *name = json_str(json_type(base) == JSON_ARRAY ? json_first(base) : base);

    return name && !model_id_fault(name) ? name : NULL;
}

void facts_about(const char *text, size_t bytes, char *ret, size_t ret_bytes)
{
    struct json *doc = parse(text, bytes);
    const struct json *files = json_get(doc, "siblings");
    const char *library = json_str(json_get(doc, "library_name")), *base = base_model(doc), *what = NULL;

    ret[0] = 0;
    if (has_file(files, "adapter_config.json") || (library && !strcmp(library, "peft")))
        what = "it is an adapter";
    else if (has_file(files, ".gguf") || json_type(json_get(doc, "gguf")) == JSON_OBJECT)
        what = "it holds GGUF files";
    if (what || base)
        (void)snprintf(ret, ret_bytes, ": %s%s%.96s%s", what ? what : "it was made", base ? " of '" : "", base ? base : "",
                       base ? "'; ask for that one" : "");
    json_free(doc);
}
