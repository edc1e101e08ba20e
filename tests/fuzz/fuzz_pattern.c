/*
 * target_modules as one string: a regular expression, then the names that it is held against, a line each.
 */
#include "tests/fuzz/fuzz.h"
#include "tuning/pattern.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = fuzz_arena(256 << 10);
    char *text = fuzz_text(data, size), *name = strchr(text, '\n');
    const struct pattern *p = NULL;
    struct err err = {0};
    struct pattern_effort effort = {0};

    if (name)
        *name++ = 0;
    if (pattern_compile(text, "/training/lora/target_modules", &arena, &p, &err)) {
        FUZZ_CHECK(err.code != ERR_NOMEM && err.detail[0], "%d %s", err.code, err.detail);
        free(text);
        return 0;
    }
    (void)pattern_matches(p, "model.layers.11.self_attn.q_proj", &effort);
    for (int i = 0; name && i < 4; i++) {
        char *end = strchr(name, '\n');

        if (end)
            *end = 0;
        if (strlen(name) < 256) {
            bool first = pattern_matches(p, name, &effort), again = pattern_matches(p, name, &effort);

            FUZZ_CHECK(effort.exhausted || first == again, "matches once, and once not");
        }
        name = end ? end + 1 : NULL;
    }
    free(text);
    return 0;
}
