/* An answer's section, as api/web/5-page.js makes it: the sentence, bars, why others lose, advice, figures, files, what it rests on. */
#include "api/html/html.h"

#include <string.h>

enum { SHOWN = 12, LONG = 96 };

static void put_element(struct buf *out, const char *open, const char *text, const char *close)
{
    buf_str(out, open);
    html_text(out, text);
    buf_str(out, close);
}

/* "Fits:" and what follows it. */
static void put_sentence(struct buf *out, const char *summary)
{
    size_t n = strcspn(summary, ":");

    buf_str(out, "<p class=\"sentence\"><b>");
    html_textf(out, "%.*s", (int)(n < 40 ? n + (summary[n] == ':') : 0), summary);
    buf_str(out, "</b>");
    html_text(out, n < 40 ? summary + n + (summary[n] == ':') : summary);
    buf_str(out, "</p>\n");
}

/* A file that came along is told by its beginning; no character is cut. */
static void put_short(struct buf *out, const char *text)
{
    size_t n = strlen(text) < LONG ? strlen(text) : LONG;

    while (text[n] && n && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    html_textf(out, "%.*s%s", (int)n, text, text[n] ? " .." : "");
}

static void put_question(struct buf *out, const struct query *q)
{
    buf_str(out, "<p class=\"question\">");
    for (uint32_t i = 0; i < q->n; i++) {
        buf_str(out, i ? ", " : "");
        if (strcmp(q->v[i].name, "model") != 0 && strcmp(q->v[i].name, "gpu") != 0 && strcmp(q->v[i].name, "cluster") != 0) {
            html_text(out, q->v[i].name);
            buf_char(out, ' ');
        }
        put_short(out, html_value(&q->v[i]));
    }
    buf_str(out, "</p>\n");
}

/* --- candidates --------------------------------------------------------------------------------------------------------------------- */

static const char *tuning_name(const char *word)
{
    return !strcmp(word, "lora") ? "LoRA" : !strcmp(word, "qlora") ? "QLoRA" : !strcmp(word, "full") ? "full fine-tuning" : word;
}

static void put_name(struct buf *out, const struct json *c)
{
    bool alone = !strcmp(html_str(c, "method"), "single");

    if (html_str(c, "weights")[0]) {
        html_textf(out, "%.40s weights", html_str(c, "weights"));
        if (html_number(c, "batch_size") > 0)
            html_textf(out, " · batch %.0f", html_number(c, "batch_size"));
        return;
    }
    html_text(out, tuning_name(html_str(c, "tuning")));
    buf_str(out, alone ? "" : " · ");
    html_text(out, alone ? "" : html_str(c, "method"));
    if (html_number(c, "tensor_parallel") > 1 && html_number(c, "data_parallel") > 1)
        html_textf(out, " · tp %.0f", html_number(c, "tensor_parallel"));
    if (html_is(c, "gradient_checkpointing"))
        buf_str(out, " · checkpointing");
    if (html_str(c, "offload")[0] && strcmp(html_str(c, "offload"), "none") != 0)
        html_textf(out, " · %.40s offloaded", html_str(c, "offload"));
    if (html_number(c, "micro_batch_size") > 0)
        html_textf(out, alone ? " · batch %.0f" : " · micro-batch %.0f", html_number(c, "micro_batch_size"));
}

static void put_verdict(struct buf *out, const struct json *c)
{
    bool fits, known = json_bool(json_get(c, "fits"), &fits);

    if (!known)
        buf_str(out, "<strong>not modelled</strong> ");
    else if (!fits)
        buf_str(out, "<strong class=\"no\">does not fit</strong> ");
    else
        buf_str(out, html_is(c, "tight") ? "<strong class=\"tight\">tight</strong> " : "<strong class=\"yes\">fits</strong> ");
}

static void put_numbers(struct buf *out, const struct json *c)
{
    const struct json *m = json_get(c, "memory");
    double device = html_number(m, "device_bytes"), speed = html_number(json_get(c, "throughput"), "tokens_per_s");

    html_gib(out, device > 0 ? device : html_number(m, "high_bytes") + html_number(m, "context_bytes") + html_number(m, "nccl_bytes"));
    buf_str(out, " of ");
    html_gib(out, html_number(m, "capacity_bytes"));
    buf_str(out, " GiB");
    if (speed > 0) {
        buf_str(out, " · ");
        html_count(out, speed);
        buf_str(out, " tokens/s");
    }
}

static void put_link(struct buf *out, const struct query *q, const struct json *change, const char *text)
{
    buf_str(out, "<a href=\"/answer?");
    html_query(out, q, change);
    put_element(out, "\">", text, "</a>");
}

static void put_candidate(struct buf *out, const struct json *c, const struct query *q, bool first)
{
    const struct json *m = json_get(c, "memory"), *reason = json_get(c, "reason"), *near = json_get(reason, "nearest");

    buf_str(out, first ? "<li class=\"first\"><div class=\"what\"><span>" : "<li><div class=\"what\"><span>");
    put_verdict(out, c);
    put_name(out, c);
    buf_str(out, "</span><span class=\"nums\">");
    if (m)
        put_numbers(out, c);
    buf_str(out, "</span></div>\n");
    if (m)
        html_bar(out, m);
    if (reason) {
        put_element(out, "<p class=\"why\">", html_str(reason, "detail"), ".");
        if (near) {
            buf_char(out, ' ');
            put_link(out, q, near, "The nearest that fits");
        }
        buf_str(out, "</p>");
    }
    buf_str(out, "</li>\n");
}

static void put_candidates(struct buf *out, const struct json *answer, const struct query *q)
{
    size_t n = 0, all = json_count(json_get(answer, "candidates"));

    if (!all)
        return;
    buf_str(out, "<h2>Ways to train, against the card's memory</h2>\n<ol class=\"bars\">\n");
    json_each (c, json_get(answer, "candidates")) {
        if (n == SHOWN)
            buf_str(out, "</ol><details><summary>More</summary><ol class=\"bars\">\n");
        put_candidate(out, c, q, !n++ && html_is(c, "fits"));
    }
    buf_str(out, all > SHOWN ? "</ol></details>\n" : "</ol>\n");
    if (json_get(json_first(json_get(answer, "candidates")), "memory"))
        html_legend(out);
}

/* --- the rest ----------------------------------------------------------------------------------------------------------------------- */

static void put_advice(struct buf *out, const struct json *answer, const struct query *q)
{
    if (!json_count(json_get(answer, "advice")))
        return;
    buf_str(out, html_is(answer, "fits") ? "<h2>What else was tried</h2>\n<ul class=\"advice\">" : "<h2>Ways out, tried</h2>\n<ul class=\"advice\">");
    json_each (a, json_get(answer, "advice")) {
        put_element(out, "<li>", html_str(a, "why"), " ");
        put_link(out, q, json_get(a, "change"), "Ask this");
        buf_str(out, "</li>\n");
    }
    buf_str(out, "</ul>\n");
}

static void put_figure(struct buf *out, const char *name, double value, const char *unit, bool is_bytes)
{
    if (value <= 0)
        return;
    put_element(out, "<div><dt>", name, "</dt><dd>");
    if (is_bytes)
        html_gib(out, value);
    else
        html_textf(out, value < 100 && value > (double)(long)value ? "%.3g" : "%.0f", value);
    put_element(out, " ", unit, "</dd></div>");
}

static void put_figures(struct buf *out, const struct json *c)
{
    const struct json *m = json_get(c, "memory"), *t = json_get(c, "throughput");

    if (!m)
        return;
    buf_str(out, "<dl class=\"figures\">");
    put_figure(out, "in nvidia-smi", html_number(m, "device_bytes"), "GiB", true);
    put_figure(out, "peak reserved", html_number(m, "peak_reserved_bytes"), "GiB", true);
    put_figure(out, "peak allocated", html_number(m, "peak_allocated_bytes"), "GiB", true);
    put_element(out, "<div><dt>at</dt><dd>", html_str(m, "peak_phase"), "</dd></div>");
    put_figure(out, "micro-batch", html_number(c, "micro_batch_size"), "", false);
    put_figure(out, "largest micro-batch", html_number(c, "max_micro_batch_size"), "", false);
    put_figure(out, "global batch", html_number(c, "global_batch_size"), "", false);
    put_figure(out, "a step", html_number(t, "step_s"), "s", false);
    put_figure(out, "host memory a node", html_number(m, "host_bytes_per_node"), "GiB", true);
    buf_str(out, "</dl>\n");
}

static void put_files(struct buf *out, const struct json *launch)
{
    static const struct {
        const char *key, *name;
    } files[] = {{"command", "command"}, {"slurm", "job.sbatch"}, {"script", "train.py"}, {"accelerate_config", "accelerate.yaml"}};

    if (!launch)
        return;
    buf_str(out, "<details><summary>Files to start it</summary>\n");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (html_str(launch, files[i].key)[0]) {
            put_element(out, "<h3>", files[i].name, "</h3><pre tabindex=\"0\" aria-label=\"");
            put_element(out, "", files[i].name, "\">");
            put_element(out, "", html_str(launch, files[i].key), "</pre>\n");
        }
    buf_str(out, "</details>\n");
}

static void put_notes(struct buf *out, const char *title, const struct json *lines)
{
    if (!json_count(lines))
        return;
    put_element(out, "<details><summary>", title, "</summary><ul class=\"plain\">");
    json_each (v, lines)
        put_element(out, "<li>", json_str(v), "</li>");
    buf_str(out, "</ul></details>\n");
}

void html_answer(struct buf *out, const struct json *answer, const struct query *q)
{
    const struct json *first = json_get(answer, "recommendation");

    if (json_type(first) != JSON_OBJECT)
        first = json_first(json_get(answer, "candidates"));
    buf_str(out, html_is(answer, "fits") ? "<section id=\"answer\" class=\"answer fits\" aria-label=\"The answer\">\n"
                                         : "<section id=\"answer\" class=\"answer not\" aria-label=\"The answer\">\n");
    put_question(out, q);
    put_sentence(out, html_str(answer, "summary"));
    json_each (w, json_get(answer, "warnings"))
        put_element(out, "<p class=\"warn\">", json_str(w), "</p>\n");
    put_figures(out, first);
    put_candidates(out, answer, q);
    put_advice(out, answer, q);
    put_files(out, json_get(json_get(answer, "recommendation"), "launch"));
    put_notes(out, "Not in the figures", json_get(answer, "not_in_figures"));
    put_notes(out, "Assumptions", json_get(answer, "assumptions"));
    buf_str(out, "<p><a href=\"/estimate?");
    html_query(out, q, NULL);
    buf_str(out, "\">This answer as JSON</a> · <a href=\"/estimate/snapshot?");
    html_query(out, q, NULL);
    buf_str(out, "\" download=\"snapshot.pickle\">as a PyTorch memory snapshot</a></p>\n</section>");
}
