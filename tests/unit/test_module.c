/* Which list of a tree is its layers', and whether another stands beside it. */
#include "tests/support/unit.h"
#include "torch/module.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20, BLOCKS = 6, LAYERS = 2, EXPERTS = 3 };

/* A tower of more and larger blocks than there are layers, each with a list of experts of its own. */
static struct module *declare(struct tree *t, struct arena *arena, bool tower)
{
    struct err err = {0};
    struct module *blocks, *layers;

    ck_assert(!tree_init(t, arena, DTYPE_BF16, 64, &err));
    t->root = container(t, NULL, "");
    blocks = tower ? container(t, container(t, t->root, "visual"), "blocks") : NULL;
    layers = container(t, t->root, "layers");
    for (uint32_t i = 0; blocks && i < BLOCKS; i++)
        (void)linear(t, container_at(t, blocks, i), "mlp", 64, 64, false);
    for (uint32_t i = 0; i < LAYERS; i++) {
        struct module *experts = container(t, container_at(t, layers, i), "experts");

        for (uint32_t k = 0; k < EXPERTS; k++)
            (void)linear(t, container_at(t, experts, k), "up", 8, 8, false);
    }
    return layers;
}

START_TEST(layers_are_as_many_as_the_config_says)
{
    void *block = malloc(ROOM);
    struct arena arena;
    struct tree t = {0};
    struct module *layers;

    arena_init(&arena, block, ROOM);
    layers = declare(&t, &arena, true);
    ck_assert_str_eq(module_list(&t)->name, "blocks"); /* nobody said: the larger */
    t.n_layers = LAYERS;
    ck_assert_ptr_eq(module_list(&t), layers);
    ck_assert(module_lists_beside(&t));
    t.n_layers = LAYERS + 100; /* none is: as if nobody had said */
    ck_assert_str_eq(module_list(&t)->name, "blocks");
    t = (struct tree){0};
    layers = declare(&t, &arena, false);
    ck_assert_ptr_eq(module_list(&t), layers);
    t.n_layers = LAYERS;
    ck_assert_ptr_eq(module_list(&t), layers);
    ck_assert(!module_lists_beside(&t));
    free(block);
}
END_TEST

UNIT_TESTS("torch/module", unit_test(layers_are_as_many_as_the_config_says);)
