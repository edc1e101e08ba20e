/*
 * quantiser.h - the packages that quantise weights: what loading and adapters ask of each. One row a package.
 *
 * Purpose   quantiser_of() tells whose a module is. A package that quantises while a model loads packs one weight at a time; of a checkpoint that is packed
 *           already the words come to the device as any tensor does.
 * Adding    a row in quantiser.c, a header of its own beside bnb.h, one in core/train/quantise.c for what it goes together with, a word in kbit.h.
 * Threads   rows are constant.
 */
#ifndef TUNING_QUANTISER_H
#define TUNING_QUANTISER_H

#include "torch/module.h"

/* How peft's class for it adds what adapters give: tuners/lora/layer.py; bnb.py, which clones what int8 does not; gptq.py and awq.py; hqq.py. */
enum adapter_sum { ADAPTER_OF_LINEAR, ADAPTER_OF_BNB, ADAPTER_OF_PACKED, ADAPTER_OF_HQQ };

struct quantiser {
    bool (*is_quantised)(const struct module *m);
    bool (*packs)(const struct param *p); /* while the model loads; NULL: never */
    void (*pack)(struct run *r, struct param *p, val *map); /* map: of double quantisation, once made */
    enum adapter_sum sum;
    bool adapters_in_fp32;  /* adapters are made in fp32, for its words have no dtype that they take over; else in the model's */
    bool adds_in_place;      /* in releases of peft whose gptq.py does */
    bool casts_what_it_adds; /* to the dtype of the sum, before it */
    bool takes_bias;         /* with the weight: a bias that comes first is on the device for nothing */
};

const struct quantiser *quantiser_of(const struct module *m);         /* NULL: none */
const struct quantiser *quantiser_that_packs(const struct param *p);  /* NULL: it comes as it is */

#endif
