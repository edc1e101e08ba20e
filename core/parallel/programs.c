#include "parallel/programs.h"

const struct method_row method_rows[METHOD_COUNT] = {
#define METHOD(id, name, program, sharded, replicated) {name, program, sharded, replicated},
#include "parallel/methods.def"
#undef METHOD
};
