/* The object "launch" of an answer. Its members: openapi.yaml, Launch. */
#include "launch/launch.h"

/* A text of our own as a JSON string. It is made where the answer is made: nothing of it stays. */
static void write_text(struct jsonw *w, const char *name, const struct launch *l, void (*make)(struct buf *out, const struct launch *l))
{
    char room[16384];
    struct buf text;

    buf_init_fixed(&text, room, sizeof room);
    make(&text, l);
    if (!buf_ok(&text))
        w->out->failed = true;
    jsonw_str(w, name, buf_text(&text));
}

static void write_variable(void *to, const char *name, const char *value)
{
    jsonw_str(to, name, value);
}

static void write_environment(struct jsonw *w, const struct launch *l)
{
    jsonw_object(w, "env");
    launch_environment(l, write_variable, w);
    jsonw_end(w);
}

static void write_files(struct jsonw *w, const struct launch *l)
{
    jsonw_object(w, "files");
    if (launch_has_deepspeed(l))
        jsonw_str(w, launch_file(FILE_DEEPSPEED), "deepspeed_config");
    if (launch_has_accelerate(l))
        jsonw_str(w, launch_file(FILE_ACCELERATE), "accelerate_config");
    if (launch_has_script(l))
        jsonw_str(w, launch_file(FILE_SCRIPT), "script");
    jsonw_end(w);
}

static void write_arguments(struct jsonw *w, const struct launch *l)
{
    struct arguments to = {.object = w};

    jsonw_object(w, "training_arguments");
    launch_training_arguments(&to, l);
    jsonw_end(w);
}

void launch_write(struct jsonw *w, const char *name, const struct launch *l)
{
    jsonw_object(w, name);
    write_text(w, "command", l, launch_command);
    if (l->site && l->site->gpus)
        write_text(w, "slurm", l, launch_slurm);
    if (launch_has_deepspeed(l))
        launch_deepspeed(w, "deepspeed_config", l);
    if (launch_has_accelerate(l))
        write_text(w, "accelerate_config", l, launch_accelerate);
    if (launch_is_trainer(l))
        write_arguments(w, l);
    if (launch_has_script(l))
        write_text(w, "script", l, launch_script);
    launch_model_arguments(w, "model_init_kwargs", l);
    if (l->step->r.tuning != TUNING_FULL)
        launch_lora(w, "lora_config", l);
    write_environment(w, l);
    write_files(w, l);
    launch_notes(w, "notes", l);
    jsonw_end(w);
}
