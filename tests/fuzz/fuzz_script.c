/*
 * A modelling file of a request: read, compiled, its classes made as a model. What it does with tensors in __init__ is done; what ends it has a sentence, and soon.
 */
#include "base/budget.h"
#include "base/json.h"
#include "models/modeling.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 160 << 20, EVENTS = 2000000 };

static const char config_text[] = "{\"model_type\":\"h\",\"architectures\":[\"M\"],\"auto_map\":{\"AutoModelForCausalLM\":\"modeling_h.M\"},\"hidden_size\":64,"
                                  "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"vocab_size\":100}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct program_library *library = fuzz_library();
    struct arena arena = fuzz_arena(ROOM);
    struct budget budget = {.limit_events = EVENTS};
    char *text = fuzz_text(data, size);
    struct modeling_file file = {"modeling_h.py", text, strlen(text)};
    struct json *config;
    struct arch arch;
    struct err err = {0};

    arena.budget = &budget;
    FUZZ_CHECK(!json_parse(config_text, sizeof config_text - 1, &json_limits_config, &config, &err), "%s", err.detail);
    if (program_arch(library, config, &file, 1, NULL, &arena, &arch, &err)) {
        FUZZ_CHECK(err.code && err.detail[0] && err_status(err.code) >= 400, "%d '%s'", err.code, err.detail);
        FUZZ_CHECK(err.code != ERR_INTERNAL, "%s", err.detail);
    } else
        FUZZ_CHECK(arch.layers && arch.layers <= ARCH_MAX_LAYERS, "%u layers", arch.layers);
    json_free(config);
    free(text);
    return 0;
}
