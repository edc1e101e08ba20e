/* The answer as a page, for browsers without scripts: the question stays in its fields, figures are the JSON's, nothing of a stranger's becomes markup. */
#include "api/routes.h"
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <string.h>

#define Q "/answer?model=openai-community%2Fgpt2&gpu=T4&seq_len=256"

/* What a page has, and what it has not. */
static const struct {
    const char *path;
    int status;
    const char *has, *lacks;
} pages[] = {
    {Q, 200, "name=\"model\" value=\"openai-community/gpt2\"", "id=\"status\" role=\"status\" class=\"bad\""},
    {Q, 200, "name=\"gpu\" value=\"T4\"", NULL},
    {Q "&tuning=lora", 200, "<option value=\"lora\" selected>", "value=\"full\" selected"},
    {Q "&training.tuning=lora", 200, "<option value=\"lora\" selected>", NULL},
    {Q "&attention=eager", 200, "<input type=\"hidden\" name=\"attention\" value=\"eager\"></form>", NULL},
    {Q "&methods=single", 200, "name=\"methods\" value=\"single\"", "type=\"hidden\""},
    {Q, 200, "<p class=\"sentence\"><b>Fits:</b> ", "<section id=\"answer\" class=\"answer\" hidden"},
    {Q, 200, "<svg class=\"bar\"", "style="},
    {Q, 200, "<a href=\"/estimate?model=openai-community/gpt2&amp;gpu=T4&amp;seq_len=256\">This answer as JSON</a>", NULL},
    {Q, 200, "<pre tabindex=\"0\" aria-label=\"train.py\">", NULL},
    {"/answer?model=Qwen/Qwen2.5-7B&gpu=RTX4090&tuning=full", 200, "<b>Does not fit:</b>", NULL},
    {"/answer?model=Qwen/Qwen2.5-7B&gpu=RTX4090&tuning=full", 200, "/answer?model=Qwen/Qwen2.5-7B&amp;gpu=RTX4090&amp;tuning=lora", NULL},
    {Q "&stage=ppo", 200, "<summary>Not in the figures</summary>", NULL},
    {"/answer?model=openai-community%2Fgpt2&cluster=lumi", 200, "name=\"gpu\" value=\"lumi\"", NULL},
    {"/answer?model=openai-community%2Fgpt2&gpu=lumi", 200, "is the name of a cluster", NULL},
    {"/answer?model=openai-community%2Fgpt2&gpu=4&methods=tp%2Bfsdp2", 422, "name=\"methods\" value=\"tp+fsdp2\"", NULL},
    {"/answer", 422, "class=\"bad\">A required field is absent: model ", "<section id=\"answer\" class=\"answer not"},
    {Q "&gpu=banana", 422, "class=\"bad\">", "<section id=\"answer\" class=\"answer fits"},
    {"/answer?model=openai-community%2Fgpt2&gpu=A1OO", 422, "'A1OO' is no GPU", NULL},
    {"/answer?model=openai-community%2Fgpt2&gpu=A1OO", 422, "name=\"gpu\" value=\"A1OO\"", NULL},
    {"/answer?model=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&gpu=T4", 422, "name=\"model\" value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\"", "<script>"},
    {Q "&%22%3E%3Cscript%3E=%22%3E%3Cscript%3E", 200, "name=\"&quot;&gt;&lt;script&gt;\" value=\"&quot;&gt;&lt;script&gt;\"", "<script>"},
};

START_TEST(is_the_page_filled_in)
{
    struct reply r = ask_get(pages[_i].path);

    ck_assert_msg(r.r.status == pages[_i].status, "%s: %d", pages[_i].path, r.r.status);
    ck_assert_str_eq(r.r.content_type, "text/html; charset=utf-8");
    ck_assert_msg(strstr(r.r.body, pages[_i].has) != NULL, "%s: no %s in\n%s", pages[_i].path, pages[_i].has, r.r.body);
    ck_assert_msg(!pages[_i].lacks || !strstr(r.r.body, pages[_i].lacks), "%s: has %s", pages[_i].path, pages[_i].lacks);
    ck_assert(strstr(r.r.body, "</html>") != NULL);
    reply_done(r);
}
END_TEST

/* The form asks for it, and every field of the form is one that the answer's page can fill. */
START_TEST(the_form_asks_for_it)
{
    size_t bytes;
    const char *page = page_text(&bytes);

    ck_assert(strstr(page, "<form id=\"ask\" action=\"/answer\" method=\"get\">") != NULL);
    ck_assert_uint_eq(strlen(page), bytes);
}
END_TEST

UNIT_TESTS("api/html", unit_rows(is_the_page_filled_in, pages); unit_test(the_form_asks_for_it);)
