#include "base/name.h"
#include "catalog/gpus.h"
#include "tests/support/unit.h"

#include <string.h>

static const struct {
    const char *asked, *name; /* NULL: none */
} names[] = {
    {"A100-40GB", "A100-40GB SXM"},
    {"A100", "A100-40GB SXM"},
    {"a100 80gb", "A100-80GB SXM"},
    {"A100-80GB", "A100-80GB SXM"},
    {"NVIDIA A100-SXM4-80GB", "A100-80GB SXM"},
    {"H100-80GB", "H100-80GB SXM"},
    {"h100", "H100-80GB SXM"},
    {"nvidia_h100_80gb_hbm3", "H100-80GB SXM"},
    {"V100", "V100-SXM2-16GB"},
    {"t4", "T4"},
    {"rtx4090", "RTX 4090"},
    {"MI250X", "MI250X (per GCD)"},
    {"A100-20GB", NULL},
    {"", NULL},
    {"-", NULL},
    {";", NULL},
    {"A100;A100-40GB", NULL},
    {"../A100", NULL},
};

START_TEST(finds)
{
    const struct gpu *gpu = gpu_find(names[_i].asked);

    ck_assert_msg(!gpu == !names[_i].name, "%s: %s", names[_i].asked, gpu ? gpu->name : "none");
    if (gpu)
        ck_assert_str_eq(gpu->name, names[_i].name);
}
END_TEST

static const struct {
    const char *name;
    bool is_consumer;
} boards[] = {
    {"RTX 4090", true}, {"RTX 3060", true}, {"RX 7900 XTX", true}, {"RTX 2080 Ti", true}, {"RTX A6000", false},
    {"RTX 6000 Ada", false}, {"RTX PRO 6000", false}, {"T4", false}, {"A100", false}, {"MI250X", false},
};

START_TEST(knows_boards_of_people_at_home)
{
    ck_assert_msg(gpu_is_consumer(gpu_find(boards[_i].name)) == boards[_i].is_consumer, "%s", boards[_i].name);
}
END_TEST

START_TEST(every_name_and_alias_leads_to_its_row)
{
    ck_assert_uint_ge(gpu_count(), 79);
    ck_assert_ptr_null(gpu_at(gpu_count()));
    for (size_t i = 0; i < gpu_count(); i++) {
        const struct gpu *gpu = gpu_at(i);
        char alias[256];

        ck_assert_ptr_eq(gpu_find(gpu->name), gpu);
        for (const char *p = gpu->aliases; p && *p; p += strcspn(p, ";"), p += *p == ';') {
            size_t n = strcspn(p, ";");

            memcpy(alias, p, n);
            alias[n] = '\0';
            ck_assert_msg(gpu_find(alias) == gpu, "'%s' of %s", alias, gpu->name);
        }
    }
}
END_TEST

static const struct {
    const char *name;
    bool modelled;
    unsigned major, minor, multiprocessors, threads;
    uint64_t usable_bytes;
    unsigned notes; /* the one on the context is always there */
} devices[] = {
    {"A100-40GB", true, 8, 0, 108, 2048, UINT64_C(42298834944), 1},
    {"A100-80GB", true, 8, 0, 108, 2048, UINT64_C(84974501888), 1},
    {"H100", true, 9, 0, 132, 2048, UINT64_C(85017493504), 1},
    {"T4", true, 7, 5, 40, 1024, UINT64_C(15637413888), 1},
    {"RTX 3090", true, 8, 6, 82, 1536, UINT64_C(25327697920), 1},
    {"L4", true, 8, 9, 58, 1536, UINT64_C(23570219008), 1},
    {"RTX 5090", true, 12, 0, 170, 1536, UINT64_C(33652998144), 1},
    {"GB10", true, 12, 1, 48, 1536, UINT64_C(130596995072), 1},
    {"A100-64GB", true, 8, 0, 108, 2048, UINT64_C(68063068160), 2},        /* multiprocessors of a sister */
    {"B300", true, 10, 3, 152, 2048, UINT64_C(287636979712), 2},           /* of the same major version */
    {"GH200-144GB", true, 9, 0, 132, 2048, UINT64_C(141000000000), 3},     /* and the marketed size */
    {"MI250X", true, 8, 0, 110, 2048, UINT64_C(68702699520), 2},           /* CUDA's kernels */
    {"MI300A", true, 8, 0, 228, 2048, UINT64_C(128000000000), 3},
    {"Gaudi2", false, 0, 0, 0, 0, 0, 0},
    {"Ponte Vecchio", false, 0, 0, 0, 0, 0, 0},
};

START_TEST(becomes_a_device)
{
    struct device d = {0};
    struct gpu_notes notes = {0};

    ck_assert(gpu_device(gpu_find(devices[_i].name), &d, &notes) == devices[_i].modelled);
    ck_assert_uint_eq(d.cc_major, devices[_i].major);
    ck_assert_uint_eq(d.cc_minor, devices[_i].minor);
    ck_assert_uint_eq(d.multiprocessors, devices[_i].multiprocessors);
    ck_assert_uint_eq(d.threads_per_multiprocessor, devices[_i].threads);
    ck_assert_uint_eq(d.usable_bytes, devices[_i].usable_bytes);
    ck_assert_uint_eq(notes.n, devices[_i].notes);
}
END_TEST

START_TEST(every_row_is_whole_or_says_what_stands_for_it)
{
    for (size_t i = 0; i < gpu_count(); i++) {
        const struct gpu *gpu = gpu_at(i);
        struct device d = {0};
        struct gpu_notes notes = {0};

        ck_assert_ptr_nonnull(gpu->vendor);
        if (!gpu_device(gpu, &d, &notes)) {
            ck_assert_msg(!name_same(gpu->vendor, "NVIDIA") && !name_same(gpu->vendor, "AMD"), "%s", gpu->name);
            continue;
        }
        ck_assert_uint_gt(d.multiprocessors, 0);
        ck_assert_uint_gt(d.threads_per_multiprocessor, 0);
        ck_assert_uint_gt(d.usable_bytes, UINT64_C(4) << 30);
        ck_assert(notes.n > 1 || (gpu->multiprocessors && gpu->usable_bytes));
        for (unsigned n = 0; n < notes.n; n++)
            ck_assert_uint_lt(strlen(notes.text[n]), sizeof notes.text[n] - 1); /* no sentence is cut */
    }
}
END_TEST

static const struct {
    const char *text;
    bool ok;
    unsigned major, minor;
} capabilities[] = {
    {"8.0", true, 8, 0}, {"12.1", true, 12, 1}, {"9.0a", false, 7, 7}, {"8", false, 7, 7}, {"8.", false, 7, 7},
    {".0", false, 7, 7}, {"", false, 7, 7}, {"gfx90a", false, 7, 7}, {"100.0", false, 7, 7}, {"8.10", false, 7, 7},
};

START_TEST(reads_capabilities)
{
    unsigned major = 7, minor = 7;

    ck_assert(gpu_capability(capabilities[_i].text, &major, &minor) == capabilities[_i].ok);
    ck_assert_uint_eq(major, capabilities[_i].major);
    ck_assert_uint_eq(minor, capabilities[_i].minor);
}
END_TEST

START_TEST(unlisted_capabilities_get_a_neighbour)
{
    ck_assert_uint_eq(gpu_threads_per_multiprocessor(3, 5), 2048);
    ck_assert_uint_eq(gpu_threads_per_multiprocessor(6, 1), 2048);
    ck_assert_uint_eq(gpu_threads_per_multiprocessor(7, 2), 2048);
    ck_assert_uint_eq(gpu_threads_per_multiprocessor(13, 0), 1536);
}
END_TEST

UNIT_TESTS("catalog/gpus",
    unit_rows(knows_boards_of_people_at_home, boards); unit_rows(finds, names);
    unit_test(every_name_and_alias_leads_to_its_row);
    unit_rows(becomes_a_device, devices);
    unit_test(every_row_is_whole_or_says_what_stands_for_it);
    unit_rows(reads_capabilities, capabilities);
    unit_test(unlisted_capabilities_get_a_neighbour);
)
