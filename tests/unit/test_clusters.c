#include "catalog/clusters.h"
#include "catalog/gpus.h"
#include "tests/support/unit.h"

#include <string.h>

START_TEST(every_cluster_is_sound)
{
    for (size_t i = 0; i < cluster_count(); i++) {
        const struct cluster *c = cluster_at(i);

        ck_assert_ptr_eq(cluster_find(c->name), c);
        ck_assert_msg(c->gpu && gpu_find(c->gpu), "%s: no GPU %s", c->name, c->gpu ? c->gpu : "");
        ck_assert_uint_ge(c->gpus_per_node, 1);
    }
    ck_assert_uint_ge(cluster_count(), 40);
    ck_assert_ptr_null(cluster_at(cluster_count()));
}
END_TEST

START_TEST(finds_by_alias)
{
    ck_assert_str_eq(cluster_find("LUMI")->name, "lumi-g");
    ck_assert_str_eq(cluster_find("p4d")->gpu, "A100-40GB SXM");
    ck_assert_ptr_null(cluster_find("atlantis"));
    ck_assert_ptr_null(cluster_find(""));
}
END_TEST

UNIT_TESTS("catalog/clusters",
    unit_test(every_cluster_is_sound);
    unit_test(finds_by_alias);
)
