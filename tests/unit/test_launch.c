/* What launch/ says of a step: each method has its words, flags and members are the same, texts are quoted, and nothing half written passes for whole. */
#include "base/json.h"
#include "catalog/clusters.h"
#include "launch/launch.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 1 << 16 };

static char room[ROOM];
static struct step step;
static struct launch_site site = {
    .partition = "gpu", .small_partition = "few", .account = "--account=<project>", .gpus = "--gres=gpu:a100:%", .options = "--exclusive;--hint=nomultithread",
    .time_limit = "1-00:00:00", .modules = "module purge;module load pytorch", .environment = "NCCL_SOCKET_IFNAME=hsn;A=b", .small_gpus = 2,
    .cpus_per_gpu = 16, .gb_per_gpu = 60, .gpus_per_node = 4,
};

static struct launch job(enum method method, uint32_t world)
{
    struct recipe *r = &step.r;

    memset(&step, 0, sizeof step);
    r->method = method;
    r->data_parallel = r->tensor_parallel = r->pipeline_parallel = 1;
    if (method_has_tensor_parallel(method))
        r->tensor_parallel = world;
    else if (method == METHOD_PP)
        r->pipeline_parallel = world;
    else
        r->data_parallel = world;
    r->shard_group = 2;
    r->seq_len_tokens = 2048;
    r->micro_batch_size = 4;
    r->gradient_accumulation_steps = 2;
    r->max_grad_norm = 1;
    r->precision = PRECISION_BF16_MIXED;
    r->gradient_checkpointing = TRI_TRUE;
    r->ddp_bucket_bytes = 25 << 20;
    r->fsdp = (struct fsdp_recipe){.wrap = FSDP_WRAP_ACCELERATE, .backward_prefetch = FSDP_PREFETCH_PRE, .reduce_dtype = REDUCE_BF16};
    r->stack = (struct stack){2015, 5023, 21, 1015, 50, 19, 2007, 8, 0, 0, 0};
    return (struct launch){.step = &step, .model = "org/model-7b", .optimizer = "adamw_torch", .attention = "sdpa", .gpus_per_node = 4};
}

static const char *text_by(void (*make)(struct buf *out, const struct launch *l), const struct launch *l)
{
    struct buf out;

    buf_init_fixed(&out, room, sizeof room);
    make(&out, l);
    ck_assert(buf_ok(&out));
    return buf_text(&out);
}

static struct json *object_of(const struct launch *l)
{
    struct buf out;
    struct jsonw w;
    struct json *doc = NULL;
    struct err err = {0};

    buf_init_fixed(&out, room, sizeof room);
    jsonw_init(&w, &out, false);
    launch_write(&w, NULL, l);
    ck_assert(jsonw_done(&w));
    ck_assert_msg(!json_parse(buf_text(&out), out.bytes, &json_limits_request, &doc, &err), "%s", err.detail);
    return doc;
}

/* A method without a row in launch/method.c is started by nobody. */
START_TEST(every_method_is_started)
{
    for (int m = 0; m < METHOD_COUNT; m++) {
        const struct launch_method *row = launch_method((enum method)m);
        struct launch l = job((enum method)m, m == METHOD_SINGLE ? 1 : 8);
        struct json *doc = object_of(&l);

        ck_assert_msg(row->launcher != LAUNCHER_NONE, "%s", method_rows[m].name);
        ck_assert_msg(strstr(json_str(json_get(doc, "command")), "train.py"), "%s", method_rows[m].name);
        ck_assert_int_eq(row->launcher == LAUNCHER_ACCELERATE, json_get(doc, "accelerate_config") != NULL);
        ck_assert_int_eq(row->engine, json_get(doc, "deepspeed_config") != NULL);
        ck_assert_int_eq(method_is_zero((enum method)m), row->engine);
        ck_assert(row->zero_stage == 0 || row->engine);
        ck_assert_int_eq(method_is_fsdp1((enum method)m) || method_is_fsdp2((enum method)m), row->fsdp_version > 0);
        json_free(doc);
    }
}
END_TEST

static const struct {
    enum method method;
    uint32_t world;
    const char *has;
} yaml[] = {
    {METHOD_DDP, 8, "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 8\n"},
    {METHOD_ZERO3, 4, "deepspeed_config:\n  deepspeed_config_file: deepspeed.json\n  deepspeed_multinode_launcher: standard\n"},
    {METHOD_FSDP_NO_SHARD, 4, "  fsdp_sharding_strategy: NO_SHARD\n"},
    {METHOD_FSDP, 4, "  fsdp_version: 1\n"},
    {METHOD_FSDP2, 4, "  fsdp_version: 2\n"},
    {METHOD_FSDP2_NORESHARD, 4, "  fsdp_reshard_after_forward: false\n"},
    {METHOD_HSDP2, 8, "  parallelism_config_dp_replicate_size: 4\n  parallelism_config_dp_shard_size: 2\n"},
    {METHOD_TP, 4, "  parallelism_config_dp_shard_size: 1\n  parallelism_config_tp_size: 4\n"},
};

START_TEST(accelerate_has)
{
    struct launch l = job(yaml[_i].method, yaml[_i].world);
    const char *text = text_by(launch_accelerate, &l);

    ck_assert_msg(strstr(text, yaml[_i].has), "%s", text);
    ck_assert_int_eq(!strstr(text, "mixed_precision"), launch_has_deepspeed(&l)); /* beside its file accelerate refuses it */
}
END_TEST

/* Each member of training_arguments is a flag of the command. */
START_TEST(flags_are_members)
{
    for (int m = 0; m < METHOD_COUNT; m++) {
        struct launch l = job((enum method)m, m == METHOD_SINGLE ? 1 : 4);
        struct json *doc = object_of(&l);
        const char *command = json_str(json_get(doc, "command"));

        json_each(argument, json_get(doc, "training_arguments")) {
            char flag[96];

            (void)snprintf(flag, sizeof flag, "\n    --%s", json_name(argument));
            ck_assert_msg(strstr(command, flag), "%s: no %s in %s", method_rows[m].name, flag, command);
        }
        json_free(doc);
    }
}
END_TEST

START_TEST(words_of_a_shell_are_quoted)
{
    struct launch l = job(METHOD_DDP, 4);

    l.revision = "it's; rm -rf $HOME";
    ck_assert_msg(strstr(text_by(launch_command, &l), "--model_revision 'it'\\''s; rm -rf $HOME' "), "%s", room);
}
END_TEST

/* Half of a node asks for its share; more than a node meets at the first. */
static const struct {
    uint32_t world;
    const char *has, *has_not;
} scripts[] = {
    {2, "#SBATCH --partition=few\n#SBATCH --nodes=1\n", "scontrol"},
    {2, "#SBATCH --cpus-per-task=32\n#SBATCH --gres=gpu:a100:2\n#SBATCH --mem=120G\n#SBATCH --exclusive\n#SBATCH --hint=nomultithread\n", "NCCL"},
    {3, "#SBATCH --partition=gpu\n", "--mem=0"},
    {4, "#SBATCH --gres=gpu:a100:4\n#SBATCH --mem=0\n", "node.sh"},
    {8, "#SBATCH --partition=gpu\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n", "--mem=240G"},
    {8, "module purge\nmodule load pytorch\nset -euo pipefail\n", NULL},
    {8, "export NCCL_SOCKET_IFNAME=hsn\nexport A=b\nMASTER_ADDR=$(scontrol show hostnames", NULL},
    {8, "export NODE_RANK=$SLURM_NODEID\naccelerate launch", NULL},
    {8, "\nEOF\n\nsrun bash node.sh\n", NULL},
};

START_TEST(scripts_have)
{
    struct launch l = job(METHOD_ZERO2, scripts[_i].world);
    const char *text;

    l.site = &site;
    text = text_by(launch_slurm, &l);
    ck_assert_msg(!strncmp(text, "#!/bin/bash\n#SBATCH --job-name=model-7b-zero2\n#SBATCH --account=<project>\n", 70), "%s", text);
    ck_assert_msg(strstr(text, scripts[_i].has), "%s", text);
    ck_assert_msg(!scripts[_i].has_not || !strstr(text, scripts[_i].has_not), "%s", text);
}
END_TEST

START_TEST(environment_as_asked)
{
    struct launch l = job(METHOD_SINGLE, 1);
    struct json *doc;

    l.expandable_segments = true;
    doc = object_of(&l);
    ck_assert_str_eq(json_str(json_get(json_get(doc, "env"), "PYTORCH_CUDA_ALLOC_CONF")), "expandable_segments:True");
    ck_assert_str_eq(json_str(json_get(json_get(doc, "env"), "CUDA_VISIBLE_DEVICES")), "0"); /* else the Trainer takes all four */
    json_free(doc);
    l = job(METHOD_DDP, 4);
    doc = object_of(&l);
    ck_assert_uint_eq(json_count(json_get(doc, "env")), 0);
    json_free(doc);
}
END_TEST

/* A plain loop is no business of accelerate's or of TrainingArguments'. */
START_TEST(a_plain_loop_is_told_in_notes)
{
    struct launch l = job(METHOD_FSDP2_NORESHARD, 4);
    struct json *doc;

    step.r.framework = FRAMEWORK_TORCH;
    doc = object_of(&l);
    ck_assert_str_eq(json_str(json_get(doc, "command")), "torchrun --standalone --nproc_per_node 4 \\\n    train.py");
    ck_assert(!json_get(doc, "training_arguments") && !json_get(doc, "accelerate_config"));
    ck_assert(strstr(room, "fully_shard(m, reshard_after_forward=False"));
    json_free(doc);
}
END_TEST

/* TrainingArguments that name DeepSpeed's file build the model within zero.Init(). */
START_TEST(zero_init_as_estimated)
{
    struct launch l = job(METHOD_ZERO3, 8);

    ck_assert(!strstr(text_by(launch_command, &l), "--deepspeed") && strstr(text_by(launch_accelerate, &l), "zero3_init_flag: false"));
    step.r.zero.zero_init = TRI_TRUE;
    ck_assert(strstr(text_by(launch_command, &l), "--deepspeed deepspeed.json") && strstr(text_by(launch_accelerate, &l), "zero3_init_flag: true"));
}
END_TEST

START_TEST(older_releases_have_older_words)
{
    struct launch l = job(METHOD_FSDP, 4);

    step.r.stack = (struct stack){2002, 4040, 10, 29, 43, 14, 2005, 6, 0, 0, 0};
    (void)text_by(launch_command, &l);
    ck_assert_msg(strstr(room, "--fsdp 'full_shard auto_wrap'") && !strstr(room, "--use_cache"), "%s", room);
    json_free(object_of(&l));
    ck_assert_msg(strstr(room, "\"torch_dtype\":\"float32\""), "%s", room);
}
END_TEST

/* Room for all, or the writer says that something is missing. */
START_TEST(fails_whole)
{
    struct launch l = job(METHOD_ZERO3, 8);
    struct buf out;
    struct jsonw w;
    size_t whole;

    l.site = &site;
    json_free(object_of(&l));
    whole = strlen(room);
    for (size_t bytes = 1; bytes <= whole; bytes += 7) {
        buf_init_fixed(&out, room, bytes);
        jsonw_init(&w, &out, false);
        launch_write(&w, NULL, &l);
        ck_assert(!jsonw_done(&w));
    }
}
END_TEST

START_TEST(every_queue_is_a_cluster)
{
    unsigned known = 0;

    for (size_t i = 0; i < cluster_count(); i++) {
        const struct slurm *s = &cluster_at(i)->slurm;

        if (!s->gpus)
            continue;
        known++;
        ck_assert_msg(s->gpus && s->account && s->cpus_per_gpu, "%s", cluster_at(i)->name);
        ck_assert_msg(s->partition || s->options, "%s", cluster_at(i)->name);
        ck_assert_int_eq(s->small_partition != NULL, s->small_gpus > 0);
    }
    ck_assert_uint_eq(known, 12);
}
END_TEST

/* Who starts it: the releases of the stack, and whether the Trainer does. */
static const struct {
    enum method method;
    release transformers, accelerate;
    enum framework framework;
    bool offered;
} offers[] = {
    {METHOD_SINGLE, 4040, 29, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_ZERO3, 4040, 29, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_FSDP, 4040, 29, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_FSDP2, 4053, 1005, FRAMEWORK_TRANSFORMERS, false},
    {METHOD_FSDP2, 4053, 1006, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_FSDP2, 4040, 29, FRAMEWORK_TORCH, true},
    {METHOD_HSDP2, 4053, 1009, FRAMEWORK_TRANSFORMERS, false},
    {METHOD_HSDP2, 5023, 1015, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_TP, 4055, 1010, FRAMEWORK_TRANSFORMERS, false},
    {METHOD_TP, 4056, 1010, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_TP, 5023, 1015, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_TP_FSDP2, 4057, 1012, FRAMEWORK_TRANSFORMERS, false},
    {METHOD_TP_FSDP2, 5023, 1015, FRAMEWORK_TRANSFORMERS, true},
    {METHOD_PP, 5023, 1015, FRAMEWORK_TRANSFORMERS, false},
    {METHOD_PP, 5023, 1015, FRAMEWORK_TORCH, false},
};

START_TEST(knows_what_is_offered)
{
    (void)job(offers[_i].method, 8);
    step.r.stack.transformers = offers[_i].transformers;
    step.r.stack.accelerate = offers[_i].accelerate;
    step.r.framework = offers[_i].framework;
    ck_assert_int_eq(launch_offers(&step), offers[_i].offered);
}
END_TEST

UNIT_TESTS("launch",
    unit_rows(knows_what_is_offered, offers); unit_test(every_method_is_started);
    unit_rows(accelerate_has, yaml);
    unit_test(flags_are_members);
    unit_test(words_of_a_shell_are_quoted);
    unit_rows(scripts_have, scripts);
    unit_test(environment_as_asked);
    unit_test(a_plain_loop_is_told_in_notes);
    unit_test(zero_init_as_estimated);
    unit_test(older_releases_have_older_words);
    unit_test(fails_whole);
    unit_test(every_queue_is_a_cluster);
)
