/*
 * facts.h - what the hub's API says of a model beside its files.
 *
 * Purpose   the exact number of parameters that its safetensors files hold, the commit that this is said of, who may read it; and of
 *           a repository without config.json what it is instead. All of it is help: what is missing or odd is "not known".
 * Source    GET /api/models/{id}/revision/{rev}?expand=...; huggingface_hub 1.29 hf_api.py (ModelInfo, SafeTensorsInfo).
 *           Packed weights (int8, uint8, int32, fp8) are counted as stored, not as parameters: then none are known.
 * Threads   pure.
 */
#ifndef SERVER_HUB_FACTS_H
#define SERVER_HUB_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACTS_QUERY "expand=safetensors&expand=sha&expand=gated&expand=private"
#define ABOUT_QUERY "expand=siblings&expand=library_name&expand=gguf&expand=cardData"

enum { FACTS_BYTES_MAX = 64 << 10, ABOUT_BYTES_MAX = 256 << 10 };

struct facts {
    char sha[41];        /* "": not told */
    uint64_t parameters; /* 0: not told */
    bool is_open;        /* neither gated nor private */
};

bool facts_read(const char *text, size_t bytes, struct facts *ret);

/* ", it holds ..." for a sentence, or "". */
void facts_about(const char *text, size_t bytes, char *ret, size_t ret_bytes);

#endif
