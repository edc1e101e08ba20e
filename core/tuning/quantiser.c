/* quantiser.c - one row a package. See quantiser.h. */
#include "tuning/quantiser.h"

#include "tuning/awq.h"
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"
#include "tuning/gptq.h"
#include "tuning/hqq.h"
#include "tuning/torchao.h"
#include "tuning/torchao_nf4.h"

static void pack_torchao(struct run *r, struct param *p, val *map)
{
    (void)map;
    torchao_pack(r, p);
}

static void pack_torchao_nf4(struct run *r, struct param *p, val *map)
{
    (void)map;
    torchao_nf4_pack(r, p);
}

static void pack_hqq(struct run *r, struct param *p, val *map)
{
    (void)map;
    hqq_pack(r, p);
}

static const struct quantiser rows[] = {
    {.is_quantised = bnb_is_quantised, .packs = bnb_packs, .pack = bnb_pack, .sum = ADAPTER_OF_BNB},
    {.is_quantised = bnb_holds_tensors, .packs = bnb_packs_tensor, .pack = bnb_pack_tensor},
    {.is_quantised = gptq_is_quantised, .sum = ADAPTER_OF_PACKED, .adapters_in_fp32 = true, .adds_in_place = true},
    {.is_quantised = awq_is_quantised, .sum = ADAPTER_OF_PACKED, .adapters_in_fp32 = true, .casts_what_it_adds = true},
    {.is_quantised = torchao_is_quantised, .packs = torchao_packs, .pack = pack_torchao, .sum = ADAPTER_OF_LINEAR},
    {.is_quantised = torchao_nf4_is_quantised, .packs = torchao_nf4_packs, .pack = pack_torchao_nf4, .sum = ADAPTER_OF_LINEAR},
    {.is_quantised = hqq_is_quantised, .packs = hqq_packs, .pack = pack_hqq, .sum = ADAPTER_OF_HQQ, .takes_bias = true},
};

const struct quantiser *quantiser_of(const struct module *m)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_quantised(m))
            return &rows[i];
    return NULL;
}

const struct quantiser *quantiser_that_packs(const struct param *p)
{
    const struct quantiser *q = quantiser_of(p->owner);

    return q && q->packs && q->packs(p) ? q : NULL;
}
