#include "base/name.h"
#include "catalog/clusters.h"
#include "catalog/gpus.h"
#include "catalog/links.h"
#include "tests/support/unit.h"

static const struct {
    const char *asked, *name; /* NULL: none */
    unsigned count;
} names[] = {
    {"nvlink4", "nvlink4", 1},
    {"NVLink 4", "nvlink4", 1},
    {"ib-hdr x8", "ib-hdr", 8},
    {"roce-400 x8", "roce-400", 8},
    {"IB_HDR100  x2", "ib-hdr100", 2},
    {"pcie4-x8", "pcie4-x8", 1}, /* a name of its own */
    {"nvlink", "nvlink", 1},
    {"ib-hdr x0", NULL, 0},
    {"ib-hdr x65", NULL, 0},
    {"ib-hdr x128", NULL, 0},
    {"x8", NULL, 0},
    {" x8", NULL, 0},
    {"", NULL, 0},
    {"token-ring", NULL, 0},
    {"nvlink4;nvlink3", NULL, 0},
};

START_TEST(finds)
{
    unsigned count = 0;
    const struct link *l = link_find(names[_i].asked, &count);

    ck_assert_msg(!l == !names[_i].name, "%s: %s", names[_i].asked, l ? l->name : "none");
    if (!l)
        return;
    ck_assert_str_eq(l->name, names[_i].name);
    ck_assert_uint_eq(count, names[_i].count);
}
END_TEST

START_TEST(every_row_is_found_and_sound)
{
    unsigned count;

    ck_assert_uint_ge(link_count(), 49);
    ck_assert_ptr_null(link_at(link_count()));
    for (size_t i = 0; i < link_count(); i++) {
        const struct link *l = link_at(i);

        ck_assert_ptr_eq(link_find(l->name, &count), l);
        ck_assert_ptr_nonnull(l->scope);
        ck_assert_msg(l->measured_bus_gbs <= 0 || l->theoretical_gbs_per_dir <= 0 || l->measured_bus_gbs < 5.1 * l->theoretical_gbs_per_dir,
                      "%s", l->name);
    }
}
END_TEST

START_TEST(clusters_name_links_that_there_are)
{
    for (size_t i = 0; i < cluster_count(); i++) {
        const struct cluster *c = cluster_at(i);
        unsigned count;

        ck_assert_msg(!c->intra_node || link_find(c->intra_node, &count), "%s: %s", c->name, c->intra_node);
        ck_assert_msg(!c->inter_node || link_find(c->inter_node, &count), "%s: %s", c->name, c->inter_node);
    }
}
END_TEST

static const struct {
    const char *gpu;
    double bf16_tflops, memory_gbs, nvlink_gbs, best_tflops;
} rates[] = {
    {"A100-80GB", 312, 2039, 300, 271.2},
    {"H100", 989.4, 3350, 450, 794.5},
    {"RTX 3090", 71.2, 936, 56.25, 0},
    {"V100", 0, 900, 150, 97.36}, /* in fp16 */
    {"L4", 121, 300, 0, 70.89},
};

START_TEST(gpus_have_rates)
{
    const struct gpu *g = gpu_find(rates[_i].gpu);

    ck_assert_double_eq(g->bf16_tflops, rates[_i].bf16_tflops);
    ck_assert_double_eq(g->mem_bw_gbs, rates[_i].memory_gbs);
    ck_assert_double_eq(g->nvlink_gbs_per_dir, rates[_i].nvlink_gbs);
    ck_assert_double_eq(g->matmul_bf16_best_tflops, rates[_i].best_tflops);
}
END_TEST

static const struct {
    unsigned major, minor, multiprocessors, mib;
} caches[] = {
    {7, 0, 80, 6}, {7, 5, 40, 4}, {8, 0, 108, 40}, {8, 6, 82, 6}, {8, 9, 142, 96}, {8, 9, 128, 72}, {8, 9, 58, 48}, {8, 9, 46, 36}, {8, 9, 76, 64}, {8, 6, 28, 3}, {8, 6, 46, 4}, {8, 6, 68, 5}, {8, 6, 64, 6}, {12, 0, 84, 64}, {9, 0, 132, 50}, {10, 0, 148, 126}, {12, 0, 170, 96},
    {5, 0, 16, 4}, {13, 0, 200, 96},
};

START_TEST(caches_grow_with_the_generation)
{
    ck_assert_uint_eq(gpu_cache_bytes(caches[_i].major, caches[_i].minor, caches[_i].multiprocessors), (uint64_t)caches[_i].mib << 20);
}
END_TEST

UNIT_TESTS("catalog/links",
    unit_rows(finds, names);
    unit_test(every_row_is_found_and_sound);
    unit_test(clusters_name_links_that_there_are);
    unit_rows(gpus_have_rates, rates);
    unit_rows(caches_grow_with_the_generation, caches);
)
