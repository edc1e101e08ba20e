#include "api/words/families.h"

#define MEMORY    FAMILY_MEMORY
#define TIME      FAMILY_TIME
#define TENSOR    FAMILY_TENSOR
#define PIPELINE  FAMILY_PIPELINE
#define INFERENCE FAMILY_INFERENCE
#define FAMILY(model_type, models, releases, traced, no_stages) {model_type, models, releases, traced, no_stages},

const struct family_row families[] = {
#include "api/words/families.def"
};
const size_t n_families = sizeof families / sizeof *families;
