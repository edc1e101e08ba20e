/*
 * LLMem's reference values, term by term, for models of the catalogue through the adapter; Algorithm 1; laws.
 *
 *     LLMEMD_PRINT=1 build/tests/unit/test_llmem      prints what it computes beside each reference
 */
#include "tests/support/programs.h"
#include "base/json.h"
#include "config/arch.h"
#include "llmem/chunks.h"
#include "plan/baseline.h"
#include "tests/support/carried.h"
#include "tests/support/unit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 32 << 20 };

#define MIB(n) ((uint64_t)(n) << 20)
#define FOR_EVER (UINT64_MAX / 2)

static const char llama_7b[] = "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096,"
                               "\"intermediate_size\": 11008, \"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"vocab_size\": 32000}";

static void say(const char *fmt, ...) PRINTF(1, 2);

static void say(const char *fmt, ...)
{
    va_list args;

    if (!getenv("LLMEMD_PRINT"))
        return;
    va_start(args, fmt);
    (void)vprintf(fmt, args);
    va_end(args);
    (void)fflush(stdout);
}

/* A config of the catalogue, or the text itself; the strings of `ret` live in the arena. */
static void load(const char *id, struct arena *a, struct arch *ret)
{
    const struct builtin *b = builtin_find(id);
    const char *text = b ? carried_text(b) : id;
    struct json *config = NULL;
    struct err err = {0};

    ck_assert_msg(!json_parse(text, strlen(text), &json_limits_config, &config, &err), "%s: %s", id, err.detail);
    ck_assert_msg(!arch_read(config, a, ret, &err), "%s: %s %s", id, err.at, err.detail);
    json_free(config);
}

static struct llmem_answer ask(const char *id, struct baseline_question q)
{
    static unsigned char block[ROOM];
    struct llmem_answer answer;
    struct err err = {0};
    unsigned char *mark;
    struct arch arch;
    struct arena a;

    arena_init(&a, block, sizeof block);
    load(id, &a, &arch);
    q.arch = &arch;
    q.model_id = builtin_find(id) ? id : NULL;
    if (!q.seq_len_tokens)
        q.seq_len_tokens = 512;
    mark = a.cur;
    ck_assert_msg(!baseline_answer(&q, &a, &answer, &err), "%s: %s", id, err.detail);
    ck_assert_ptr_eq(a.cur, mark);
    return answer;
}

static uint64_t mib(uint64_t bytes)
{
    ck_assert_msg(bytes % MIB(1) == 0, "%llu bytes are no whole MiB", (unsigned long long)bytes);
    return bytes >> 20;
}

static void same(const char *model, const char *what, uint64_t got, uint64_t expected)
{
    say("  %-28s %12llu  (reference %llu)\n", what, (unsigned long long)got, (unsigned long long)expected);
    ck_assert_msg(got == expected, "%s: %s is %llu, not %llu", model, what, (unsigned long long)got, (unsigned long long)expected);
}

/* --- one GPU: 512 tokens, 8 sequences, base excluded ------------------------------------------------------------------------ */

struct single {
    const char *id;
    uint64_t cs_elems, n_chunks, m_p, chunks, m_os, m_out, m_logits, lm_p_bytes, repo_os, repo_lm_p, repo_out;
};

// clang-format off
static const struct single singles[] = {
    {"facebook/opt-125m",             44101632,  3,  726,  768,   956,  84, 1178,  77217792,  1464,  74,  84},
    {"facebook/opt-350m",             44088320,  8, 1914, 2048,  2526, 208, 1178,  51478528,  3108,  50, 196},
    {"bigscience/bloom-560m",         50385920,  7, 3200, 3222,  4264, 200, 5876, 513802240,  4648, 490, 208},
    {"Salesforce/codegen-350M-mono",  63001600,  6, 1742, 2184,  2720, 168, 2400, 104857600,  2880,   2, 176},
    {"facebook/opt-1.3b",             33574912, 38, 7698, 7844, 10034, 416, 1178, 205914112, 10616, 198, 416},
};
// clang-format on

static struct llmem_method_answer single(const char *id, enum llmem_variant variant)
{
    struct baseline_question q = {.variant = variant, .gpus = 1, .micro_batch_size = 8, .capacity_bytes = FOR_EVER};

    return ask(id, q).methods[LLMEM_CDP];
}

START_TEST(meets_the_terms_of_one_gpu)
{
    const struct single *s = &singles[_i];
    struct llmem_method_answer paper = single(s->id, LLMEM_PAPER), repo = single(s->id, LLMEM_REPOSITORY);

    say("%s\n", s->id);
    same(s->id, "cs_elems", paper.terms.cs_elems, s->cs_elems);
    same(s->id, "n_chunks", paper.terms.n_chunks, s->n_chunks);
    same(s->id, "m_p, paper", mib(paper.terms.m_p16_bytes + paper.terms.m_p32_bytes), s->m_p);
    same(s->id, "chunks, simulated", mib(repo.terms.m_p16_bytes + repo.terms.m_p32_bytes), s->chunks);
    same(s->id, "m_os, paper", mib(paper.terms.m_os_bytes), s->m_os);
    same(s->id, "m_out, paper", mib(paper.terms.m_out_bytes), s->m_out);
    same(s->id, "m_logits", mib(paper.terms.m_logits_bytes), s->m_logits);
    same(s->id, "m_logits, repository", mib(repo.terms.m_logits_bytes), s->m_logits);
    same(s->id, "lm_p bytes", paper.terms.lm_p_bytes, s->lm_p_bytes);
    same(s->id, "states, repository", mib(repo.terms.m_os_bytes), s->repo_os);
    same(s->id, "lm_p, repository", mib(repo.terms.lm_p_bytes), s->repo_lm_p);
    same(s->id, "m_out, repository", mib(repo.terms.m_out_bytes), s->repo_out);
    ck_assert_uint_eq(repo.terms.cs_elems, s->cs_elems);
    ck_assert_uint_eq(repo.terms.n_chunks, s->n_chunks);
    ck_assert_uint_eq(paper.terms.m_gather_bytes + paper.terms.m_back_bytes + paper.terms.m_in_bytes, 0);
}
END_TEST

START_TEST(adds_a_checkpoint_for_each_embedding_layer)
{
    /* the other column of the references: e_n = 1 where it is 2, and the other way round */
    static const uint64_t one[] = {78, 200, 200, 168, 400}, two[] = {84, 208, 208, 176, 416};
    static const bool has_positions[] = {true, true, false, false, true};

    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(mib(single(singles[i].id, LLMEM_PAPER).terms.m_out_bytes), has_positions[i] ? two[i] : one[i]);
}
END_TEST

/* --- four GPUs: facebook/opt-1.3b, 8 sequences, the repository's formula ---------------------------------------------------- */

static const struct spread {
    uint32_t gpus;
    enum llmem_method method;
    uint64_t chunks, gather, m_os, lm_p, m_in, m_out, m_logits, m_back, total;
} spreads[] = {
    {1, LLMEM_CDP, 7844, 0, 10616, 198, 2, 416, 1178, 0, 20254},
    {4, LLMEM_ADP, 2074, 2174, 3092, 198, 2, 416, 1178, 0, 9134},
    {4, LLMEM_DPTP, 2024, 918, 3092, 198, 2, 416, 1178, 184, 8012},
    {4, LLMEM_TP, 2086, 0, 3092, 198, 2, 416, 1178, 276, 7248},
};

START_TEST(meets_the_terms_of_four_gpus)
{
    const struct spread *s = &spreads[_i];
    struct baseline_question q = {.variant = LLMEM_REPOSITORY, .gpus = s->gpus, .micro_batch_size = 8, .capacity_bytes = FOR_EVER};
    struct llmem_method_answer m = ask("facebook/opt-1.3b", q).methods[s->method];
    const char *name = llmem_method_name(s->method);

    say("facebook/opt-1.3b, %s on %u GPUs\n", name, s->gpus);
    same(name, "chunks", mib(m.terms.m_p16_bytes + m.terms.m_p32_bytes), s->chunks);
    same(name, "gather", mib(m.terms.m_gather_bytes), s->gather);
    same(name, "states", mib(m.terms.m_os_bytes), s->m_os);
    same(name, "lm_p", mib(m.terms.lm_p_bytes), s->lm_p);
    same(name, "m_in", mib(m.terms.m_in_bytes), s->m_in);
    same(name, "m_out", mib(m.terms.m_out_bytes), s->m_out);
    same(name, "m_logits", mib(m.terms.m_logits_bytes), s->m_logits);
    same(name, "m_back", mib(m.terms.m_back_bytes), s->m_back);
    same(name, "total", mib(m.peak_bytes), s->total);
}
END_TEST

/* --- Algorithm 1: base 600 MiB, capacity 16,384 MiB, four GPUs -------------------------------------------------------------- */

/* bs and score of CDP, ADP, DP+TP, TP in the references' columns. gpt-neo-1.3B: the reference has 26 and 52 under DP+TP, because it
 * laid out the chunks with OPT's order, final norm first; see the test below. codegen-2B-multi has the shapes of -nl. */
static const struct choice {
    const char *id;
    uint32_t cdp, adp, dptp, tp;
    double adp_score, dptp_score, tp_score;
    enum llmem_method best;
} choices[] = {
    {"facebook/opt-1.3b", 0, 41, 42, 44, 164, 84, 44, LLMEM_ADP},
    {"facebook/opt-2.7b", 0, 2, 12, 17, 8, 24, 17, LLMEM_DPTP},
    {"bigscience/bloom-1b1", 0, 11, 12, 13, 44, 24, 13, LLMEM_ADP},
    {"bigscience/bloom-3b", 0, 0, 2, 4, 0, 4, 4, LLMEM_TP},
    {"microsoft/BioGPT-Large", 0, 20, 23, 27, 80, 46, 27, LLMEM_ADP},
    {"Salesforce/codegen-2B-multi", 0, 3, 9, 12, 12, 18, 12, LLMEM_DPTP},
    {"bigcode/gpt_bigcode-santacoder", 0, 47, 47, 48, 188, 94, 48, LLMEM_ADP},
    {"EleutherAI/gpt-neo-1.3B", 0, 25, 27, 28, 100, 54, 28, LLMEM_ADP},
    {llama_7b, 0, 0, 0, 0, 0, 0, 0, LLMEM_OFFLOAD},
};

static const struct baseline_question v100s = {
    .variant = LLMEM_REPOSITORY,
    .gpus = 4,
    .base_bytes = MIB(600),
    .capacity_bytes = MIB(16384),
};

static void print_choice(const struct choice *c, const struct llmem_answer *a)
{
    say("%s\n ", c->id);
    for (int i = 0; i < LLMEM_METHODS; i++)
        say(" %s bs %u score %.1f,", llmem_method_name((enum llmem_method)i), a->methods[i].max_micro_batch_size, a->methods[i].evaluation);
    say(" chosen %s\n", llmem_method_name(a->method));
}

START_TEST(chooses_as_algorithm_1)
{
    const struct choice *c = &choices[_i];
    struct llmem_answer a = ask(c->id, v100s);
    const struct llmem_method_answer *m = a.methods;

    print_choice(c, &a);
    ck_assert_uint_eq(m[LLMEM_CDP].max_micro_batch_size, c->cdp);
    ck_assert_uint_eq(m[LLMEM_ADP].max_micro_batch_size, c->adp);
    ck_assert_uint_eq(m[LLMEM_DPTP].max_micro_batch_size, c->dptp);
    ck_assert_uint_eq(m[LLMEM_TP].max_micro_batch_size, c->tp);
    ck_assert_double_eq(m[LLMEM_ADP].evaluation, c->adp_score);
    ck_assert_double_eq(m[LLMEM_DPTP].evaluation, c->dptp_score);
    ck_assert_double_eq(m[LLMEM_TP].evaluation, c->tp_score);
    ck_assert_str_eq(llmem_method_name(a.method), llmem_method_name(c->best));
    ck_assert_uint_eq(a.micro_batch_size, c->best == LLMEM_OFFLOAD ? 0 : m[c->best].max_micro_batch_size);
}
END_TEST

/* The references say 26, with the final norm before the layers. GPT-Neo registers ln_f after them (modeling_gpt_neo.py): 27. */
START_TEST(gpt_neo_meets_the_reference_in_its_order)
{
    static unsigned char block[ROOM];
    struct llmem_question q = {.variant = LLMEM_REPOSITORY, .seq_len_tokens = 512, .gpus = 4,
                               .base_bytes = LLMEM_DEFAULT_BASE_BYTES, .capacity_bytes = MIB(16384)};
    struct llmem_tensor *t, norm[2];
    struct llmem_answer a;
    struct err err = {0};
    struct arch arch;
    struct arena arena;

    arena_init(&arena, block, sizeof block);
    load("EleutherAI/gpt-neo-1.3B", &arena, &arch);
    ck_assert(!baseline_model(&arch, "EleutherAI/gpt-neo-1.3B", &arena, &q.model, &err));
    t = arena_array(&arena, struct llmem_tensor, q.model.n);
    memcpy(t, q.model.tensors, q.model.n * sizeof *t);
    ck_assert(t[1].kind == LLMEM_EMBEDDING && t[q.model.n - 1].lm_head && t[q.model.n - 3].kind == LLMEM_OTHER);
    memcpy(norm, &t[q.model.n - 3], sizeof norm);
    memmove(&t[4], &t[2], (q.model.n - 5) * sizeof *t);
    memcpy(&t[2], norm, sizeof norm);
    q.model.tensors = t;
    llmem_answer(&q, &a);
    ck_assert_uint_eq(a.methods[LLMEM_ADP].max_micro_batch_size, 25);
    ck_assert_uint_eq(a.methods[LLMEM_DPTP].max_micro_batch_size, 26);
    ck_assert_double_eq(a.methods[LLMEM_DPTP].evaluation, 52);
    ck_assert_uint_eq(a.methods[LLMEM_TP].max_micro_batch_size, 28);
}
END_TEST

/* An independent run of LLMem printed 304.65 MiB a sequence; the formula has 304.59. */
START_TEST(gpt_neo_125m_grows_by_the_slope)
{
    struct baseline_question q = {.variant = LLMEM_REPOSITORY, .gpus = 1, .capacity_bytes = FOR_EVER, .micro_batch_size = 1024};
    uint64_t many = ask("EleutherAI/gpt-neo-125m", q).methods[LLMEM_CDP].peak_bytes, few;
    double slope;

    q.micro_batch_size = 512;
    few = ask("EleutherAI/gpt-neo-125m", q).methods[LLMEM_CDP].peak_bytes;
    slope = (double)(many - few) / 512 / MIB(1);
    say("EleutherAI/gpt-neo-125m: %.3f MiB a sequence (reference 304.59)\n", slope);
    ck_assert_double_eq_tol(slope, 304.59, 0.005);
}
END_TEST

/* --- what an answer holds ------------------------------------------------------------------------------------------------------ */

static uint64_t sum_of(const struct llmem_terms *t)
{
    return t->m_base_bytes + t->m_p16_bytes + t->m_p32_bytes + t->m_gather_bytes + t->m_os_bytes + t->lm_p_bytes + t->m_in_bytes +
           t->m_out_bytes + t->m_logits_bytes + t->m_back_bytes;
}

START_TEST(the_paper_divides_as_its_equations)
{
    struct baseline_question q = {.gpus = 4, .micro_batch_size = 8, .base_bytes = MIB(600), .capacity_bytes = FOR_EVER};
    struct llmem_answer a = ask("facebook/opt-1.3b", q);
    uint64_t p16 = MIB(7698) / 3, states = (MIB(7698) - p16 + MIB(10034)) / 4, batch = MIB(416 + 1178) + 205914112;
    uint64_t back4 = MIB(24 * 8 * 512 / 1024 * 2 * 2 * 3 / 4), back2 = MIB(24 * 8 * 512 / 1024 * 2 * 2 / 2);

    ck_assert_uint_eq(a.methods[LLMEM_CDP].peak_bytes, MIB(600 + 7698 + 10034) + batch);
    ck_assert_uint_eq(a.methods[LLMEM_ADP].peak_bytes, MIB(600) + p16 + states + batch);
    ck_assert_uint_eq(a.methods[LLMEM_TP].peak_bytes, MIB(600) + p16 / 4 + states + batch + back4);
    ck_assert_uint_eq(a.methods[LLMEM_DPTP].peak_bytes, a.methods[LLMEM_ADP].peak_bytes - p16 / 2 + back2);
    for (int i = 0; i < LLMEM_METHODS; i++)
        ck_assert_uint_eq(sum_of(&a.methods[i].terms), a.methods[i].peak_bytes);
    ck_assert(!a.methods[LLMEM_DPTP].beyond_paper);
}
END_TEST

START_TEST(gives_the_peak_of_the_asked_batch_beside_the_chosen_one)
{
    struct baseline_question q = v100s;
    struct llmem_answer chosen = ask("facebook/opt-1.3b", q), asked;

    q.micro_batch_size = 8;
    asked = ask("facebook/opt-1.3b", q);
    ck_assert_uint_eq(asked.micro_batch_size, 41);
    ck_assert_uint_eq(asked.peak_bytes, MIB(600 + 9134));
    ck_assert_uint_eq(chosen.peak_bytes, chosen.methods[LLMEM_ADP].peak_bytes);
    ck_assert_uint_eq(chosen.methods[LLMEM_ADP].peak_micro_batch_size, 41);
    ck_assert_uint_le(chosen.peak_bytes, MIB(16384));
    ck_assert_str_eq(llmem_variant_name(asked.variant), "repository");
    q.variant = LLMEM_PAPER;
    ck_assert_str_eq(llmem_variant_name(ask("facebook/opt-1.3b", q).variant), "paper");
}
END_TEST

START_TEST(offload_names_the_lowest_peak)
{
    struct baseline_question q = v100s;
    struct llmem_answer a = ask(llama_7b, q);

    ck_assert_str_eq(llmem_method_name(a.method), "offload");
    ck_assert_uint_eq(a.micro_batch_size, 0);
    ck_assert_uint_eq(a.peak_bytes, a.methods[LLMEM_TP].peak_bytes);
    ck_assert_uint_eq(a.methods[LLMEM_TP].peak_micro_batch_size, 1);
    ck_assert_uint_gt(a.peak_bytes, MIB(16384));
    ck_assert_uint_lt(a.peak_bytes, a.methods[LLMEM_ADP].peak_bytes);
    q.left_out[LLMEM_DPTP] = true; /* what is absent has no peak */
    ck_assert_uint_eq(ask(llama_7b, q).peak_bytes, a.peak_bytes);
}
END_TEST

START_TEST(the_last_byte_of_the_capacity_counts)
{
    for (uint32_t batch = 1; batch <= 8; batch++) {
        struct baseline_question q = {.gpus = 2, .micro_batch_size = batch, .capacity_bytes = FOR_EVER};

        q.capacity_bytes = ask("facebook/opt-125m", q).methods[LLMEM_CDP].peak_bytes;
        ck_assert_uint_eq(ask("facebook/opt-125m", q).methods[LLMEM_CDP].max_micro_batch_size, batch);
        q.capacity_bytes--;
        ck_assert_uint_eq(ask("facebook/opt-125m", q).methods[LLMEM_CDP].max_micro_batch_size, batch - 1);
    }
}
END_TEST

START_TEST(cdp_has_its_bonus)
{
    struct baseline_question q = {.gpus = 4, .base_bytes = MIB(600), .capacity_bytes = MIB(16384)};
    struct llmem_answer a = ask("facebook/opt-125m", q);
    const struct llmem_method_answer *cdp = &a.methods[LLMEM_CDP];

    ck_assert_int_eq(a.method, LLMEM_CDP);
    ck_assert_double_eq(cdp->evaluation, 6.0 * cdp->max_micro_batch_size);
    ck_assert_uint_eq(cdp->dp, 4);
    ck_assert_uint_eq(cdp->tp, 1);
}
END_TEST

/* Conv1D is no Linear: of gpt2 the estimator sees the embeddings' states alone. A classifier's config means the causal model. */
START_TEST(sees_what_the_estimator_sees)
{
    static const char causal[] = "{\"model_type\": \"llama\", \"hidden_size\": 512, \"intermediate_size\": 2048, \"num_attention_heads\": 8,"
                                 "\"num_hidden_layers\": 16, \"vocab_size\": 32000, \"architectures\": [\"LlamaForCausalLM\"]}";
    static const char classifier[] = "{\"model_type\": \"llama\", \"hidden_size\": 512, \"intermediate_size\": 2048, \"num_attention_heads\": 8,"
                                     "\"num_hidden_layers\": 16, \"vocab_size\": 32000, \"architectures\": [\"LlamaForSequenceClassification\"]}";
    struct baseline_question q = {.gpus = 1, .micro_batch_size = 1, .capacity_bytes = FOR_EVER};
    uint64_t states = UINT64_C(8) * (50257 + 1024) * 768;

    ck_assert_uint_eq(ask("openai-community/gpt2", q).methods[LLMEM_CDP].terms.m_os_bytes, (states + MIB(2) - 1) / MIB(2) * MIB(2));
    ck_assert_uint_eq(ask(classifier, q).peak_bytes, ask(causal, q).peak_bytes);
}
END_TEST

START_TEST(leaves_out_what_was_not_asked)
{
    struct baseline_question q = v100s;
    struct llmem_answer a;

    q.left_out[LLMEM_ADP] = q.left_out[LLMEM_DPTP] = true;
    a = ask("facebook/opt-1.3b", q);
    ck_assert_uint_eq(LLMEM_DEFAULT_BASE_BYTES, MIB(600));
    ck_assert_int_eq(a.method, LLMEM_TP);
    ck_assert_ptr_nonnull(a.methods[LLMEM_ADP].absent);
    ck_assert_uint_eq(a.methods[LLMEM_ADP].peak_bytes, 0);
}
END_TEST

static const struct undefined {
    uint32_t gpus, tensor_parallel;
    bool tp, dptp;             /* absent */
    uint32_t dp_degree, tp_degree; /* of DP+TP */
    bool beyond;
} undefined[] = {
    {1, 0, false, true, 0, 0, false},  {2, 0, false, true, 0, 0, false}, {3, 0, true, true, 0, 0, false}, {4, 0, false, false, 2, 2, false},
    {4, 4, false, true, 0, 0, false},  {4, 8, false, true, 0, 0, false}, {4, 1, false, true, 0, 0, false}, {6, 0, true, false, 3, 2, true},
    {8, 0, false, false, 4, 2, true},  {8, 4, false, false, 2, 4, true}, {9, 3, true, true, 0, 0, false},  {9, 2, true, true, 0, 0, false},
};

START_TEST(a_split_without_an_equation_is_absent)
{
    const struct undefined *u = &undefined[_i];
    struct baseline_question q = {.gpus = u->gpus, .tensor_parallel = u->tensor_parallel, .capacity_bytes = FOR_EVER, .micro_batch_size = 1};
    struct llmem_answer a = ask("facebook/opt-1.3b", q);
    const struct llmem_method_answer *m = &a.methods[LLMEM_DPTP];

    ck_assert_int_eq(a.methods[LLMEM_TP].absent != NULL, u->tp);
    ck_assert_int_eq(m->absent != NULL, u->dptp);
    ck_assert_uint_eq(m->dp, u->dp_degree);
    ck_assert_uint_eq(m->tp, u->tp_degree);
    ck_assert_int_eq(m->beyond_paper, u->beyond);
    ck_assert_ptr_null(a.methods[LLMEM_CDP].absent);
    ck_assert_ptr_null(a.methods[LLMEM_ADP].absent);
}
END_TEST

START_TEST(the_repository_reads_the_name_and_the_paper_the_code)
{
    static const struct {
        const char *id;
        bool paper, repository;
    } rows[] = {
        {"EleutherAI/gpt-neo-1.3B", true, true}, {"Salesforce/codegen-350M-mono", true, true},       {"PygmalionAI/pygmalion-6b", true, false},
        {"facebook/opt-125m", false, false},     {"rinna/japanese-gpt-neox-3.6b", false, true}, {"EleutherAI/pythia-70m", false, false},
    };

    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int v = LLMEM_PAPER; v <= LLMEM_REPOSITORY; v++) {
            static unsigned char block[ROOM];
            struct llmem_model m;
            struct err err = {0};
            struct arch arch;
            struct arena a;

            arena_init(&a, block, sizeof block);
            load(rows[i].id, &a, &arch);
            ck_assert_msg(!baseline_model(&arch, rows[i].id, &a, &m, &err), "%s", err.detail);
            ck_assert_msg(m.logits_fp32[v] == (v == LLMEM_PAPER ? rows[i].paper : rows[i].repository), "%s, %s", rows[i].id,
                          llmem_variant_name((enum llmem_variant)v));
        }
}
END_TEST

/* opt-350m under TP: project_out is gathered too (size_estimator.py get_output_sizes) */
START_TEST(a_projection_is_gathered_backward)
{
    struct baseline_question q = {.variant = LLMEM_REPOSITORY, .gpus = 4, .micro_batch_size = 8, .capacity_bytes = FOR_EVER};
    struct llmem_answer a = ask("facebook/opt-350m", q);

    ck_assert_uint_eq(mib(a.methods[LLMEM_TP].terms.m_back_bytes), 23 * 6 + 4);
    ck_assert_uint_eq(mib(a.methods[LLMEM_DPTP].terms.m_back_bytes), 23 * 4 + 2);
}
END_TEST

/* Less than 33,554,432 elements: one chunk of the model's size, kept whole on each GPU. */
START_TEST(a_small_model_stays_gathered)
{
    static const char tiny[] = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 1024, \"num_attention_heads\": 4,"
                               "\"num_hidden_layers\": 4, \"vocab_size\": 32000}";
    struct baseline_question q = {.variant = LLMEM_REPOSITORY, .gpus = 4, .micro_batch_size = 1, .capacity_bytes = FOR_EVER};
    struct llmem_answer a = ask(tiny, q);
    uint64_t elems = 2 * 32000 * 256 + 4 * (4 * 256 * 256 + 3 * 256 * 1024 + 2 * 256) + 256;

    ck_assert_uint_eq(a.methods[LLMEM_ADP].terms.cs_elems, elems);
    ck_assert_uint_eq(a.methods[LLMEM_ADP].terms.n_chunks, 1);
    ck_assert_uint_eq(mib(a.methods[LLMEM_ADP].terms.m_p16_bytes), (elems * 2 + MIB(2) - 1) / MIB(2) * 2);
    ck_assert_uint_eq(a.methods[LLMEM_ADP].terms.m_p16_bytes, a.methods[LLMEM_CDP].terms.m_p16_bytes);
}
END_TEST

/* One embedding and one linear weight of one element: each rounds on its own. */
START_TEST(rounds_each_sum_of_the_paper_by_itself)
{
    static const struct llmem_tensor t[] = {{.elems = 1, .kind = LLMEM_EMBEDDING, .input_embedding = true},
                                            {.elems = 1, .kind = LLMEM_LINEAR_WEIGHT},
                                            {.elems = 1, .kind = LLMEM_LINEAR_WEIGHT, .lm_head = true}};
    struct llmem_question q = {.model = {.tensors = t, .n = 3, .layers = 3, .hidden = 1, .ffn = 1, .vocab = 1, .embed_dim = 1},
                               .seq_len_tokens = 2, .gpus = 1, .micro_batch_size = 1, .capacity_bytes = FOR_EVER};
    struct llmem_terms terms;
    struct llmem_answer a;

    llmem_answer(&q, &a);
    terms = a.methods[LLMEM_CDP].terms;
    ck_assert_uint_eq(terms.m_os_bytes, MIB(2 + 2));
    ck_assert_uint_eq(terms.m_p16_bytes + terms.m_p32_bytes, MIB(2));
    ck_assert_uint_eq(terms.lm_p_bytes, 2);
    ck_assert_uint_eq(terms.m_out_bytes, MIB(2));
    ck_assert_uint_eq(terms.m_logits_bytes, MIB(2 + 2 * 2));
    q.variant = LLMEM_REPOSITORY;
    llmem_answer(&q, &a);
    terms = a.methods[LLMEM_CDP].terms;
    ck_assert_uint_eq(terms.m_os_bytes, 2 * MIB(2 + 2)); /* the last has none */
    ck_assert_uint_eq(terms.m_out_bytes, (2 + 3) * MIB(2));
    ck_assert_uint_eq(terms.lm_p_bytes, MIB(2));
}
END_TEST

/* Every width that tensor parallelism cuts has to divide; a product that does not fit into 64 bits stays at the largest. */
START_TEST(refuses_widths_that_do_not_divide)
{
    static const struct {
        uint32_t hidden, ffn, embed_dim;
        bool absent;
    } rows[] = {{4, 8, 4, false}, {6, 8, 4, true}, {4, 6, 4, true}, {4, 8, 2, true}};
    static const struct llmem_tensor t[] = {{.elems = 16, .kind = LLMEM_EMBEDDING, .input_embedding = true}};

    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct llmem_question q = {.model = {.tensors = t, .n = 1, .layers = 1, .hidden = rows[i].hidden, .ffn = rows[i].ffn, .vocab = 4,
                                             .embed_dim = rows[i].embed_dim},
                                   .seq_len_tokens = 1U << 31, .gpus = 4, .micro_batch_size = 1U << 31};
        struct llmem_answer a;

        llmem_answer(&q, &a);
        ck_assert_int_eq(a.methods[LLMEM_TP].absent != NULL, rows[i].absent);
        ck_assert_uint_eq(a.methods[LLMEM_CDP].terms.m_out_bytes, UINT64_MAX);
    }
}
END_TEST

/* --- the chunk search, candidate by candidate as search_chunk_configuration() goes -------------------------------------------------- */

static uint64_t waste(const uint64_t *sizes, uint32_t n, uint64_t cs)
{
    uint64_t lost = 0, left = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i] > left) {
            lost += left;
            left = cs;
        }
        left -= sizes[i];
    }
    return lost + left;
}

static uint32_t filter(uint64_t *sizes, uint32_t n)
{
    double mean = 0, square = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        mean += (double)sizes[i] / n;
    for (uint32_t i = 0; i < n; i++)
        square += ((double)sizes[i] - mean) * ((double)sizes[i] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
        if ((double)sizes[i] <= mean + 3 * sqrt(square))
            sizes[kept++] = sizes[i];
    return kept;
}

static uint64_t plain_search(const struct llmem_model *m, uint32_t tp)
{
    uint64_t *sizes = malloc((m->n + 1) * sizeof *sizes), start = 33554432, best = 0, least = UINT64_MAX;
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        bool split = m->tensors[i].kind == LLMEM_EMBEDDING || m->tensors[i].kind == LLMEM_LINEAR_WEIGHT;

        if (!m->tensors[i].tied)
            sizes[n++] = m->tensors[i].elems / (split ? tp : 1);
    }
    n = filter(sizes, n);
    for (uint32_t i = 0; i < n; i++)
        start = sizes[i] > start ? sizes[i] : start;
    start = (start + 1023) / 1024 * 1024;
    for (uint64_t cs = start; cs <= start + 33554432; cs += 1024) {
        uint64_t w = waste(sizes, n, cs);

        best = w < least ? cs : best;
        least = w < least ? w : least;
    }
    free(sizes);
    return best;
}

static const struct searched {
    const char *id;
    uint32_t tp;
} searched[] = {
    {"facebook/opt-350m", 1}, {"facebook/opt-350m", 2}, {"bigscience/bloom-560m", 2}, {"microsoft/biogpt", 1},   {"Qwen/Qwen3-0.6B", 1},
    {"facebook/opt-2.7b", 4}, {"facebook/opt-2.7b", 1}, {"EleutherAI/gpt-neo-1.3B", 2}, {"google/gemma-2-2b-it", 2},
};

START_TEST(leaps_to_the_chunk_size_that_a_plain_search_finds)
{
    static unsigned char block[ROOM];
    const struct searched *s = &searched[_i];
    struct llmem_model m;
    struct err err = {0};
    struct arch arch;
    struct arena a;

    arena_init(&a, block, sizeof block);
    load(s->id, &a, &arch);
    ck_assert_msg(!baseline_model(&arch, s->id, &a, &m, &err), "%s", err.detail);
    ck_assert_uint_eq(chunks_of(&m, s->tp, 1).cs_elems, plain_search(&m, s->tp));
    ck_assert_uint_eq(chunks_of(&m, s->tp, 3).cs_elems % 3, 0);
}
END_TEST

/* A tensor larger than a chunk closes the open one and stands alone; the degree divides each. */
START_TEST(lays_chunks_out_in_order)
{
    struct llmem_tensor t[60] = {0};
    struct llmem_model m = {.tensors = t, .n = 60};
    struct chunks c;

    for (int i = 0; i < 60; i++)
        t[i] = (struct llmem_tensor){.elems = 8 << 20, .kind = LLMEM_OTHER};
    t[30] = (struct llmem_tensor){.elems = (256 << 20) + 1, .kind = LLMEM_EMBEDDING};
    c = chunks_of(&m, 1, 1);
    ck_assert_uint_eq(c.cs_elems, 32 << 20); /* 59 in fours: 15 chunks, the least waste */
    ck_assert_uint_eq(c.n, 8 + 1 + 8);       /* 30 in fours, the large one, 29 in fours */
    c = chunks_of(&m, 1, 2);
    ck_assert_uint_eq(c.fp16_bytes, 16 * MIB(32) + MIB(256) + MIB(2));
    c = chunks_of(&m, 2, 1); /* the embedding is split, the others are not weights */
    ck_assert_uint_eq(c.fp16_bytes, 16 * MIB(64) + MIB(256) + MIB(2));
}
END_TEST

/* 22, 21 and 21 Mi: in one chunk only at the very last candidate. */
START_TEST(tries_the_last_candidate)
{
    static const struct llmem_tensor t[] = {{.elems = 22 << 20}, {.elems = 21 << 20}, {.elems = 21 << 20}};
    struct llmem_model m = {.tensors = t, .n = 3};

    ck_assert_uint_eq(chunks_of(&m, 1, 1).cs_elems, 64 << 20);
    ck_assert_uint_eq(chunks_of(&m, 1, 1).n, 1);
}
END_TEST

/* --- laws -------------------------------------------------------------------------------------------------------------------- */

static const char *const various[] = {
    "facebook/opt-125m",       "facebook/opt-350m",           "facebook/opt-2.7b",          "bigscience/bloom-560m",        "microsoft/biogpt",
    "EleutherAI/gpt-neo-1.3B", "Salesforce/codegen-2B-multi", "openai-community/gpt2",      "bigcode/gpt_bigcode-santacoder", "EleutherAI/pythia-1.4b",
    "Qwen/Qwen3-0.6B",         "google/gemma-2-2b-it",        "meta-llama/Llama-2-13b-hf",
};

START_TEST(more_capacity_never_means_a_smaller_batch)
{
    for (int v = LLMEM_PAPER; v <= LLMEM_REPOSITORY; v++) {
        uint32_t before[LLMEM_METHODS] = {0};

        for (uint64_t gib = 8; gib <= 192; gib += 8) {
            struct baseline_question q = {.variant = (enum llmem_variant)v, .gpus = 4, .base_bytes = MIB(600), .capacity_bytes = gib << 30};
            struct llmem_answer a = ask(various[_i], q);

            for (int i = 0; i < LLMEM_METHODS; i++) {
                const struct llmem_method_answer *m = &a.methods[i];

                ck_assert_msg(m->max_micro_batch_size >= before[i], "%s %s", various[_i], llmem_method_name((enum llmem_method)i));
                before[i] = m->max_micro_batch_size;
                ck_assert(!m->max_micro_batch_size || m->peak_bytes <= q.capacity_bytes);
            }
            ck_assert_int_eq(a.variant, v);
        }
    }
}
END_TEST

/* The largest: it fits, one more does not. */
START_TEST(the_batch_is_the_largest)
{
    for (int v = LLMEM_PAPER; v <= LLMEM_REPOSITORY; v++) {
        struct baseline_question q = {.variant = (enum llmem_variant)v, .gpus = 4, .base_bytes = MIB(600), .capacity_bytes = MIB(40) << 10};
        struct llmem_answer a = ask(various[_i], q);

        for (int i = 0; i < LLMEM_METHODS; i++) {
            if (a.methods[i].absent)
                continue;
            q.micro_batch_size = a.methods[i].max_micro_batch_size + 1;
            ck_assert_uint_gt(ask(various[_i], q).methods[i].peak_bytes, q.capacity_bytes);
            if (--q.micro_batch_size)
                ck_assert_uint_le(ask(various[_i], q).methods[i].peak_bytes, q.capacity_bytes);
        }
    }
}
END_TEST

START_TEST(more_gpus_never_mean_a_smaller_adp_batch)
{
    for (int v = LLMEM_PAPER; v <= LLMEM_REPOSITORY; v++) {
        uint64_t peak = UINT64_MAX;
        uint32_t before = 0;

        for (uint32_t gpus = 1; gpus <= 64; gpus *= 2) {
            struct baseline_question q = {.variant = (enum llmem_variant)v, .gpus = gpus, .base_bytes = MIB(600), .capacity_bytes = MIB(24576)};
            struct llmem_answer a = ask(various[_i], q);
            const struct llmem_method_answer *m = &a.methods[LLMEM_ADP];

            ck_assert_msg(m->max_micro_batch_size >= before, "%s on %u GPUs: %u after %u", various[_i], gpus, m->max_micro_batch_size, before);
            before = m->max_micro_batch_size;
            q.micro_batch_size = 1;
            if (v == LLMEM_PAPER) {
                uint64_t now = ask(various[_i], q).methods[LLMEM_ADP].peak_bytes;

                ck_assert_uint_le(now, peak);
                peak = now;
            }
        }
    }
}
END_TEST

START_TEST(on_one_gpu_all_methods_are_one)
{
    for (int v = LLMEM_PAPER; v <= LLMEM_REPOSITORY; v++) {
        struct baseline_question q = {.variant = (enum llmem_variant)v, .gpus = 1, .micro_batch_size = 2, .capacity_bytes = FOR_EVER};
        struct llmem_answer a = ask(various[_i], q);

        ck_assert_uint_eq(a.methods[LLMEM_ADP].peak_bytes, a.methods[LLMEM_CDP].peak_bytes);
        ck_assert_uint_eq(a.methods[LLMEM_TP].peak_bytes, a.methods[LLMEM_CDP].peak_bytes);
        ck_assert_int_eq(a.method, LLMEM_CDP);
    }
}
END_TEST

START_TEST(sums_beyond_64_bits_stay_at_the_largest)
{
    struct baseline_question q = {.gpus = 4, .seq_len_tokens = 1U << 31, .micro_batch_size = UINT32_MAX, .capacity_bytes = MIB(16384)};

    for (int v = LLMEM_PAPER; v <= LLMEM_REPOSITORY; v++) {
        q.variant = (enum llmem_variant)v;
        ck_assert_uint_eq(ask("facebook/opt-125m", q).methods[LLMEM_TP].peak_bytes, UINT64_MAX);
    }
}
END_TEST

UNIT_TESTS("llmem",
    unit_rows(meets_the_terms_of_one_gpu, singles);
    unit_test(adds_a_checkpoint_for_each_embedding_layer);
    unit_rows(meets_the_terms_of_four_gpus, spreads);
    unit_rows(chooses_as_algorithm_1, choices);
    unit_test(gpt_neo_meets_the_reference_in_its_order);
    unit_test(gpt_neo_125m_grows_by_the_slope);
    unit_test(the_paper_divides_as_its_equations);
    unit_test(gives_the_peak_of_the_asked_batch_beside_the_chosen_one);
    unit_test(offload_names_the_lowest_peak);
    unit_test(the_last_byte_of_the_capacity_counts);
    unit_test(cdp_has_its_bonus);
    unit_test(sees_what_the_estimator_sees);
    unit_test(refuses_widths_that_do_not_divide);
    unit_test(tries_the_last_candidate);
    unit_test(leaves_out_what_was_not_asked);
    unit_rows(a_split_without_an_equation_is_absent, undefined);
    unit_test(the_repository_reads_the_name_and_the_paper_the_code);
    unit_test(a_projection_is_gathered_backward);
    unit_test(a_small_model_stays_gathered);
    unit_test(rounds_each_sum_of_the_paper_by_itself);
    unit_rows(leaps_to_the_chunk_size_that_a_plain_search_finds, searched);
    unit_test(lays_chunks_out_in_order);
    unit_rows(more_capacity_never_means_a_smaller_batch, various);
    unit_rows(the_batch_is_the_largest, various);
    unit_rows(more_gpus_never_mean_a_smaller_adp_batch, various);
    unit_rows(on_one_gpu_all_methods_are_one, various);
    unit_test(sums_beyond_64_bits_stay_at_the_largest);
)
