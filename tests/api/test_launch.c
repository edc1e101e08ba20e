/* What launch/ writes, posted back as a user's own configs, is the step that it was written for; and where an answer has it. */
#include "tests/support/programs.h"
#include "base/json.h"
#include "catalog/gpus.h"
#include "config/arch.h"
#include "launch/launch.h"
#include "tests/support/ask.h"
#include "tests/support/carried.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4 << 20, TEXT = 1 << 16 };

/* No value is the default of anything. */
static const struct recipe asked = {
    .seq_len_tokens = 128,
    .micro_batch_size = 3,
    .gradient_accumulation_steps = 2,
    .max_grad_norm = 0.5,
    .precision = PRECISION_BF16_MIXED,
    .optimizer = OPTIMIZER_SGD,
    .gradient_checkpointing = TRI_TRUE,
    .checkpoint_reentrant = TRI_TRUE,
    .ddp_bucket_bytes = 50 << 20,
    .sync_each_batch = TRI_TRUE,
    .fsdp = {.backward_prefetch = FSDP_PREFETCH_POST, .forward_prefetch = TRI_TRUE, .use_orig_params = TRI_FALSE},
    .zero = {200000001, 300000001, 40000001, 900000001, 800000001, 90001, TRI_TRUE, TRI_UNSET},
    .stack = {2015, 5023, 21, 1015, 50, 19, 2007},
};

enum { FILES_ALL, FILES_ACCELERATE, FILES_ARGUMENTS };

/* Which files are posted back, and what a member of `resolved` is then. */
static const struct {
    enum method method;
    enum offload offload;
    uint32_t data, tensor, pipeline, group;
    int files;
    const char *path, *value;
} row[] = {
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ALL, "training/methods/0", "single"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/micro_batch_size", "3"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/gradient_accumulation_steps", "2"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/max_grad_norm", "0.5"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/optimizer", "sgd"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/gradient_checkpointing", "true"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/checkpoint_reentrant", "true"},
    {METHOD_SINGLE, OFFLOAD_NONE, 1, 1, 1, 1, FILES_ARGUMENTS, "training/use_cache", "false"},
    {METHOD_DDP, OFFLOAD_NONE, 8, 1, 1, 1, FILES_ALL, "training/methods/0", "ddp"},
    {METHOD_DDP, OFFLOAD_NONE, 8, 1, 1, 1, FILES_ALL, "training/buckets/ddp_bytes", "52428800"},
    {METHOD_DDP, OFFLOAD_NONE, 8, 1, 1, 1, FILES_ALL, "training/sync_each_batch", "true"},
    {METHOD_DDP, OFFLOAD_NONE, 8, 1, 1, 1, FILES_ALL, "training/precision", "bf16-autocast"}, /* of a checkpoint in half, as read back */
    {METHOD_DDP, OFFLOAD_NONE, 8, 1, 1, 1, FILES_ACCELERATE, "cluster/gpus_per_node", "4"},
    {METHOD_DDP, OFFLOAD_NONE, 8, 1, 1, 1, FILES_ACCELERATE, "cluster/nodes", "2"},
    {METHOD_ZERO0, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "zero0"},
    {METHOD_ZERO0, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "zero0"},
    {METHOD_ZERO1, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "zero1"},
    {METHOD_ZERO1, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "zero1"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "zero2"},
    {METHOD_ZERO2, OFFLOAD_OPTIMIZER, 4, 1, 1, 1, FILES_ALL, "training/offload", "optimizer"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/offload", "none"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/precision", "bf16-mixed"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/buckets/reduce_elems", "200000001"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/buckets/allgather_elems", "300000001"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/overlap_comm", "true"},
    {METHOD_ZERO2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/max_grad_norm", "0.5"},
    {METHOD_ZERO3, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "zero3"},
    {METHOD_ZERO3, OFFLOAD_OPTIMIZER_PARAMS, 4, 1, 1, 1, FILES_ALL, "training/offload", "optimizer+params"},
    {METHOD_ZERO3, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/buckets/prefetch_elems", "40000001"},
    {METHOD_ZERO3, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/buckets/max_live_elems", "900000001"},
    {METHOD_ZERO3, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/buckets/sub_group_elems", "800000001"},
    {METHOD_ZERO3, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/buckets/persistence_elems", "90001"},
    {METHOD_ZERO3, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ACCELERATE, "stack/zero_init", "true"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "fsdp"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ACCELERATE, "training/methods/0", "fsdp"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "fsdp"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ACCELERATE, "training/fsdp/backward_prefetch", "post"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/fsdp/backward_prefetch", "post"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ACCELERATE, "training/fsdp/forward_prefetch", "true"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/fsdp/forward_prefetch", "true"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ACCELERATE, "training/fsdp/use_orig_params", "false"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/fsdp/use_orig_params", "false"},
    {METHOD_FSDP, OFFLOAD_OPTIMIZER_PARAMS, 4, 1, 1, 1, FILES_ALL, "training/offload", "optimizer+params"},
    {METHOD_FSDP, OFFLOAD_OPTIMIZER_PARAMS, 4, 1, 1, 1, FILES_ARGUMENTS, "training/offload", "optimizer+params"},
    {METHOD_FSDP_GRAD_OP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "fsdp_grad_op"},
    {METHOD_FSDP_GRAD_OP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "fsdp_grad_op"},
    {METHOD_FSDP_NO_SHARD, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "fsdp_no_shard"},
    {METHOD_FSDP_NO_SHARD, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "fsdp_no_shard"},
    {METHOD_HSDP, OFFLOAD_NONE, 8, 1, 1, 4, FILES_ALL, "training/methods/0", "hsdp"},
    {METHOD_HSDP, OFFLOAD_NONE, 8, 1, 1, 4, FILES_ARGUMENTS, "training/methods/0", "hsdp"},
    {METHOD_FSDP2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "fsdp2"},
    {METHOD_FSDP2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "fsdp2"},
    {METHOD_FSDP2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/fsdp/wrap", "accelerate"},
    {METHOD_FSDP2, OFFLOAD_OPTIMIZER_PARAMS, 4, 1, 1, 1, FILES_ALL, "training/offload", "optimizer+params"},
    {METHOD_FSDP2_NORESHARD, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/methods/0", "fsdp2_noreshard"},
    {METHOD_FSDP2_NORESHARD, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/methods/0", "fsdp2_noreshard"},
    {METHOD_FSDP2, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ALL, "training/sync_each_batch", "true"},
    {METHOD_FSDP, OFFLOAD_NONE, 4, 1, 1, 1, FILES_ARGUMENTS, "training/sync_each_batch", "true"},
    {METHOD_HSDP2, OFFLOAD_NONE, 8, 1, 1, 2, FILES_ALL, "training/sync_each_batch", "true"},
    {METHOD_TP_FSDP2, OFFLOAD_NONE, 2, 4, 1, 1, FILES_ALL, "training/sync_each_batch", "true"},
    {METHOD_HSDP2, OFFLOAD_NONE, 8, 1, 1, 2, FILES_ALL, "training/methods/0", "hsdp2"},
    {METHOD_HSDP2, OFFLOAD_NONE, 8, 1, 1, 2, FILES_ACCELERATE, "training/shard_group", "2"},
    {METHOD_TP, OFFLOAD_NONE, 1, 4, 1, 1, FILES_ALL, "training/methods/0", "tp"},
    {METHOD_TP, OFFLOAD_NONE, 1, 4, 1, 1, FILES_ALL, "training/tensor_parallel", "4"},
    {METHOD_TP_FSDP2, OFFLOAD_NONE, 2, 4, 1, 1, FILES_ALL, "training/methods/0", "tp+fsdp2"},
    {METHOD_TP_FSDP2, OFFLOAD_NONE, 2, 4, 1, 1, FILES_ACCELERATE, "training/tensor_parallel", "4"},
    {METHOD_PP, OFFLOAD_NONE, 1, 1, 4, 1, FILES_ARGUMENTS, "training/micro_batch_size", "3"},
};

static struct step step_of(int i, struct arena *arena)
{
    const struct builtin *b = builtin_find("facebook/opt-125m");
    struct json *config = NULL;
    struct gpu_notes notes = {0};
    struct recipe r = asked;
    struct device device;
    struct arch arch;
    struct step step;
    struct err err = {0};

    r.method = row[i].method;
    r.offload = row[i].offload;
    r.data_parallel = row[i].data;
    r.tensor_parallel = row[i].tensor;
    r.pipeline_parallel = row[i].pipeline;
    r.shard_group = row[i].group;
    ck_assert(!json_parse(carried_text(b), b->bytes, &json_limits_request, &config, &err) && !arch_read(config, arena, &arch, &err));
    ck_assert(gpu_device(gpu_find("A100-40GB"), &device, &notes));
    ck_assert_msg(!train_resolve(&r, &arch, &device, arena, &step, &err), "%s: %s", err.at, err.detail);
    json_free(config);
    return step;
}

static void write_back(struct jsonw *w, const struct launch *l, int files)
{
    struct arguments to = {.object = w};
    static char yaml[TEXT];
    struct buf text;

    jsonw_object(w, NULL);
    jsonw_str(w, "model", "facebook/opt-125m");
    jsonw_object(w, "cluster");
    jsonw_str(w, "gpu", "A100-40GB");
    jsonw_u64(w, "host_memory_bytes_per_node", UINT64_C(1) << 40);
    if (files == FILES_ARGUMENTS) { /* which say nothing of machines */
        jsonw_u64(w, "gpus_per_node", launch_gpus_per_node(l));
        jsonw_u64(w, "nodes", launch_nodes(l));
    }
    jsonw_end(w);
    if (launch_has_deepspeed(l))
        launch_deepspeed(w, "deepspeed_config", l);
    if (launch_has_accelerate(l) && files != FILES_ARGUMENTS) {
        buf_init_fixed(&text, yaml, sizeof yaml);
        launch_accelerate(&text, l);
        jsonw_str(w, "accelerate_config", buf_text(&text));
    }
    if (files != FILES_ACCELERATE) {
        jsonw_object(w, "training_arguments");
        launch_training_arguments(&to, l);
        jsonw_end(w);
    }
    jsonw_end(w);
}

START_TEST(comes_back)
{
    static unsigned char block[ROOM];
    static char body[TEXT];
    struct arena arena;
    struct buf out;
    struct jsonw w;
    struct step step;
    struct launch l = {.step = &step, .model = "facebook/opt-125m", .optimizer = "sgd", .attention = "sdpa", .gpus_per_node = 4};
    struct reply reply;
    char path[128], text[64];

    arena_init(&arena, block, sizeof block);
    step = step_of(_i, &arena);
    buf_init_fixed(&out, body, sizeof body);
    jsonw_init(&w, &out, false);
    write_back(&w, &l, row[_i].files);
    ck_assert(jsonw_done(&w));
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s: %s %s", body, reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    (void)snprintf(path, sizeof path, "resolved/%s", row[_i].path);
    reply_value(&reply, path, text);
    ck_assert_msg(!strcmp(text, row[_i].value), "%s: %s is %s", body, path, text);
    ck_assert_msg(json_count(json_get(reply.doc, "warnings")) == 0, "%s: %s", body, json_str(reply_at(&reply, "warnings/0")));
    reply_done(reply);
}
END_TEST

/* --- in an answer --------------------------------------------------------------------------------------------------------------------- */

#define TWO_NODES "{" OPT ",\"cluster\":{\"name\":\"mahti\",\"nodes\":2},\"training\":{\"methods\":\"ddp\",\"seq_len\":64,\"micro_batch_size\":1}}"

START_TEST(stands_in_the_recommendation)
{
    struct reply reply = ask(TWO_NODES);
    const char *command = json_str(reply_at(&reply, "recommendation/launch/command")), *slurm = json_str(reply_at(&reply, "recommendation/launch/slurm"));

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(command && strstr(command, "accelerate launch --config_file accelerate.yaml"), "%s", command);
    ck_assert_msg(slurm && strstr(slurm, "#SBATCH --partition=gpumedium\n#SBATCH --nodes=2\n") && strstr(slurm, "#SBATCH --gres=gpu:a100:4\n"), "%s", slurm);
    ck_assert(strstr(slurm, command));
    ck_assert(strstr(slurm, json_str(reply_at(&reply, "recommendation/launch/accelerate_config"))));
    ck_assert_ptr_null(reply_at(&reply, "candidates/0/launch"));
    reply_done(reply);
}
END_TEST

/* Whole gradients that wait for the last micro-batch leave no room for a second sequence: both ways are tried, and the files say which it is. */
START_TEST(says_when_gradients_are_reduced)
{
    struct reply reply = ask("{\"model\":\"meta-llama/Meta-Llama-3.1-8B\",\"cluster\":{\"name\":\"mahti\",\"nodes\":2},"
                             "\"training\":{\"seq_len\":2048,\"global_batch_size\":64,\"methods\":\"fsdp2\",\"gradient_checkpointing\":true}}");
    uint64_t ways = 0;
    bool synced = false;

    ck_assert_int_eq(reply.r.status, 200);
    json_each(c, reply_at(&reply, "candidates"))
        if (json_bool(json_get(c, "sync_each_batch"), &synced))
            ways |= UINT64_C(1) << synced;
    ck_assert_uint_eq(ways, 3);
    ck_assert(json_bool(reply_at(&reply, "recommendation/sync_each_batch"), &synced) && synced);
    ck_assert(json_bool(reply_at(&reply, "recommendation/launch/training_arguments/accelerator_config/gradient_accumulation_kwargs/sync_each_batch"), &synced) &&
              synced);
    ck_assert(strstr(json_str(reply_at(&reply, "recommendation/launch/command")), "sync_each_batch"));
    reply_done(reply);
}
END_TEST

/* Where nobody reads it, or a micro-batch is asked, there is one way. */
static const struct {
    const char *training, *stack;
} one_way[] = {
    {"\"global_batch_size\":32,\"micro_batch_size\":1", ""},
    {"\"global_batch_size\":32,\"sync_each_batch\":false", ""},
    {"\"global_batch_size\":32", ",\"stack\":{\"torch\":\"2.7\",\"transformers\":\"4.53\"}"},
    {"\"seq_len\":64", ""},
};

START_TEST(reduces_one_way)
{
    char body[512];
    struct reply reply;
    bool synced;

    (void)snprintf(body, sizeof body, "{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"training\":{\"methods\":\"fsdp\",%s}%s}",
                   one_way[_i].training, one_way[_i].stack);
    reply = ask(body);
    ck_assert_int_eq(reply.r.status, 200);
    json_each(c, reply_at(&reply, "candidates"))
        ck_assert(json_bool(json_get(c, "sync_each_batch"), &synced) && !synced);
    ck_assert_uint_eq(json_count(reply_at(&reply, "candidates")), 2);
    reply_done(reply);
}
END_TEST

START_TEST(stands_in_all_that_fit)
{
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", "/estimate?launch=all", NULL,
                                    "{\"model\":\"meta-llama/Llama-2-7b-hf\",\"cluster\":{\"gpu\":\"A100-40GB\"},\"training\":{\"micro_batch_size\":1,\"seq_len\":1024}}");
    bool fits;

    ck_assert_int_eq(reply.r.status, 200);
    json_each(candidate, json_get(reply.doc, "candidates")) {
        bool has = json_get(candidate, "launch");

        ck_assert(json_bool(json_get(candidate, "fits"), &fits) && fits ? has : !has);
    }
    reply_done(reply);
}
END_TEST

/* Files for a preset whose queue nobody described are files without a script for it. */
START_TEST(no_script_without_a_source)
{
    struct reply reply = ask("{" OPT ",\"cluster\":{\"name\":\"dgx-a100-80\"},\"training\":{\"methods\":\"ddp\",\"seq_len\":64,\"micro_batch_size\":1}}");

    ck_assert_ptr_null(reply_at(&reply, "recommendation/launch/slurm"));
    ck_assert_ptr_nonnull(reply_at(&reply, "recommendation/launch/accelerate_config"));
    reply_done(reply);
}
END_TEST

/* accelerate makes what FSDP trains fp32 where mixed precision is on, whatever the weights were loaded in; a loop of one's own does not. */
static const struct {
    const char *tuning, *framework, *precision, *dtype;
} upcast[] = {
    {"full", "transformers", "bf16-mixed", "float32"},
    {"full", "torch", "bf16-autocast", "bfloat16"},
    {"lora", "transformers", "bf16-autocast", "bfloat16"},
};

START_TEST(half_weights_under_fsdp)
{
    struct reply reply;
    char body[512];

    (void)snprintf(body, sizeof body,
                   "{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":2},\"stack\":{\"framework\":\"%s\"},\"training\":{\"methods\":\"fsdp2\","
                   "\"seq_len\":64,\"micro_batch_size\":1,\"tuning\":\"%s\",\"precision\":\"bf16-autocast\",\"gradient_checkpointing\":false}}",
                   upcast[_i].framework, upcast[_i].tuning);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_str_eq(json_str(reply_at(&reply, "recommendation/precision")), upcast[_i].precision);
    ck_assert_str_eq(json_str(reply_at(&reply, "recommendation/launch/model_init_kwargs/dtype")), upcast[_i].dtype);
    reply_done(reply);
}
END_TEST

/* Who drives DeepSpeed's engine by hand has no TrainingArguments. */
START_TEST(an_engine_of_ones_own)
{
    struct reply reply = ask("{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":2},\"stack\":{\"framework\":\"deepspeed\"},"
                             "\"training\":{\"methods\":\"zero2\",\"seq_len\":64,\"micro_batch_size\":1}}");

    ck_assert_ptr_nonnull(reply_at(&reply, "recommendation/launch/deepspeed_config"));
    ck_assert_ptr_null(reply_at(&reply, "recommendation/launch/training_arguments"));
    ck_assert(strstr(json_str(reply_at(&reply, "recommendation/launch/command")), "torchrun"));
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/launch",
    unit_test(says_when_gradients_are_reduced); unit_rows(reduces_one_way, one_way); unit_rows(comes_back, row);
    unit_test(stands_in_the_recommendation);
    unit_test(stands_in_all_that_fit);
    unit_test(no_script_without_a_source);
    unit_rows(half_weights_under_fsdp, upcast);
    unit_test(an_engine_of_ones_own);
)
