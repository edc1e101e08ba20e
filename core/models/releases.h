/*
 * releases.h - what files of releases/ ask: the module transformers.releases of a script.
 *
 * Purpose   `quirks.rope_once` is the row of core/stack/quirks.def, read for the request's stack and model type; a name without a row is an
 *           AttributeError. `layers_wrapped`: each layer stands in a module of the method's. refuse(pointer, sentence) ends the
 *           script: what the release or the model of it cannot run.
 */
#ifndef MODELS_RELEASES_H
#define MODELS_RELEASES_H

#include "script/script.h"

extern const struct script_module releases_module;

#endif
