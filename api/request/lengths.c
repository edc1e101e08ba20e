/* training.lengths: how long the sequences of a data set are. */
#include "api/request/request.h"

/* [512, 480, ..], or {"tokens": [512, 480], "counts": [10, 3]}. */
static enum err_code check_lengths(struct decoding *d, const struct json *list, const char *what)
{
    uint64_t n;

    if (json_type(list) != JSON_ARRAY || !json_first(list))
        return decode_fail(d, ERR_FIELD_TYPE, "must be a list of lengths, or an object with tokens and counts");
    json_each (v, list)
        if (!json_uint64(v, &n) || !n || n > UINT64_C(1) << 40)
            return decode_fail(d, ERR_FIELD_RANGE, "%s must be whole numbers from 1 on", what);
    return ERR_OK;
}

enum err_code lengths_read(struct decoding *d, const struct json *v, void *at)
{
    const struct json *tokens = json_get(v, "tokens"), *counts = json_get(v, "counts");
    enum err_code rc = check_lengths(d, json_type(v) == JSON_OBJECT ? tokens : v, "lengths");

    if (!rc && counts)
        rc = check_lengths(d, counts, "counts");
    if (!rc && counts && json_count(counts) != json_count(tokens))
        rc = decode_fail(d, ERR_FIELD_CONFLICT, "must have as many counts as tokens");
    ((struct lengths_request *)at)->given = v;
    return rc;
}

static void write_lengths(struct jsonw *w, const char *key, const struct json *list)
{
    uint64_t n;

    jsonw_array(w, key);
    json_each (v, list)
        if (json_uint64(v, &n))
            jsonw_u64(w, NULL, n);
    jsonw_end(w);
}

void lengths_write(struct jsonw *w, const char *key, const void *at)
{
    const struct json *v = ((const struct lengths_request *)at)->given;

    if (!v)
        return;
    if (json_type(v) == JSON_ARRAY) {
        write_lengths(w, key, v);
        return;
    }
    jsonw_object(w, key);
    write_lengths(w, "tokens", json_get(v, "tokens"));
    if (json_get(v, "counts"))
        write_lengths(w, "counts", json_get(v, "counts"));
    jsonw_end(w);
}

double lengths_mean(const struct lengths_request *l, uint64_t longest)
{
    const struct json *tokens = json_type(l->given) == JSON_OBJECT ? json_get(l->given, "tokens") : l->given;
    const struct json *count = json_first(json_get(l->given, "counts"));
    double sum = 0, n = 0;

    json_each (v, tokens) {
        uint64_t length = 0, times = 1;

        (void)json_uint64(v, &length);
        if (count) {
            (void)json_uint64(count, &times);
            count = json_next(count);
        }
        sum += (double)(length < longest ? length : longest) * (double)times;
        n += (double)times;
    }
    return n > 0 ? sum / n : 0;
}
