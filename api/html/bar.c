/* A bar as SVG: what is alive at the peak by category, what the allocator holds beside it, context and NCCL; a line where the card ends. */
#include "api/html/html.h"

#include <stdio.h>

/* In the order and with the colours of api/web/1-common.js. */
static const struct {
    const char *keys[3], *name, *style;
} parts[] = {
    {{"parameters", "weights", NULL}, "weights", "c0"},
    {{"gradients", NULL, NULL}, "gradients", "c1"},
    {{"optimizer_states", NULL, NULL}, "optimizer states", "c2"},
    {{"kv_cache", NULL, NULL}, "KV cache", "c2"},
    {{"activations", NULL, NULL}, "activations", "c3"},
    {{"logits_and_loss", "logits", NULL}, "logits and loss", "c4"},
    {{"communication", NULL, NULL}, "communication", "c5"},
    {{"temporaries", NULL, NULL}, "temporaries", "c6"},
    {{"workspaces", "buffers", "inputs"}, "inputs, buffers, workspaces", "c7"},
    {{"block_slack", NULL, NULL}, "block slack", "c8"},
};
enum { PARTS = sizeof parts / sizeof *parts, WIDE = 1000 };

static const double BEYOND = 1.3; /* of the capacity: as far as a bar is drawn */

struct drawn {
    struct buf *out;
    double scale, at; /* bytes of the whole width; drawn so far */
};

static double units(const struct drawn *d, double bytes)
{
    double x = bytes > d->scale ? d->scale : bytes < 0 ? 0 : bytes;

    return d->scale > 0 ? WIDE * x / d->scale : 0;
}

static void put_rect(struct drawn *d, const char *style, double bytes, const char *name)
{
    if (bytes <= 0)
        return;
    buf_str(d->out, "<rect class=\"");
    buf_str(d->out, style);
    buf_str(d->out, "\" height=\"20\" x=\"");
    html_textf(d->out, "%.1f", units(d, d->at));
    buf_str(d->out, "\" width=\"");
    html_textf(d->out, "%.1f", units(d, d->at + bytes) - units(d, d->at));
    buf_str(d->out, "\"><title>");
    html_text(d->out, name);
    buf_str(d->out, ": ");
    html_gib(d->out, bytes);
    buf_str(d->out, " GiB</title></rect>");
    d->at += bytes;
}

static double bytes_of(const struct json *breakdown, int i)
{
    double sum = 0;

    for (int k = 0; k < 3 && parts[i].keys[k]; k++)
        sum += html_number(breakdown, parts[i].keys[k]);
    return sum;
}

static double taken(const struct json *memory)
{
    double device = html_number(memory, "device_bytes");

    return device > 0 ? device : html_number(memory, "high_bytes") + html_number(memory, "context_bytes") + html_number(memory, "nccl_bytes");
}

/* The same in words, for whoever hears it. */
static void put_label(struct buf *out, const struct json *memory)
{
    const struct json *breakdown = json_get(memory, "breakdown_bytes");

    html_gib(out, taken(memory));
    buf_str(out, " of ");
    html_gib(out, html_number(memory, "capacity_bytes"));
    buf_str(out, " GiB");
    for (int i = 0, n = 0; i < PARTS; i++) {
        double bytes = bytes_of(breakdown, i);

        if (bytes < 1 << 26)
            continue;
        buf_str(out, n++ ? ", " : ": ");
        html_text(out, parts[i].name);
        buf_char(out, ' ');
        html_gib(out, bytes);
    }
}

static void put_line(struct drawn *d, const char *style, double from, double to, const char *y)
{
    buf_str(d->out, "<line class=\"");
    buf_str(d->out, style);
    buf_str(d->out, "\" x1=\"");
    html_textf(d->out, "%.1f", units(d, from));
    buf_str(d->out, "\" x2=\"");
    html_textf(d->out, "%.1f", units(d, to));
    buf_str(d->out, y);
}

void html_bar(struct buf *out, const struct json *memory)
{
    const struct json *breakdown = json_get(memory, "breakdown_bytes");
    double capacity = html_number(memory, "capacity_bytes"), beside = html_number(memory, "context_bytes") + html_number(memory, "nccl_bytes");
    double low = html_number(memory, "low_bytes"), high = html_number(memory, "high_bytes");
    struct drawn d = {out, BEYOND * capacity, 0};

    buf_str(out, "<svg class=\"bar\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    put_label(out, memory);
    buf_str(out, "\">");
    for (int i = 0; breakdown && i < PARTS; i++)
        put_rect(&d, parts[i].style, bytes_of(breakdown, i), parts[i].name);
    if (breakdown)
        put_rect(&d, "c8", html_number(memory, "peak_reserved_bytes") - html_number(memory, "peak_allocated_bytes"), "held by the allocator");
    else
        put_rect(&d, "c7", low, "live tensors");
    put_rect(&d, "c9", beside, "context and NCCL");
    if (high > low)
        put_line(&d, "whisker", low + beside, high + beside, "\" y1=\"10\" y2=\"10\"/>");
    put_line(&d, "capacity", capacity, capacity, "\" y1=\"0\" y2=\"20\"/>");
    buf_str(out, "</svg>");
}

void html_legend(struct buf *out)
{
    buf_str(out, "<ul class=\"legend\" aria-label=\"Colours\">");
    for (int i = 0; i < PARTS; i++) {
        buf_str(out, "<li><i class=\"");
        buf_str(out, parts[i].style);
        buf_str(out, "\"></i>");
        html_text(out, parts[i].name);
        buf_str(out, "</li>");
    }
    buf_str(out, "<li><i class=\"c9\"></i>context and NCCL</li><li>│ capacity</li></ul>");
}
