/* stack.causal_conv1d, .mamba_ssm, .fla: named, the mixers run their kernels; where those raise or are not modelled the answer says so. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define MAMBA2(heads)                                                                                                                \
    "\"config\":{\"model_type\":\"mamba2\",\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":2,\"num_heads\":" heads "," \
    "\"head_dim\":64,\"state_size\":64,\"n_groups\":1,\"chunk_size\":64,\"expand\":2}"
#define DELTA                                                                                                                                                   \
    "\"config\":{\"model_type\":\"qwen3_5_text\",\"vocab_size\":1000,\"hidden_size\":256,\"intermediate_size\":512,\"num_hidden_layers\":4,"                       \
    "\"layer_types\":[\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\"],\"num_attention_heads\":4,\"num_key_value_heads\":2,"      \
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_dim\":64,\"linear_value_head_dim\":64,\"head_dim\":64}"
#define CONV                                                                                                                                  \
    "\"config\":{\"model_type\":\"lfm2\",\"vocab_size\":1000,\"hidden_size\":256,\"block_ff_dim\":512,\"num_hidden_layers\":3,"                  \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"full_attn_idxs\":[2],\"conv_L_cache\":3}"
#define ASK(model, training, stack) "{" model "," GPU ",\"training\":{\"precision\":\"bf16\",\"tuning\":\"full\",\"seq_len\":2048,\"micro_batch_size\":4," training "},\"stack\":{" stack "}}"
#define SINGLE "\"methods\":\"single\",\"gradient_checkpointing\":false"
#define BOTH   "\"mamba_ssm\":\"2.3\",\"causal_conv1d\":\"1.7\""

static double peak(const char *body)
{
    struct reply reply = ask(body);
    double bytes;

    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &bytes), "%s", reply.r.body);
    reply_done(reply);
    return bytes;
}

static const struct {
    const char *plain, *installed;
} taken[] = {
    {ASK(MAMBA2("8"), SINGLE, ""), ASK(MAMBA2("8"), SINGLE, BOTH)},
    {ASK(MAMBA2("8"), SINGLE, ""), ASK(MAMBA2("8"), SINGLE, "\"causal_conv1d\":\"1.4\"")},
    {ASK(DELTA, SINGLE, ""), ASK(DELTA, SINGLE, "\"fla\":\"0.6\"")},
    {ASK(CONV, SINGLE, ""), ASK(CONV, SINGLE, "\"causal_conv1d\":\"1.7.0\"")},
};

START_TEST(takes_less)
{
    double plain = peak(taken[_i].plain), installed = peak(taken[_i].installed);

    ck_assert_msg(installed < plain, "%.0f, %.0f without", installed, plain);
}
END_TEST

static const struct {
    const char *body, *says;
} said[] = {
    {ASK(MAMBA2("8"), SINGLE, ""), "mostly fewer; asked for by stack.mamba_ssm and stack.causal_conv1d"},
    {ASK(MAMBA2("8"), SINGLE, "\"causal_conv1d\":\"1.7\""), "mamba-ssm: taken as not installed"},
    {ASK(MAMBA2("8"), SINGLE, BOTH), "beside a buffer of 256 MiB"},
    {ASK(MAMBA2("8"), SINGLE, BOTH ",\"fla\":\"0.6\""), "stack.fla says nothing here: no builtin model of this type takes its kernels"},
    {ASK(MAMBA2("8"), SINGLE, "\"mamba_ssm\":\"2.2.2\",\"causal_conv1d\":\"1.7\""), "mamba_ssm 2.2 is older than the releases whose code was read"},
    {ASK(MAMBA2("8"), SINGLE, "\"mamba_ssm\":\"2.3\""), "raises without causal-conv1d: name stack.causal_conv1d too"},
    {ASK(MAMBA2("9"), SINGLE, "\"causal_conv1d\":\"1.7\""), "must be multiples of 8"},
    {ASK(MAMBA2("8"), "\"methods\":\"zero3\"", BOTH), "mamba-ssm's kernels under zero3 are not modelled yet"},
    {ASK(MAMBA2("8"), SINGLE, BOTH ",\"transformers\":\"5.10\""), "its kernels are modelled from transformers 5.15 on"},
    {"{" DELTA "," GPU ",\"workload\":\"inference\",\"stack\":{\"fla\":\"0.6\"}}", "hands back are not modelled"},
    {"{" CONV "," GPU ",\"workload\":\"inference\",\"stack\":{\"causal_conv1d\":\"1.7\"}}", "keeps for the next token is not modelled"},
};

START_TEST(says)
{
    struct reply reply = ask(said[_i].body);

    ck_assert_msg(strstr(reply.r.body, said[_i].says) != NULL, "%.900s", reply.r.body);
    reply_done(reply);
}
END_TEST

/* Whatever stands beside it: its date is nobody's. */
START_TEST(dates_nothing)
{
    struct reply reply = ask(ASK(CONV, SINGLE, "\"causal_conv1d\":\"1.4\""));

    ck_assert_str_eq(json_str(reply_at(&reply, "resolved/stack/transformers")), "5.23");
    ck_assert_str_eq(json_str(reply_at(&reply, "resolved/stack/causal_conv1d")), "1.4");
    ck_assert_ptr_null(reply_at(&reply, "resolved/stack/mamba_ssm"));
    reply_done(reply);
}
END_TEST

UNIT_TESTS("kernels", unit_rows(takes_less, taken); unit_rows(says, said); unit_test(dates_nothing);)
