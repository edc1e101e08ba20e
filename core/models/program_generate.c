/* program_generate.c - transformers' loop over a model in the language. */
#include "models/generation.h"
#include "models/program_parts.h"

struct generation {
    struct run *run;
    struct program *p;
    sv loop;
};

static sv named(struct script *s, sv of, const char *name)
{
    return script_get(s, of, script_symbol(s, name));
}

/* Generation(model, input_ids, attention_mask, cache, tokens, drawn, tempered, top_k, cut) */
static sv make_loop(struct generation *g, const struct model *m, val ids, val mask, enum generation_cache cache, int64_t tokens,
                    const struct generation_choice *how)
{
    struct program *p = g->p;
    struct script *s = p->s;
    sv module = script_import(s, "transformers.generation.utils"), cls = sv_ok(module) ? named(s, module, "Generation") : module;
    sv given[] = {sv_keep(p->model), natives_tensor(&p->n, ids), natives_tensor(&p->n, mask), sv_int((int64_t)cache), sv_int(tokens),
                  sv_int(how->drawn), sv_int(how->tempered), sv_int(how->top_k), sv_int(how->cut)}, made;

    if (!sv_ok(cls) || !sv_ok(given[1]) || !sv_ok(given[2]))
        return sv_null();
    (m->padded ? natives_tell_padded : natives_tell_ones)(given[2]);
    made = script_call(s, cls, 9, given);
    for (int i = 0; i < 3; i++)
        sv_drop(s, given[i]);
    sv_drop(s, cls);
    return made;
}

struct generation *generation_begin(struct run *r, struct model *m, val ids, val mask, enum generation_cache cache, int64_t tokens,
                                    const struct generation_choice *choice)
{
    struct generation *g = arena_new(r->arena, struct generation);

    if (!g) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for a generation");
        return NULL;
    }
    g->run = r;
    g->p = m->parts;
    if (!g->p->n.run)
        natives_on_device(&g->p->n, r);
    g->loop = make_loop(g, m, ids, mask, cache, tokens, choice);
    if (sv_ok(g->loop))
        return g;
    natives_fail_run(&g->p->n);
    return NULL;
}

static void ask(struct generation *g, const char *method, uint32_t n, const sv *given)
{
    struct script *s = g->p->s;
    sv told;

    if (run_dead(g->run))
        return;
    told = script_call_method(s, g->loop, script_symbol(s, method), n, given);
    if (!sv_ok(told))
        natives_fail_run(&g->p->n);
    else
        sv_drop(s, told);
}

void generation_prefill(struct generation *g)
{
    ask(g, "prefill", 0, NULL);
}

void generation_choose(struct generation *g)
{
    ask(g, "choose", 0, NULL);
}

void generation_decode(struct generation *g)
{
    ask(g, "decode", 0, NULL);
}

void generation_skip(struct generation *g, int64_t tokens)
{
    sv n = sv_int(tokens);

    ask(g, "skip", 1, &n);
}

void generation_mark_cache(struct generation *g, uint64_t *ret_bytes)
{
    struct script *s = g->p->s;
    struct run *r = g->run;
    sv list;
    const sv *states;
    uint32_t n = 0;

    *ret_bytes = 0;
    if (run_dead(r))
        return;
    list = script_call_method(s, g->loop, script_symbol(s, "states"), 0, NULL);
    states = sv_ok(list) ? seq_items(list, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        val v = natives_value(&g->p->n, states[i]);

        if (!v || r->storages[value_of(r, v)->storage].block == NO_BLOCK)
            continue;
        mark_block(r, v, MARK_CACHE);
        *ret_bytes += r->storages[value_of(r, v)->storage].bytes;
    }
    if (!states)
        natives_fail_run(&g->p->n);
    else
        sv_drop(s, list);
}

uint32_t generation_layers(struct generation *g, struct cache_layer *ret, uint32_t max)
{
    enum { NUMBERS = 13 };
    struct script *s = g->p->s;
    sv module = run_dead(g->run) ? sv_null() : script_import(s, "transformers.generation.layers"), layers_of, told;
    const sv *numbers;
    uint32_t n = 0;

    layers_of = sv_ok(module) ? named(s, module, "layers_of") : sv_null();
    told = sv_ok(layers_of) ? script_call(s, layers_of, 1, &g->loop) : sv_null();
    numbers = sv_ok(told) ? seq_items(told, &n) : NULL;
    n = numbers && n / NUMBERS <= max ? n / NUMBERS : 0;
    for (uint32_t i = 0; i < n; i++, numbers += NUMBERS)
        ret[i] = (struct cache_layer){
            .heads = (uint32_t)numbers[0].i,
            .key_width = (uint32_t)numbers[1].i,
            .value_width = (uint32_t)numbers[2].i,
            .window = (uint32_t)numbers[3].i,
            .states = (uint32_t)numbers[4].i,
            .conv_channels = (uint32_t)numbers[5].i,
            .conv_columns = (uint32_t)numbers[6].i,
            .state_heads = (uint32_t)numbers[7].i,
            .head_elems = (uint32_t)numbers[8].i,
            .groups = (uint32_t)numbers[9].i,
            .group_channels = (uint32_t)numbers[10].i,
            .chunk_tokens = (uint32_t)numbers[11].i,
            .states_in_full = numbers[12].i != 0,
        };
    if (!sv_ok(told))
        natives_fail_run(&g->p->n);
    else
        sv_drop(s, told);
    if (sv_ok(layers_of))
        sv_drop(s, layers_of);
    return n;
}
