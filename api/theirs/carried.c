/*
 * DeepSpeed configs that a tool carries in its own repository, which people name and have never opened.
 *
 * Source    ms-swift 4.6.0 swift/config/{zero0..zero3_offload}.json, by name; LLaMA-Factory 0.9.5 examples/deepspeed/ and axolotl 0.19.0 deepspeed_configs/
 *           (`axolotl fetch deepspeed_configs`), open-instruct e6c3044a configs/ds_configs, by path: what moves memory of each.
 */
#include "api/theirs/theirs.h"

#include <string.h>

#define AUTO(keys)     "{\"fp16\":{\"enabled\":\"auto\"},\"bf16\":{\"enabled\":\"auto\"}," keys "}"
#define BF16(keys)     "{\"bf16\":{\"enabled\":true}," keys "}"
#define ZERO(n, keys)  "\"zero_optimization\":{\"stage\":" n "," keys "}"
#define OPTIMIZER(to)  "\"offload_optimizer\":{\"device\":\"" to "\"}"
#define PARAMS(to)     "\"offload_param\":{\"device\":\"" to "\"}"
#define INDUCTOR       "\"compile\":{\"disable\":false,\"backend\":\"inductor\"},"
#define BUCKETS(elems)                                                                                               \
    "\"allgather_partitions\":true,\"allgather_bucket_size\":" elems ",\"overlap_comm\":false,\"reduce_scatter\":true," \
    "\"reduce_bucket_size\":" elems ",\"contiguous_gradients\":true"
#define AUTO_BUCKETS   "\"reduce_bucket_size\":\"auto\",\"stage3_prefetch_bucket_size\":\"auto\",\"stage3_param_persistence_threshold\":\"auto\""
#define BILLIONS                                                                                                                \
    "\"overlap_comm\":false,\"contiguous_gradients\":true,\"sub_group_size\":1000000000,\"stage3_max_live_parameters\":1000000000," \
    "\"stage3_max_reuse_distance\":1000000000"
#define NOUGHTS        "\"overlap_comm\":true,\"contiguous_gradients\":true,\"sub_group_size\":0,\"max_live_parameters\":0,\"max_reuse_distance\":0"

#define OVERLAPS       "\"overlap_comm\":true,\"contiguous_gradients\":true"
#define GIGABYTES      "\"sub_group_size\":1000000000,\"stage3_max_live_parameters\":1000000000,\"stage3_max_reuse_distance\":1000000000"

static const struct {
    enum tool tool;
    const char *folder, *name, *json; /* folder NULL: it is a name, no path */
} carried[] = {
    {TOOL_MS_SWIFT, NULL, "zero0", AUTO(ZERO("0", BUCKETS("200000000")))},
    {TOOL_MS_SWIFT, NULL, "zero1", AUTO(ZERO("1", BUCKETS("200000000")))},
    {TOOL_MS_SWIFT, NULL, "zero2", AUTO(ZERO("2", BUCKETS("200000000")))},
    {TOOL_MS_SWIFT, NULL, "zero2_offload", AUTO(ZERO("2", OPTIMIZER("cpu") "," BUCKETS("200000000")))},
    {TOOL_MS_SWIFT, NULL, "zero3", AUTO(ZERO("3", BILLIONS "," AUTO_BUCKETS))},
    {TOOL_MS_SWIFT, NULL, "zero3_offload", AUTO(ZERO("3", OPTIMIZER("cpu") "," PARAMS("cpu") "," BILLIONS "," AUTO_BUCKETS))},
    {TOOL_LLAMA_FACTORY, "deepspeed", "ds_z0_config.json", AUTO(ZERO("0", BUCKETS("500000000")))},
    {TOOL_LLAMA_FACTORY, "deepspeed", "ds_z2_config.json", AUTO(ZERO("2", BUCKETS("500000000") ",\"round_robin_gradients\":true"))},
    {TOOL_LLAMA_FACTORY, "deepspeed", "ds_z2_offload_config.json", AUTO(ZERO("2", OPTIMIZER("cpu") "," BUCKETS("500000000") ",\"round_robin_gradients\":true"))},
    {TOOL_LLAMA_FACTORY, "deepspeed", "ds_z3_config.json", AUTO(ZERO("3", BILLIONS "," AUTO_BUCKETS))},
    {TOOL_LLAMA_FACTORY, "deepspeed", "ds_z3_offload_config.json", AUTO(ZERO("3", OPTIMIZER("cpu") "," PARAMS("cpu") "," BILLIONS "," AUTO_BUCKETS))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero1.json", AUTO(ZERO("1", "\"overlap_comm\":true"))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero1_torch_compile.json", AUTO(INDUCTOR ZERO("1", "\"overlap_comm\":true"))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero2.json", AUTO(ZERO("2", OPTIMIZER("cpu") ",\"contiguous_gradients\":true,\"overlap_comm\":true"))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero2_torch_compile.json", AUTO(INDUCTOR ZERO("2", OPTIMIZER("cpu") ",\"contiguous_gradients\":true,\"overlap_comm\":true"))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero3.json", AUTO(ZERO("3", NOUGHTS "," AUTO_BUCKETS))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero3_bf16.json", BF16(ZERO("3", NOUGHTS "," AUTO_BUCKETS))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero3_bf16_cpuoffload_all.json", BF16(ZERO("3", OPTIMIZER("cpu") "," PARAMS("cpu") "," NOUGHTS "," AUTO_BUCKETS))},
    {TOOL_AXOLOTL, "deepspeed_configs", "zero3_bf16_cpuoffload_params.json", BF16(ZERO("3", PARAMS("cpu") "," NOUGHTS "," AUTO_BUCKETS))},
    {TOOL_OPEN_INSTRUCT, "ds_configs", "stage2_no_offloading_accelerate.conf", AUTO(ZERO("2", OVERLAPS ",\"reduce_bucket_size\":\"auto\""))},
    {TOOL_OPEN_INSTRUCT, "ds_configs", "stage3_no_offloading_accelerate.conf", AUTO(ZERO("3", OVERLAPS "," GIGABYTES "," AUTO_BUCKETS))},
    {TOOL_OPEN_INSTRUCT, "ds_configs", "stage3_offloading_accelerate.conf",
     AUTO(ZERO("3", OPTIMIZER("cpu") "," PARAMS("cpu") "," OVERLAPS "," GIGABYTES "," AUTO_BUCKETS))},
};

/* "examples/deepspeed/ds_z3_config.json": the folder that the name stands in */
static bool is_in(const char *path, const char *name, const char *folder)
{
    size_t n = strlen(folder);

    return name - path > (long)n && !strncmp(name - 1 - n, folder, n) && (name - 1 - n == path || name[-2 - (long)n] == '/');
}

const char *theirs_carried(const struct theirs *t, const char *path)
{
    const char *name = path && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    for (size_t i = 0; name && i < sizeof carried / sizeof *carried; i++)
        if (theirs_tool_is(t, carried[i].tool) && !strcmp(carried[i].name, name) && (carried[i].folder ? is_in(path, name, carried[i].folder) : name == path))
            return carried[i].json;
    return NULL;
}
