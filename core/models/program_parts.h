/* program_parts.h - what the files of a program in the language share. Included by models/program*.c only. */
#ifndef MODELS_PROGRAM_PARTS_H
#define MODELS_PROGRAM_PARTS_H

#include "models/program.h"
#include "natives/natives.h"

struct program {
    struct natives n;
    struct script *s;
    sv config_class, model_class, config, model, outputs;
};

/* The classes, the config, the model in m's tree. false: the script or the tree says why. */
bool program_make(struct program *p, struct model *m, const struct program_source *from);

#endif
