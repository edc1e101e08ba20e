#include "server/terminal/paint.h"

#include "base/ascii.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 80, COLUMNS_MIN = 40, COLUMNS_MAX = 400 };

static unsigned columns_of(int fd)
{
    const char *said = getenv("COLUMNS");
    struct winsize size;
    unsigned n = said ? (unsigned)strtoul(said, NULL, 10) : 0;

    if (!n && !ioctl(fd, TIOCGWINSZ, &size))
        n = size.ws_col;
    return !n ? COLUMNS : n < COLUMNS_MIN ? COLUMNS_MIN : n > COLUMNS_MAX ? COLUMNS_MAX : n;
}

/* The first of these that is set says it (locale(7)). */
static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]), *dot;

        if (!value || !value[0])
            continue;
        dot = strchr(value, '.');
        return dot && (ascii_begins(dot + 1, "UTF-8", 5) || ascii_begins(dot + 1, "utf8", 4));
    }
    return false;
}

struct paint paint_of(FILE *out)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    struct paint p = {.out = out, .is_terminal = isatty(fileno(out)), .blocks = is_utf8()};

    p.colours = p.is_terminal && !(none && none[0]) && term && strcmp(term, "dumb") != 0;
    p.columns = p.is_terminal ? columns_of(fileno(out)) : COLUMNS + 20;
    return p;
}

static const char *code_of(enum ink ink)
{
    static const char *const codes[] = {[INK_PLAIN] = "", [INK_BOLD] = "1", [INK_DIM] = "2", [INK_GOOD] = "32", [INK_TIGHT] = "33", [INK_BAD] = "31"};

    return codes[ink];
}

static void begin(const struct paint *p, enum ink ink)
{
    if (p->colours && ink != INK_PLAIN)
        fprintf(p->out, "\033[%sm", code_of(ink));
}

static void end(const struct paint *p, enum ink ink)
{
    if (p->colours && ink != INK_PLAIN)
        fputs("\033[0m", p->out);
}

void paint_text(const struct paint *p, enum ink ink, int width, const char *text)
{
    begin(p, ink);
    if (width)
        fprintf(p->out, "%-*.*s", width, width, text);
    else
        fputs(text, p->out);
    end(p, ink);
}

void paint_bar(const struct paint *p, enum ink ink, double share, unsigned cells)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double whole = share < 0 ? 0 : share > 1 ? cells : share * cells;
    unsigned full = (unsigned)whole, part = (unsigned)((whole - full) * 8);

    begin(p, ink);
    for (unsigned i = 0; i < cells; i++) {
        if (!p->blocks)
            fputc(i < full ? share > 1 ? '!' : '#' : i == full && whole - full >= 0.5 ? '#' : '.', p->out);
        else
            fputs(i < full ? "█" : i == full ? eighths[part] : "·", p->out);
    }
    end(p, ink);
}

static void wrap(const struct paint *p, unsigned used, unsigned indent, const char *text)
{
    bool first = true; /* of its line */

    for (const char *word = text + strspn(text, " "); *word; first = false) {
        size_t n = strcspn(word, " "), width = 0;

        for (size_t i = 0; i < n; i++)
            width += ((unsigned char)word[i] & 0xC0) != 0x80;
        if (used > indent && used + width + 1 > p->columns) {
            fprintf(p->out, "\n%*s", (int)indent, "");
            used = indent;
            first = true;
        }
        fprintf(p->out, "%s%.*s", first ? "" : " ", (int)n, word);
        used += (unsigned)width + !first;
        word += n;
        while (*word == ' ')
            word++;
    }
    fputc('\n', p->out);
}

void paint_wrapped(const struct paint *p, unsigned indent, const char *text)
{
    wrap(p, indent, indent, text);
}

void paint_after(const struct paint *p, unsigned used, const char *text)
{
    wrap(p, used, 0, text);
}

const char *paint_count(double value, char text[COUNT_BYTES])
{
    char plain[COUNT_BYTES / 2];
    size_t n, at = 0;

    if (value < 100) {
        (void)snprintf(text, COUNT_BYTES, "%.1f", value);
        return text;
    }
    (void)snprintf(plain, sizeof plain, "%.0f", value < 1e15 ? value : 1e15);
    n = strlen(plain);
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return text;
}
