/* program_parts.h - what the files of a program in the language share. Included by models/program*.c only. */
#ifndef MODELS_PROGRAM_PARTS_H
#define MODELS_PROGRAM_PARTS_H

#include "models/program.h"
#include "natives/natives.h"

struct program {
    struct natives n;
    struct script *s;
    bool uses_cache; /* the config says so, before anybody turns it off */
    sv config_class, model_class, config, model, outputs;
};

/* The classes, the config, the model in m's tree. false: the script or the tree says why. */
bool program_make(struct program *p, struct model *m, const struct program_source *from);

/* alike.c: of each layer of the declared model which kind it is, from 0; false: that cannot be told. */
bool program_kinds(struct program *p, const struct tree *t, uint32_t layers, uint8_t *ret);

/* modeling.c: sizes of the model as it is declared; what a config says before any class is asked. */
MUST_CHECK enum err_code program_look(struct program_source *from, struct arena *arena, struct arch *ret, struct err *err);
struct arch program_arch_blank(const struct json *config, struct program_source *from, struct arena *arena);

#endif
