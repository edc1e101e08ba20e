#include "models/releases.h"

#include "natives/natives.h"

#include <string.h>

static sv read_quirk(struct script *s, sv self, uint32_t data)
{
    const struct natives *n = script_of(s);
    int value;

    (void)self;
    memcpy(&value, (const char *)n->host.q + data, sizeof value);
    return sv_int(value);
}

static const struct script_member rows[] = {
#define QUIRK(name, package, from, before, since, meaning) {#name, read_quirk, NULL, (uint32_t)offsetof(struct quirks, name)},
#include "stack/quirks.def"
    {0},
};
static const struct script_class quirks_class = {.name = "Quirks", .bytes = sizeof(struct script_object), .members = rows, .final = true};
static const struct script_class *const classes[] = {&quirks_class, NULL};

static sv refuse(struct script *s, const struct script_args *a)
{
    struct err err = {0};

    (void)err_set(&err, ERR_FIELD_CONFLICT, str_text(a->v[0], NULL), "%s", str_text(a->v[1], NULL));
    return script_fail(s, &err);
}

static const struct script_native functions[] = {{"refuse", refuse, "pointer, why, /", 0, NATIVE_PLAIN}, {0}};

static bool begin(struct script *s, sv module)
{
    const struct natives *n = script_of(s);
    sv quirks = script_object(s, script_class(s, &quirks_class));
    bool ok = sv_ok(quirks) && script_set(s, module, script_symbol(s, "quirks"), quirks) &&
              script_set(s, module, script_symbol(s, "layers_wrapped"), sv_bool(n->layers_wrapped));

    sv_drop(s, quirks);
    return ok;
}

const struct script_module releases_module = {.name = "transformers.releases", .functions = functions, .classes = classes, .begin = begin};
