/*
 * An sbatch script that needs no file but the user's train.py: it writes those that the command names, and starts one launcher a node.
 *
 * Source    the cluster's row (catalog/data/slurm.csv): partition, account, how GPUs are asked for, cores and memory a GPU, modules.
 *           srun gives each node's task SLURM_NODEID, and takes the cores a task from SRUN_CPUS_PER_TASK (srun's manual page).
 *           "set -u" comes after the modules: their scripts read variables that are not set.
 */
#include "launch/launch.h"

#include <string.h>

static void line(struct buf *out, const char *a, const char *b)
{
    buf_str(out, a);
    if (b)
        buf_str(out, b);
    buf_char(out, '\n');
}

static void counted(struct buf *out, const char *option, uint64_t n, const char *after)
{
    buf_str(out, "#SBATCH ");
    buf_str(out, option);
    buf_u64(out, n);
    line(out, after, NULL);
}

/* A line for each part of "a;b". */
static void lines(struct buf *out, const char *before, const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ";");

        buf_str(out, before);
        buf_add(out, list, n);
        buf_char(out, '\n');
        list += n + (list[n] == ';');
    }
}

static void job_name(struct buf *out, const struct launch *l)
{
    const char *slash = l->model ? strrchr(l->model, '/') : NULL;

    buf_str(out, "#SBATCH --job-name=");
    buf_str(out, slash ? slash + 1 : l->model ? l->model : "finetune");
    buf_char(out, '-');
    line(out, method_rows[l->step->r.method].name, NULL);
}

/* "--gres=gpu:a100:%": as many as a node of the job has. */
static void ask_gpus(struct buf *out, const char *option, uint32_t gpus)
{
    const char *at = strchr(option, '%');

    buf_str(out, "#SBATCH ");
    buf_add(out, option, at ? (size_t)(at - option) : strlen(option));
    if (at) {
        buf_u64(out, gpus);
        buf_str(out, at + 1);
    }
    buf_char(out, '\n');
}

static void ask_memory(struct buf *out, const struct launch_site *s, uint32_t gpus)
{
    if (!s->gb_per_gpu)
        return;
    if (gpus >= s->gpus_per_node)
        line(out, "#SBATCH --mem=0", NULL);
    else
        counted(out, "--mem=", (uint64_t)s->gb_per_gpu * gpus, "G");
}

static void write_options(struct buf *out, const struct launch *l)
{
    const struct launch_site *s = l->site;
    uint32_t gpus = launch_gpus_per_node(l);
    bool is_small = s->small_partition && launch_nodes(l) == 1 && gpus <= s->small_gpus;

    job_name(out, l);
    lines(out, "#SBATCH ", s->account);
    if (s->partition)
        line(out, "#SBATCH --partition=", is_small ? s->small_partition : s->partition);
    counted(out, "--nodes=", launch_nodes(l), "");
    line(out, "#SBATCH --ntasks-per-node=1", NULL);
    if (s->cpus_per_gpu)
        counted(out, "--cpus-per-task=", (uint64_t)s->cpus_per_gpu * gpus, "");
    ask_gpus(out, s->gpus, gpus);
    ask_memory(out, s, gpus);
    lines(out, "#SBATCH ", s->options);
    if (s->time_limit)
        line(out, "#SBATCH --time=", s->time_limit);
}

static void export(void *to, const char *name, const char *value)
{
    struct buf *out = to;

    buf_str(out, "export ");
    buf_str(out, name);
    buf_char(out, '=');
    line(out, value, NULL);
}

/* The rendezvous: the job's first node, and a port that two jobs of one node do not share. */
static void write_meeting(struct buf *out, const struct launch *l)
{
    if (launch_nodes(l) == 1)
        return;
    line(out, "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)", NULL);
    line(out, "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))", NULL);
    line(out, "export MASTER_ADDR MASTER_PORT", NULL);
}

static void open_file(struct buf *out, const char *name)
{
    buf_str(out, "\ncat > ");
    buf_str(out, name);
    buf_str(out, " <<'EOF'\n");
}

static void write_files(struct buf *out, const struct launch *l)
{
    struct jsonw w;

    if (launch_has_deepspeed(l)) {
        open_file(out, launch_file(FILE_DEEPSPEED));
        jsonw_init(&w, out, true);
        launch_deepspeed(&w, NULL, l);
        line(out, "EOF", NULL);
    }
    if (launch_has_accelerate(l)) {
        open_file(out, launch_file(FILE_ACCELERATE));
        launch_accelerate(out, l);
        line(out, "EOF", NULL);
    }
    if (launch_has_script(l)) { /* a script of the reader's own stays */
        buf_str(out, "\n[ -e train.py ] || cat > train.py <<'EOF'\n");
        launch_script(out, l);
        line(out, "EOF", NULL);
    }
}

/* What differs between nodes is known to srun's tasks alone: hence a script of their own. */
static void write_start(struct buf *out, const struct launch *l)
{
    if (launch_nodes(l) > 1) {
        open_file(out, "node.sh");
        line(out, "export NODE_RANK=$SLURM_NODEID", NULL);
        launch_command(out, l);
        line(out, "\nEOF", NULL);
    }
    buf_str(out, "\nsrun ");
    if (launch_nodes(l) > 1)
        buf_str(out, "bash node.sh");
    else
        launch_command(out, l);
    buf_char(out, '\n');
}

void launch_slurm(struct buf *out, const struct launch *l)
{
    line(out, "#!/bin/bash", NULL);
    write_options(out, l);
    buf_char(out, '\n');
    lines(out, "", l->site->modules);
    if (!l->site->modules)
        line(out, "# Load or activate here what brings python and torch.", NULL);
    line(out, "set -euo pipefail", NULL);
    if (l->site->cpus_per_gpu)
        line(out, "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK", NULL);
    launch_environment(l, export, out);
    write_meeting(out, l);
    write_files(out, l);
    write_start(out, l);
}
