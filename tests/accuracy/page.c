/* page.c - docs/accuracy.md. */
#include "tests/accuracy/accuracy.h"
#include "tests/accuracy/series.h"
#include "tests/accuracy/speed.h"

#include <stdio.h>

static void write_notes(FILE *f)
{
    FILE *notes = fopen("docs/accuracy-notes.md", "r");
    char line[1024];

    if (!notes)
        return;
    fputc('\n', f);
    while (fgets(line, sizeof line, notes))
        fputs(line, f);
    (void)fclose(notes);
}

void write_page(void)
{
    static const struct {
        const char *title;
        enum figure figure;
        double above;
    } lists[] = {{"Peak allocated, deviations over 0.01 %", PEAK, 0.01}, {"Phase peaks, deviations over 0.3 %", PHASES, 0.3},
                 {"Reserved, deviations over 4 %", RESERVED, 4},         {"Static, deviations over 0.1 %", STATIC, 0.1},
                 {"Resting, deviations over 0.1 %", RESTING, 0.1},       {"Measured by others, deviations over 5 %", MEASURED, 5}};
    FILE *f = fopen("docs/accuracy.md", "w");

    if (!f) {
        perror("docs/accuracy.md");
        return;
    }
    fprintf(
        f,
        "# Accuracy\n\nWritten by `make accuracy` from the cases of tests/data/accuracy. Errors are relative and two-sided.\n\n"
        "- `one GPU`: fine-tuning steps of real PyTorch, transformers and peft, traced block by block on two stacks (torch 2.15 / transformers 5.23,\n"
        "  torch 2.2 / transformers 4.40), then on two between them. The peers' rules stand beside us with the same cases.\n"
        "- `found`: requests whose answer was wrong when random comparison with real PyTorch found them.\n"
        "- `ddp` to `pp`: one rank of several of the real DistributedDataParallel, DeepSpeed, FSDP, tensor and pipeline code, its last step.\n"
        "- `gpjt`: what DeepSpeed ZeRO-2 and 3 printed on one RTX 3090 and on eight A100 (active and reserved bytes).\n"
        "- `published`: what others measured on real GPUs.\n\n");
    (void)report(f, true);
    (void)largest_report(f, true);
    fprintf(
        f,
        "\n## By source\n\nPeak allocated of traced runs, active bytes of gpjt's, then figures that others measured on real GPUs and published, each with the\n"
        "metric its source states. Those state less than a request can.\n\n"
        "| source | runs | count | median | p95 | worst |\n|---|---|---|---|---|---|\n");
    by_source(f, PEAK);
    by_source(f, ACTIVE);
    by_source(f, MEASURED);
    fprintf(f, "\n## Speed\n\n");
    (void)speed_report(f, true);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        fprintf(f, "\n## %s\n\n", lists[i].title);
        worst(f, lists[i].figure, lists[i].above, "- ");
    }
    write_notes(f);
    (void)fclose(f);
}
