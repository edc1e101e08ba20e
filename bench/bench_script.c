/*
 * bench_script - what the interpreter of modelling code costs on one core: an image of the language, and a turn of loops whose operations
 * are known by number.
 *
 * Printed beside a fixed loop of the same run, so that machines can be compared by the ratio.
 */
#include "bench/measure.h"
#include "script/script.h"

#include <stdio.h>
#include <string.h>

enum { TURNS = 300000 };

static const struct {
    const char *what;
    int operations; /* of a turn, those of what it calls included */
    const char *text;
} rows[] = {
    {"x = i + 1", 7, "def f(n):\n    for i in range(n):\n        x = i + 1\nf(300000)\n"},
    {"a function of one argument", 9, "def g(x): return x\ndef f(n):\n    for i in range(n):\n        g(i)\nf(300000)\n"},
    {"a method that reads an attribute", 13,
     "class M:\n    def __init__(self): self.w = 1\n    def forward(self, x): return x + self.w\n"
     "def f(n):\n    m = M()\n    for i in range(n):\n        m.forward(i)\nf(300000)\n"},
    {"*args, **kwargs passed on", 19,
     "class M:\n    def forward(self, x, k=0): return x\n    def __call__(self, *a, **k): return self.forward(*a, **k)\n"
     "def f(n):\n    m = M()\n    for i in range(n):\n        m(i, k=1)\nf(300000)\n"},
};

static unsigned char block[64 << 20];

int main(void)
{
    double reference = reference_ns();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena arena;
        struct image *im;
        struct script *s;
        struct err err = {0};
        double begin = core_s(), made;

        arena_init(&arena, block, sizeof block);
        if (image_new(&arena, NULL, &im, &err))
            return fprintf(stderr, "%s\n", err.detail), 1;
        made = core_s();
        if (!i)
            printf("an image of the language: %.2f ms\n", 1e3 * (made - begin));
        if (image_source(im, "m", "bench.py", rows[i].text, strlen(rows[i].text), false, &err) ||
            script_new(&arena, im, NULL, NULL, &s, &err))
            return fprintf(stderr, "%s\n", err.detail), 1;
        begin = core_s();
        if (!sv_ok(script_import(s, "m")))
            return (void)script_error(s, &err), fprintf(stderr, "%s\n", err.detail), 1;
        double ns = 1e9 * (core_s() - begin) / TURNS;

        printf("%-34s %6.1f ns a turn, %4.1f ns an operation, %4.1f steps of the reference\n", rows[i].what, ns, ns / rows[i].operations,
               ns / rows[i].operations / reference);
    }
    return 0;
}
