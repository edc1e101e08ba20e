/*
 * quantise.h - the base's weights as a recipe wants them quantised: which package, and what it goes together with.
 *
 * Errors    ERR_FIELD_CONFLICT names the field whose value a package, a method or a release does not take; ERR_NOMEM.
 */
#ifndef TRAIN_QUANTISE_H
#define TRAIN_QUANTISE_H

#include "models/model.h"
#include "train/recipe.h"

/* Rewrites a declared model's linears, before adapters. compute: the dtype that products are made in. */
MUST_CHECK enum err_code quantise(struct model *m, const struct recipe *r, enum dtype compute, struct err *err);

#endif
