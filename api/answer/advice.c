/* What was tried and fits, written out: as the parameters that a query takes, and in words. */
#include "api/answer/estimate.h"

#include "base/ascii.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double GIB = 1073741824.0;

/* --- as parameters ------------------------------------------------------------------------------------------------------------ */

static void write_word(struct jsonw *w, const char *name, const char *word)
{
    if (word)
        jsonw_str(w, name, word);
}

static void write_tri(struct jsonw *w, const char *name, enum tri t)
{
    if (t)
        jsonw_bool(w, name, t == TRI_TRUE);
}

static void write_count(struct jsonw *w, const char *name, uint64_t n)
{
    if (n)
        jsonw_u64(w, name, n);
}

static bool changes(const struct plan_nearest *n)
{
    return n->method || n->tuning || n->offload || n->precision || n->optimizer || n->attention || n->gradient_checkpointing ||
           n->sync_each_batch || n->micro_batch_size || n->seq_len_tokens || n->tensor_parallel || n->expandable_segments || n->gpu || n->gpus;
}

void change_write(struct jsonw *w, const char *name, const struct estimate *e, const struct plan_nearest *n)
{
    uint32_t nodes = n->gpus ? n->gpus / n->gpus_per_node : 0;
    bool wider = n->gpus && n->gpus_per_node != e->question.gpus_per_node;

    if (!changes(n))
        return;
    jsonw_object(w, name);
    write_word(w, "gpu", n->gpu ? n->gpu : wider && !e->rq.cluster.gpu.by_numbers ? e->rq.cluster.gpu.name : NULL); /* what was asked may say "2x" */
    if (wider)
        jsonw_u64(w, "gpus_per_node", n->gpus_per_node);
    if (n->gpus && nodes != e->question.gpus / e->question.gpus_per_node)
        jsonw_u64(w, "nodes", nodes);
    write_word(w, "methods", n->method);
    write_count(w, "tensor_parallel", n->tensor_parallel);
    write_word(w, "tuning", n->tuning);
    write_word(w, "lora.target_modules", n->target_modules);
    write_tri(w, "gradient_checkpointing", n->gradient_checkpointing);
    write_word(w, "offload", n->offload);
    write_word(w, "precision", n->precision);
    write_word(w, "optimizer", n->optimizer);
    write_word(w, "attention", n->attention);
    write_tri(w, "sync_each_batch", n->sync_each_batch);
    write_count(w, "micro_batch_size", n->micro_batch_size);
    write_count(w, "seq_len", n->seq_len_tokens);
    if (n->expandable_segments)
        jsonw_bool(w, "expandable_segments", true);
    jsonw_end(w);
}

/* --- in words ----------------------------------------------------------------------------------------------------------------- */

const char *tuning_in_words(const char *tuning)
{
    if (!strcmp(tuning, "lora"))
        return "LoRA";
    return !strcmp(tuning, "qlora") ? "QLoRA" : "full fine-tuning";
}

/* "2,310" */
void say_number(struct buf *out, double x)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%.0f", floor(round(10 * x) / 10 + 0.5)); /* of what the answer's member says */

    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            buf_char(out, ',');
        buf_char(out, digits[i]);
    }
}

void say_gib(struct buf *out, double bytes)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.1f", bytes / GIB);
    buf_str(out, text);
}

void say_gpus(struct buf *out, uint32_t n, const char *gpu)
{
    if (n == 1)
        buf_str(out, "one ");
    else
        buf_u64(out, n), buf_str(out, " x ");
    buf_str(out, gpu);
}

static void add_part(struct buf *out, const char *format, const char *word)
{
    const char *at = strchr(format, '%');

    if (out->bytes)
        buf_str(out, ", ");
    buf_add(out, format, at ? (size_t)(at - format) : strlen(format));
    if (at) {
        buf_str(out, word);
        buf_str(out, at + 1);
    }
}

static void add_counted(struct buf *out, const char *format, uint32_t n)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%u", n);
    if (n)
        add_part(out, format, text);
}

static void add_length(struct buf *out, uint32_t tokens)
{
    char block[32];
    struct buf digits;

    buf_init_fixed(&digits, block, sizeof block);
    say_number(&digits, tokens);
    if (tokens)
        add_part(out, "sequences of % tokens", buf_text(&digits));
}

/* "LoRA, gradient checkpointing" */
static void say_change(struct buf *out, const struct plan_nearest *n, bool elsewhere)
{
    if (n->tuning)
        add_part(out, n->target_modules ? "% over all linear layers" : "%", tuning_in_words(n->tuning));
    if (n->method)
        add_part(out, out->bytes || elsewhere ? "%" : "the method %", n->method);
    add_counted(out, "tensor_parallel %", n->tensor_parallel);
    if (n->gradient_checkpointing)
        add_part(out, n->gradient_checkpointing == TRI_TRUE ? "gradient checkpointing" : "no gradient checkpointing", "");
    if (n->offload)
        add_part(out, strcmp(n->offload, "none") ? "% offloaded to the host" : "no offload", n->offload);
    if (n->precision)
        add_part(out, "precision %", n->precision);
    if (n->optimizer)
        add_part(out, "optimizer %", n->optimizer);
    if (n->attention)
        add_part(out, "attention %", n->attention);
    if (n->sync_each_batch)
        add_part(out,
                 n->sync_each_batch == TRI_TRUE ? "gradients reduced after each micro-batch (sync_each_batch)"
                                                : "gradients reduced at the last micro-batch alone (sync_each_batch=false)",
                 "");
    add_counted(out, "a micro-batch of %", n->micro_batch_size);
    add_length(out, n->seq_len_tokens);
    if (n->expandable_segments)
        add_part(out, "expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF", "");
}

/* With "and" before the last. */
static void say_joined(struct buf *out, const char *parts)
{
    const char *last = NULL;

    for (const char *at = strstr(parts, ", "); at; at = strstr(at + 2, ", "))
        last = at;
    if (last) {
        buf_add(out, parts, (size_t)(last - parts));
        buf_str(out, " and ");
    }
    buf_str(out, last ? last + 2 : parts);
}

/* "2 x RTX 4090 with fsdp2 and gradient checkpointing", as a sentence begins. */
static void say_all(struct buf *out, const struct estimate *e, const struct plan_nearest *n)
{
    bool elsewhere = n->gpus || n->gpu;
    char parts[256], block[320];
    struct buf change, all;

    buf_init_fixed(&change, parts, sizeof parts);
    buf_init_fixed(&all, block, sizeof block);
    say_change(&change, n, elsewhere);
    if (elsewhere)
        say_gpus(&all, n->gpus ? n->gpus : e->question.gpus, n->gpu ? n->gpu : gpu_in_words(e));
    if (elsewhere && change.bytes)
        buf_str(&all, " with ");
    say_joined(&all, buf_text(&change));
    block[0] = ascii_upper(block[0]);
    buf_str(out, buf_text(&all));
}

static double speed_ratio(const struct estimate *e, const struct plan_advice *a)
{
    double now = e->answer.candidates[0].time.tokens_per_s;

    return now > 0 ? a->time.tokens_per_s / now : 0;
}

/* ", 22 % slower" */
static void say_speed(struct buf *out, double ratio)
{
    double percent = 100 * fabs(ratio - 1);
    char text[48];

    if (ratio <= 0)
        return;
    if (percent < 1)
        (void)snprintf(text, sizeof text, " at the same speed");
    else if (ratio >= 2)
        (void)snprintf(text, sizeof text, ", %.1f times as fast", ratio);
    else
        (void)snprintf(text, sizeof text, ", %.0f %% %s", percent, ratio < 1 ? "slower" : "faster");
    buf_str(out, text);
}

enum { WORTH_SAYING_BYTES = 1 << 26 }; /* less reads as 0.0 GiB */

void advice_say(struct buf *out, const struct estimate *e, const struct plan_advice *a)
{
    say_all(out, e, &a->change);
    if (e->answer.any_fits && a->saves_bytes >= WORTH_SAYING_BYTES) {
        buf_str(out, " would leave ");
        say_gib(out, (double)a->saves_bytes);
        buf_str(out, " GiB more free");
        say_speed(out, speed_ratio(e, a));
    } else if (e->answer.any_fits) {
        buf_str(out, " would fit too");
        say_speed(out, speed_ratio(e, a));
    } else {
        buf_str(out, " would fit: about ");
        say_gib(out, (double)(a->peak_bytes + e->question.device.context_bytes));
        buf_str(out, " of ");
        say_gib(out, (double)a->capacity_bytes);
        buf_str(out, " GiB");
        if (a->time.tokens_per_s > 0) {
            buf_str(out, ", ");
            say_number(out, a->time.tokens_per_s);
            buf_str(out, " tokens/s");
        }
    }
    buf_char(out, '.');
}

/* --- the member --------------------------------------------------------------------------------------------------------------- */

static void write_one(struct jsonw *w, const struct estimate *e, const struct plan_advice *a)
{
    char block[400];
    struct buf why;

    buf_init_fixed(&why, block, sizeof block);
    advice_say(&why, e, a);
    jsonw_object(w, NULL);
    change_write(w, "change", e, &a->change);
    jsonw_bool(w, "fits", true);
    if (a->time.tokens_per_s > 0)
        jsonw_fixed(w, "tokens_per_s", a->time.tokens_per_s, 1);
    if (e->answer.any_fits && speed_ratio(e, a) > 0)
        jsonw_fixed(w, "relative_speed", speed_ratio(e, a), 3);
    jsonw_u64(w, "peak_allocated_bytes", a->peak_bytes);
    jsonw_i64(w, "saves_bytes", a->saves_bytes);
    jsonw_u64(w, "capacity_bytes", a->capacity_bytes);
    jsonw_str(w, "why", buf_text(&why));
    jsonw_end(w);
}

void advice_write(struct jsonw *w, const struct estimate *e)
{
    jsonw_array(w, "advice");
    for (uint32_t i = 0; i < e->answer.n_advice; i++)
        write_one(w, e, &e->answer.advice[i]);
    jsonw_end(w);
}
