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

/* What other estimators say of themselves, and what was said of them; rows of ours that answer the same question. */
static const struct {
    const char *tool, *error, *source;
} reported[] = {
    {"LLMem (IJCAI 2024), one GPU", "up to 1.6 %", "its abstract, full fine-tuning under Colossal-AI on V100; 6 to 10 % in an independent run on A100 (its issue 1)"},
    {"LLMem, several GPUs", "3.0 % mean above one billion parameters", "its abstract; -1.6 to +7.4 % for TP and DP+TP"},
    {"DNNMem (FSE 2020)", "42.6 % on the same single-GPU models", "LLMem's abstract; 17.55 % median on xMem's rows (xMem's notebook)"},
    {"xMem (2025, arXiv 2510.21048)", "3.66 % median, 9.46 % of estimates fail", "its notebook, 25 models on one GPU; 74.40 % for LLMem there, in another setting than LLMem's"},
    {"SchedTune (CCGrid 2022)", "30.42 % median", "xMem's notebook"},
    {"Horus (2022)", "about 31 % median", "computed from GPUMemNet's MLPs, with an offset of 1 GB"},
    {"VeritasEst (2025, arXiv 2504.03887)", "5.46 % median", "CNNs, a third party's note"},
};

static void write_reported(FILE *f)
{
    fprintf(f,
            "\n## What others report\n\nErrors of peak memory as their authors or others published them, on rows of their own. Beside the first two stand `one GPU,\n"
            "Colossal-AI` and `several GPUs, Colossal-AI` above: LLMem's own code with its Colossal-AI, traced; ours, and its closed form (`peer: LLMem's formula`,\n"
            "without a base) beside what its runs reserve. The others' rows are not public in a form that can be asked again; `one GPU` and `published` above are ours.\n\n"
            "| estimator | error | source |\n|---|---|---|\n");
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        fprintf(f, "| %s | %s | %s |\n", reported[i].tool, reported[i].error, reported[i].source);
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
        "- `Colossal-AI`: one rank of LLMem's own runs, its code with its Colossal-AI over real PyTorch 2.2.\n"
        "- `found`: requests whose answer was wrong when random comparison with real PyTorch found them.\n"
        "- `ddp` to `pp`: one rank of several of the real DistributedDataParallel, DeepSpeed, FSDP, tensor and pipeline code, its last step.\n"
        "- `gpjt`: what DeepSpeed ZeRO-2 and 3 printed on one RTX 3090 and on eight A100 (active and reserved bytes).\n"
        "- `measured on an H100`: steps run on a real GPU (80 GB SXM, driver 580.159, CUDA 13.0, torch 2.11, transformers 5.17), by make_measured.py.\n"
        "- `published`: what others measured on real GPUs. `generating`: beside the figure of ours that a row is (tests/data/accuracy/make_cases.py, READS, says which and why);\n"
        "  `read as peaks`: the same rows, each beside the peak of all of generate().\n\n");
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
    write_reported(f);
    fprintf(f, "\n## Speed\n\n");
    (void)speed_report(f, true);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        fprintf(f, "\n## %s\n\n", lists[i].title);
        worst(f, lists[i].figure, lists[i].above, "- ");
    }
    write_notes(f);
    (void)fclose(f);
}
