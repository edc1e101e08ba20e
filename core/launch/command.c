/*
 * The command that starts the job, the same words on every node, and its environment.
 *
 * Source    accelerate 1.15.0 commands/launch.py, utils/launch.py prepare_multi_gpu_env (static rendezvous: machine_rank, main_process_ip);
 *           torch 2.15 distributed/run.py. NODE_RANK, MASTER_ADDR and MASTER_PORT are the reader's, or the sbatch script's.
 *           PYTORCH_CUDA_ALLOC_CONF: torch docs/source/notes/cuda.rst. The Trainer puts nn.DataParallel around a model when one process
 *           sees several GPUs (training_args.py _setup_devices, trainer.py).
 */
#include "launch/launch.h"

#include <string.h>

#define PLAIN_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-"

static void shell_word(struct buf *out, const char *s)
{
    if (s[strspn(s, PLAIN_CHARACTERS)] == 0) {
        buf_str(out, s);
        return;
    }
    buf_char(out, '\'');
    for (; *s; s++)
        if (*s == '\'')
            buf_str(out, "'\\''");
        else
            buf_char(out, *s);
    buf_char(out, '\'');
}

static void named(struct buf *out, const char *flag, const char *value)
{
    buf_str(out, " \\\n    ");
    buf_str(out, flag);
    buf_char(out, ' ');
    shell_word(out, value);
}

static void counted(struct buf *out, const char *flag, uint64_t n)
{
    buf_str(out, flag);
    buf_u64(out, n);
}

static void start_accelerate(struct buf *out, const struct launch *l)
{
    buf_str(out, "accelerate launch --config_file ");
    buf_str(out, launch_file(FILE_ACCELERATE));
    if (launch_nodes(l) > 1)
        buf_str(out, " \\\n    --machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\"");
    buf_str(out, " \\\n    train.py");
}

static void start_torchrun(struct buf *out, const struct launch *l)
{
    buf_str(out, "torchrun");
    if (launch_nodes(l) == 1)
        buf_str(out, " --standalone");
    else
        counted(out, " --nnodes ", launch_nodes(l));
    counted(out, " --nproc_per_node ", launch_gpus_per_node(l));
    if (launch_nodes(l) > 1)
        buf_str(out, " \\\n    --node_rank \"$NODE_RANK\" --master_addr \"$MASTER_ADDR\" --master_port \"$MASTER_PORT\"");
    buf_str(out, " \\\n    train.py");
}

static void start(struct buf *out, const struct launch *l)
{
    enum launcher by = launch_method(l->step->r.method)->launcher;

    if (by == LAUNCHER_PYTHON)
        buf_str(out, "python train.py");
    else if (launch_has_accelerate(l))
        start_accelerate(out, l);
    else
        start_torchrun(out, l);
}

void launch_command(struct buf *out, const struct launch *l)
{
    struct arguments to = {.flags = out};

    start(out, l);
    if (!launch_is_trainer(l))
        return;
    if (l->model)
        named(out, "--model_name_or_path", l->model);
    if (l->revision)
        named(out, "--model_revision", l->revision);
    launch_training_arguments(&to, l);
}

/* "NAME=value;NAME=value" */
static void each_of(const char *list, launch_variable *each, void *to)
{
    char name[64], value[128];

    while (list && *list) {
        size_t n = strcspn(list, ";"), cut = strcspn(list, "=");

        if (cut < n && cut < sizeof name && n - cut - 1 < sizeof value) {
            memcpy(name, list, cut);
            name[cut] = 0;
            memcpy(value, list + cut + 1, n - cut - 1);
            value[n - cut - 1] = 0;
            each(to, name, value);
        }
        list += n + (list[n] == ';');
    }
}

void launch_environment(const struct launch *l, launch_variable *each, void *to)
{
    if (l->expandable_segments)
        each(to, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
    if (l->step->r.cudnn_attention == TRI_FALSE)
        each(to, "TORCH_CUDNN_SDPA_DEPRIORITIZED", "1");
    if (l->step->r.method == METHOD_SINGLE && !l->site && l->gpus_per_node > 1)
        each(to, "CUDA_VISIBLE_DEVICES", "0");
    if (l->site && launch_nodes(l) > 1)
        each_of(l->site->environment, each, to);
}
