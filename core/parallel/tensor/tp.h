/*
 * tp.h - tensor parallelism's cut, for the programs that are built on it.
 *
 * Order     tp_cut() before the model comes to the device: sizes of parameters become those of rank 0's part, forwards those that change layouts.
 *           The plan stands in module.split (models/split.h).
 */
#ifndef PARALLEL_TENSOR_TP_H
#define PARALLEL_TENSOR_TP_H

#include "parallel/program.h"

bool tp_cut(struct wrapping *w);            /* false when the run has failed */
bool tp_is_sharded(const struct module *m); /* its parameters are DTensors, replicated ones included */

#endif
