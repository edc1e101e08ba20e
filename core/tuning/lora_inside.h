/* lora_inside.h - what the files of LoRA share. */
#ifndef TUNING_LORA_INSIDE_H
#define TUNING_LORA_INSIDE_H

#include "tuning/lora.h"

/* --- lora_dora.c */
val dora_call(struct run *r, const struct adapter *l, val x, val base); /* what is added to the base's result; base 0: it has to be made again of x */
bool dora_declare(struct tree *t, struct module *at, const struct adapter *of); /* of the magnitude's module; false: no memory */
void dora_give_birth(struct run *r, const struct adapter *l);               /* of the magnitude, once A and B stand */

/* --- lora_narrow.c; path: of a module, or of a tensor */
bool lora_narrows_out(const struct lora_options *o, const char *path, struct pattern_effort *effort); /* a module that target_modules mean */
uint32_t lora_rank_of(const struct lora_options *o, const char *path, uint32_t fused, struct pattern_effort *effort);
double lora_alpha_of(const struct lora_options *o, const char *path, uint32_t fused, struct pattern_effort *effort);
enum err_code lora_narrow_gap(const struct lora_options *o, struct err *err);

/* --- lora_targets.c: the linears that get adapters */
bool lora_adapts(const struct tree *t, const struct module *m, const char *path, const struct lora_options *o, struct pattern_effort *effort);

/* `list`.default below m: a linear that is trained, whose birth the run has still to give. */
struct module *lora_part(struct tree *t, struct module *m, const char *list, int64_t in, int64_t out, const struct lora_options *o);

/* --- lora_tensors.c: peft's ParamWrapper */
enum err_code lora_adapt_tensors(struct tree *t, struct module *m, const struct lora_options *o, struct pattern_effort *effort, uint32_t *n,
                                 struct err *err);
bool lora_means_tensor(const struct lora_options *o, const char *path); /* target_parameters */

/* The k-th adapter of m's tensors (A and B by turns), in the order of the parameters; NULL: there are no more. */
struct param *lora_tensor_part(const struct module *m, uint32_t k);
const struct param *lora_tensor_base(const struct module *m, uint32_t k); /* whose part the k-th is */

#endif
