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
    sv loss, models; /* of a task: compute_loss, and what its prepare() made of the models */
};

/* The classes, the config, the model in m's tree. false: the script or the tree says why. */
bool program_make(struct program *p, struct model *m, const struct program_source *from);

/* The model stands on the run's device; its layers' forwards may be ones that were heard before. */
void program_on_device(struct program *p, const struct model *m, struct run *r);

/* alike.c: of each layer of the declared model which kind it is, from 0; false: that cannot be told. */
bool program_kinds(struct program *p, const struct tree *t, uint32_t layers, uint8_t *ret);
bool program_leaves_heads_whole(struct program *p); /* its class's tensor parallel plan, of experts alone or one that gathers what it projects */

/* program_ready.c: modules imported once a stack, models declared once a question. */
enum { READY_ROOM = 5 << 20, STANDS_ROOM = 52 << 20 };

struct program_ready {
    struct arena arena;
    struct quirks q;     /* modules read them when they are imported */
    bool layers_wrapped; /* and this */
    unsigned capability; /* and this, where the files are a stranger's: ours do not ask when they are imported */
    const struct frozen *frozen;
    enum { READY_NOT, READY_KEPT, READY_NEVER } state;
    bool used;
    struct stands *stands; /* program_stand.c; NULL: no room */
};

/* The source's modules, imported: once for each set of quirks; NULL: that cannot be kept. */
const struct frozen *program_imported(struct model *m);
struct script_host program_host(const struct program_source *from);
sv program_classes(struct program *p, const struct program_source *from, sv *ret_config); /* imports; null: the script says why */

struct stands *program_stands_new(struct arena *arena);

/* The book of what layers of a question's models ask, and which model this is of those that it has, before it is declared; NULL: there is none, or the text is
 * a stranger's, whose layers may do more than one sees. */
struct calls_book *program_book(const struct model *m, uint64_t *ret_identity);

/* The model as it stood when one like it was declared, else begun and made, and kept: in memory that all of them share, so that it is gone when the next one
 * is asked for. False: nothing happened, and it has to be declared in memory of its own. */
struct making_of {
    const struct frozen *(*frozen)(struct model *m);
    struct program *(*begin)(struct model *m, const struct frozen *frozen, struct arena *apart); /* its tables in `apart`; NULL: the tree says why */
    void (*make)(struct model *m); /* of m->parts, which has begun */
};
bool program_stands(struct model *m, const struct making_of *how);

/* modeling.c: sizes of the model as it is declared; what a config says before any class is asked. */
MUST_CHECK enum err_code program_look(struct program_source *from, const struct stack *stack, struct arena *arena, struct arch *ret, struct err *err);
struct arch program_arch_blank(const struct json *config, struct program_source *from, struct arena *arena);

#endif
