/* Laws of losses and kernels in the place of the model's own; their bytes beside PyTorch's are in tests/data/accuracy/kernels.jsonl and losses.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define TINY "\"config\":{\"model_type\":\"llama\",\"hidden_size\":512,\"intermediate_size\":1408,\"num_hidden_layers\":4,\"num_attention_heads\":8," \
             "\"vocab_size\":128256,\"max_position_embeddings\":8192,\"torch_dtype\":\"bfloat16\"}"

static double peak(const char *model, const char *training, unsigned seq_len)
{
    char body[900];
    struct reply reply;
    double bytes;

    (void)snprintf(body, sizeof body, "{%s,\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"precision\":\"bf16\","
                   "\"micro_batch_size\":2,\"seq_len\":%u%s}}", model, seq_len, training);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &bytes), "%s: %s", body, reply.r.body);
    reply_done(reply);
    return bytes;
}

/* Rows of a few bytes a token, and what a block was not split off for. */
#define NEARLY(bytes) ((bytes) * 1.001)

/* Of a wide vocabulary: the whole logits, eight chunks of them with their fp32 copies, a chunk at a time, none. */
START_TEST(smaller_chunks_hold_less)
{
    for (unsigned seq_len = 512; seq_len <= 4096; seq_len *= 2) {
        double hf = peak(TINY, "", seq_len), chunked = peak(TINY, ",\"loss\":\"chunked\"", seq_len), liger = peak(TINY, ",\"loss\":\"liger\"", seq_len),
               cut = peak(TINY, ",\"loss\":\"cut_cross_entropy\"", seq_len);

        ck_assert_msg(cut <= NEARLY(liger) && liger <= chunked && chunked <= hf, "%u: %.0f %.0f %.0f %.0f", seq_len, cut, liger, chunked, hf);
    }
}
END_TEST

/* What a kernel writes over, nobody keeps: none ever holds more. */
static const char *const kernels[] = {"rope", "rms_norm", "swiglu", "cross_entropy", "fused_linear_cross_entropy"};

START_TEST(a_kernel_never_holds_more)
{
    char training[120];
    double without = peak(TINY, "", 1024), with;

    (void)snprintf(training, sizeof training, ",\"liger_kernels\":[\"%s\"]", kernels[_i]);
    with = peak(TINY, training, 1024);
    ck_assert_msg(with <= NEARLY(without), "%s: %.0f, without %.0f", kernels[_i], with, without);
}
END_TEST

/* A matrix has a row and a column of second moments. */
START_TEST(factored_states_hold_less)
{
    double adam = peak(TINY, "", 512), factored = peak(TINY, ",\"optimizer\":\"adafactor\"", 512);

    ck_assert_msg(factored < adam, "%.0f, AdamW %.0f", factored, adam);
}
END_TEST

/* Of each pair the first keeps less of a model whose weights are in half: fewer bits, fewer states, pages on the host. */
static const struct leaner {
    const char *less, *more;
} leaner[] = {
    {"adamw_bnb_8bit", "adamw_torch"},      {"adamw_torch_8bit", "adamw_torch"}, {"ademamix_8bit", "ademamix"},
    {"adamw_bnb_8bit", "ademamix_8bit"},    {"lion_8bit", "adamw_bnb_8bit"},          {"rmsprop", "adamw_torch"},          {"schedule_free_sgd", "schedule_free_adamw"},
    {"paged_ademamix_8bit", "ademamix_8bit"}, {"adamw_torch_fused", "adamw_torch"},   {"muon", "adamw_torch"},             {"sgd", "schedule_free_sgd"},
};

static double peak_under(const char *optimizer)
{
    char training[120];

    (void)snprintf(training, sizeof training, ",\"precision\":\"bf16\",\"optimizer\":\"%s\"", optimizer);
    return peak(TINY, training, 64);
}

START_TEST(a_leaner_optimizer_holds_less)
{
    double less = peak_under(leaner[_i].less), more = peak_under(leaner[_i].more);

    ck_assert_msg(less < more, "%s: %.0f, %s: %.0f", leaner[_i].less, less, leaner[_i].more, more);
}
END_TEST

/* torchao: 4 bits rest lower, and stand higher while the widest parameter is updated, by what Inductor's code holds: both states scaled in fp32, their codes in eight
 * bytes, the maxima of 256 each. A block more is the gradients' norm, which the loop keeps. */
static double part_of(const char *optimizer, const char *part, const char *method)
{
    char body[900], at[120];
    struct reply reply;
    double bytes;

    (void)snprintf(body, sizeof body,
                   "{%s,\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"%s\",\"tuning\":\"full\",\"precision\":\"bf16\","
                   "\"micro_batch_size\":1,\"seq_len\":64,\"optimizer\":\"%s\"}}",
                   TINY, method, optimizer);
    (void)snprintf(at, sizeof at, "recommendation/memory/breakdown_bytes/%s", part);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, at), &bytes), "%s: %s", body, reply.r.body);
    reply_done(reply);
    return bytes;
}

static const struct {
    const char *method;
    double ranks;
} updated[] = {{"single", 1}, {"ddp", 1}, {"fsdp2", 2}};

START_TEST(states_of_4_bits_are_updated_wide)
{
    double widest = 128256 * 512.0 / updated[_i].ranks, beside = part_of("adamw_torch_4bit", "temporaries", updated[_i].method);
    double four = part_of("adamw_torch_4bit", "optimizer_states", updated[_i].method);

    ck_assert_msg(beside == widest * 24 + widest / 256 * 8 + 512, "%s: %.0f", updated[_i].method, beside);
    ck_assert(four < 0.55 * part_of("adamw_torch_8bit", "optimizer_states", updated[_i].method));
}
END_TEST

/* Activations on the host: never more on the GPU, with checkpoints neither. */
static const char *const checkpoints[] = {"false", "true"};

START_TEST(activations_on_the_host_hold_less)
{
    char without[120], with[160];
    double here, there;

    (void)snprintf(without, sizeof without, ",\"gradient_checkpointing\":%s", checkpoints[_i]);
    (void)snprintf(with, sizeof with, "%s,\"offload\":\"activations\"", without);
    for (unsigned seq_len = 512; seq_len <= 4096; seq_len *= 4) {
        here = peak(TINY, without, seq_len);
        there = peak(TINY, with, seq_len);
        ck_assert_msg(there <= NEARLY(here), "%u: %.0f, on the GPU %.0f", seq_len, there, here);
    }
}
END_TEST

/*
 * What lies on the host of a rank: the same activations under each method, and where the model was wrapped after the context was made, the weights that linears save as views: two
 * bytes an element of query, key, value, output and the MLP's three. Conv1D saves the parameter itself.
 */
#define LINEARS (4.0 * (4 * 512 * 512 + 3 * 512 * 1408))

static double on_the_host(const char *method)
{
    char body[900];
    struct reply reply;
    double bytes;

    (void)snprintf(body, sizeof body,
                   "{%s,\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"%s\",\"tuning\":\"full\",\"precision\":\"bf16\","
                   "\"micro_batch_size\":1,\"seq_len\":512,\"offload\":\"activations\",\"gradient_checkpointing\":false}}", TINY, method);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/host_bytes_per_node"), &bytes), "%s: %s", body, reply.r.body);
    reply_done(reply);
    return bytes / 2;
}

static const char *const wrapped_later[] = {"zero1", "zero2", "fsdp2"};

START_TEST(weights_that_moved_go_to_the_host_too)
{
    double here = on_the_host("ddp"), there = on_the_host(wrapped_later[_i]);

    ck_assert_msg(there - here == LINEARS * 2, "%s: %.0f, ddp %.0f", wrapped_later[_i], there, here);
}
END_TEST

/* Adafactor of a flat shard has a number an element, half of AdamW's two; of whole matrices a row and a column. */
static double rests(const char *method, const char *optimizer)
{
    char body[900];
    struct reply reply;
    double bytes;

    (void)snprintf(body, sizeof body, "{%s,\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"%s\",\"tuning\":\"full\","
                   "\"precision\":\"bf16-mixed\",\"micro_batch_size\":1,\"seq_len\":64,\"optimizer\":\"%s\"}}", TINY, method, optimizer);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/resting_bytes"), &bytes), "%s: %s", body, reply.r.body);
    reply_done(reply);
    return bytes;
}

static const char *const flat_shards[] = {"zero1", "zero2", "zero3", "fsdp"};

START_TEST(flat_shards_are_not_factored)
{
    double none = rests(flat_shards[_i], "sgd"), two = rests(flat_shards[_i], "adamw_torch") - none, one = rests(flat_shards[_i], "adafactor") - none;

    ck_assert_msg(one > 0.49 * two && one < 0.51 * two, "%s: %.0f, AdamW %.0f", flat_shards[_i], one, two);
    ck_assert(rests("ddp", "adafactor") - rests("ddp", "sgd") < 0.1 * two);
}
END_TEST

/* What PyTorch itself raises for. */
static const struct {
    const char *method, *optimizer, *says;
} raised[] = {
    {"fsdp2", "adamw_bnb_8bit", "sharding strategy"}, {"hsdp2", "paged_adamw_32bit", "sharding strategy"}, {"tp", "lion_32bit", "illegal memory access"},
    {"fsdp2", "adafactor", "mixed torch.Tensor and DTensor"}, {"fsdp", "muon", "matrices alone"}, {"zero2", "muon", "Client Optimizer"},
    {"zero1", "adagrad", "list index out of range"}, {"hsdp2", "muon", "mesh of one dimension"},
};

START_TEST(an_optimizer_that_raises_is_refused)
{
    char body[900];
    struct reply reply;
    const char *detail;

    (void)snprintf(body, sizeof body, "{%s,\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"%s\",\"tuning\":\"full\","
                   "\"precision\":\"bf16-mixed\",\"micro_batch_size\":1,\"seq_len\":64,\"optimizer\":\"%s\"}}", TINY, raised[_i].method, raised[_i].optimizer);
    reply = ask(body);
    detail = reply_text(&reply, "detail");
    ck_assert_msg(reply.r.status == 422 && detail && strstr(detail, raised[_i].says) && strstr(detail, raised[_i].method), "%s: %s", body, reply.r.body);
    reply_done(reply);
}
END_TEST

/* The auxiliary loss is of each layer's router logits, which a wrapper takes one by one: as many as layers, beside what the script holds by then. */
static const struct {
    const char *method;
    unsigned layers;
} routed[] = {{"ddp", 36}, {"ddp", 48}, {"ddp", 100}, {"zero3", 48}, {"zero3", 100}};

START_TEST(router_logits_of_many_layers_go_through_the_wrapper)
{
    char body[900];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"config\":{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"intermediate_size\":64,\"moe_intermediate_size\":64,\"num_attention_heads\":4,"
                   "\"num_key_value_heads\":2,\"num_hidden_layers\":%u,\"num_experts\":4,\"num_experts_per_tok\":2,\"vocab_size\":100,"
                   "\"output_router_logits\":true},\"cluster\":{\"gpu\":\"H200\",\"gpus_per_node\":2},\"training\":{\"methods\":\"%s\",\"tuning\":\"full\","
                   "\"seq_len\":16,\"micro_batch_size\":1,\"gradient_checkpointing\":false}}",
                   routed[_i].layers, routed[_i].method);
    reply = ask(body);
    ck_assert_msg(reply_at(&reply, "recommendation/memory/peak_allocated_bytes") != NULL, "%s: %s", body, reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("losses", unit_rows(router_logits_of_many_layers_go_through_the_wrapper, routed);
           unit_rows(flat_shards_are_not_factored, flat_shards); unit_rows(an_optimizer_that_raises_is_refused, raised);
           unit_test(smaller_chunks_hold_less); unit_rows(a_kernel_never_holds_more, kernels); unit_test(factored_states_hold_less);
           unit_rows(a_leaner_optimizer_holds_less, leaner); unit_rows(states_of_4_bits_are_updated_wide, updated); unit_rows(activations_on_the_host_hold_less, checkpoints);
           unit_rows(weights_that_moved_go_to_the_host_too, wrapped_later);)
