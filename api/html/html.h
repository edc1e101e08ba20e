/*
 * html.h - an answer as HTML, for a browser without scripts: the page itself, filled in.
 *
 * Purpose   GET /answer is what the page's form submits where no script does. Each figure is a member of the answer's JSON, the markup that of api/web's
 *           scripts, with bars as SVG, because the Content-Security-Policy allows no style in markup.
 * Owner     text goes to a buffer; documents are the caller's.
 */
#ifndef API_HTML_HTML_H
#define API_HTML_HTML_H

#include "api/request/query.h"
#include "base/buf.h"
#include "base/json.h"

/* Text where markup stands: & < > " are escaped. NULL is "". */
void html_text(struct buf *out, const char *text);
void html_textf(struct buf *out, const char *fmt, ...) PRINTF(2, 3); /* the same; what was formatted has less than 256 bytes */

/* "19.4", "2,310" */
void html_gib(struct buf *out, double bytes);
void html_count(struct buf *out, double n);

/* A member's number, 0 where it has none; its text, "" where it has none; whether it is true. */
double html_number(const struct json *object, const char *name);
const char *html_str(const struct json *object, const char *name);
bool html_is(const struct json *object, const char *name);

/* A parameter's value as it was meant: a '+' in the names of methods and of offload is no blank. */
const char *html_value(const struct parameter *p);

/* The query with what `change` (advice's, nearest's) names put in its place; `change` NULL: as it is. Escaped, for an attribute. */
void html_query(struct buf *out, const struct query *q, const struct json *change);

/* A candidate's bar against the capacity. */
void html_bar(struct buf *out, const struct json *memory);
void html_legend(struct buf *out);

/* The section of a whole answer. */
void html_answer(struct buf *out, const struct json *answer, const struct query *q);

/* The page with the question in its fields, and the answer or what is wrong with the question: either may be NULL. */
void html_page(struct buf *out, const char *page, size_t bytes, const struct query *q, const struct json *answer, const char *wrong);

#endif
