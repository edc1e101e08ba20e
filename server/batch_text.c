/* What is sent of a batch: its head, items as their turn comes, its end; as one document or a line an item. */
#include "server/batch_inside.h"

#include "server/clock.h"

#include <stdio.h>
#include <string.h>

static void put(struct batch *b, const char *text, size_t bytes, bool is_document)
{
    b->pieces[b->n_pieces++] = (struct piece){text, bytes, is_document};
}

static void put_text(struct batch *b, const char *text)
{
    put(b, text, strlen(text), false);
}

/* Of the item whose turn it is. */
static const struct err *problem_of(const struct batch *b, const struct item *it, struct err *room)
{
    if (it->is_over)
        return &api_item_over;
    if (it->state == ITEM_DONE && it->err)
        return it->err;
    if (b->stopped.code)
        return &b->stopped;
    (void)err_set(room, ERR_NOMEM, "", "no memory is left for the item");
    return room;
}

static void put_problem(struct batch *b, const struct item *it)
{
    struct err err = {0};
    struct api_response r;
    struct arena arena;

    arena_init(&arena, b->x->desk->scratch, API_CHEAP_BYTES);
    api_item_problem(problem_of(b, it, &err), it->state == ITEM_DONE ? it->retry_after_s : 0, b->at, &arena, &r);
    if (r.bytes > sizeof b->problem) {
        (void)err_set(&err, b->stopped.code ? b->stopped.code : ERR_INTERNAL, "", "the problem takes more words than there is room for");
        api_item_problem(&err, 0, b->at, &arena, &r);
    }
    memcpy(b->problem, r.body, r.bytes);
    put(b, b->problem, r.bytes - 1, true);
}

static void put_item(struct batch *b)
{
    const struct item *it = item_first(b->items, b->at);

    if (!b->by_lines && b->at)
        put_text(b, API_BATCH_BETWEEN);
    if (it->state == ITEM_DONE && it->answer && !it->is_over)
        put(b, it->answer->body, it->answer->bytes - 1, true);
    else
        put_problem(b, it);
    if (b->by_lines)
        put_text(b, "\n");
    b->has_item = true;
}

/* The next pieces; false: not ready, or there are no more. */
static bool next_pieces(struct batch *b)
{
    if (b->has_item) {
        b->has_item = false;
        batch_pass(b);
    }
    b->n_pieces = b->piece = 0;
    if (b->stage == STAGE_HEAD) {
        b->stage = STAGE_ITEMS;
        put_text(b, b->by_lines ? "" : API_BATCH_HEAD);
    } else if (b->stage == STAGE_ITEMS && b->at == b->items->n) {
        b->stage = STAGE_END;
        put_text(b, b->by_lines ? "" : API_BATCH_TAIL);
    } else if (b->stage == STAGE_ITEMS && batch_is_ready(b)) {
        put_item(b);
    }
    return b->n_pieces;
}

/* Without the blanks between its words. */
static size_t copy_line(struct batch *b, struct piece *p, char *into, size_t room)
{
    size_t n = 0;

    while (p->bytes && n < room) {
        char c = *p->text++;

        p->bytes--;
        if (!b->quoted && (c == ' ' || c == '\n'))
            continue;
        if (b->escaped)
            b->escaped = false;
        else if (b->quoted && c == '\\')
            b->escaped = true;
        else if (c == '"')
            b->quoted = !b->quoted;
        into[n++] = c;
    }
    return n;
}

static size_t copy(struct batch *b, struct piece *p, char *into, size_t room)
{
    size_t n = p->bytes < room ? p->bytes : room;

    if (b->by_lines && p->is_document)
        return copy_line(b, p, into, room);
    memcpy(into, p->text, n);
    p->text += n;
    p->bytes -= n;
    return n;
}

ssize_t batch_more(struct exchange *x, char *into, size_t room)
{
    struct batch *b = x->batch;
    size_t n = 0;

    if (x->desk->is_refusing)
        batch_refuse(x, ERR_DRAINING, "the service is going away");
    batch_expire(x);
    while (n < room) {
        if (b->piece < b->n_pieces && !b->pieces[b->piece].bytes)
            b->piece++;
        else if (b->piece < b->n_pieces)
            n += copy(b, &b->pieces[b->piece], into + n, room - n);
        else if (!next_pieces(b))
            break;
    }
    b->sent_bytes += n;
    if (n || b->stage != STAGE_END)
        return (ssize_t)n;
    return -1;
}
