#include "server/hub/models_dir.h"

#include "server/hub/disk.h"
#include "server/hub/hf_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For the owner, whose file it is: the answer comes from elsewhere. */
static void complain(const char *path, const char *what)
{
    fprintf(stderr, "llmemd: --models: %s: %s\n", path, what);
}

static struct snapshot *read_file(int dir, const char *path, const char *file)
{
    struct snapshot_facts f = {.source = "directory"};
    struct snapshot *s = NULL;
    char *text, why[160];
    size_t bytes;
    int fd = openat(dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    if (!disk_slurp(fd, &text, &bytes)) {
        complain(path, "no regular file of at most 1 MiB that can be read");
        return NULL;
    }
    if (!snapshot_check(file, text, bytes, why, sizeof why))
        s = snapshot_new(text, bytes, &f);
    else
        complain(path, why);
    free(text);
    return s;
}

static struct snapshot *read_flat(int dir, const char *model)
{
    const char *slash = strchr(model, '/');
    char path[512];

    if (!slash)
        return NULL;
    (void)snprintf(path, sizeof path, "%.*s__%s.json", (int)(slash - model), model, slash + 1);
    return read_file(dir, path, "config.json");
}

static struct snapshot *read_folder(int dir, const char *model, const char *file)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", model, file);
    return read_file(dir, path, file);
}

static struct snapshot *read_alone(int dir, const char *model)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s.json", model);
    return read_file(dir, path, "config.json");
}

struct snapshot *models_dir_read(const char *dir, const char *model, const char *revision, const char *file)
{
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_main = !strcmp(revision, "main"), is_config = !strcmp(file, "config.json"), absent;
    struct snapshot *s = at >= 0 && is_main ? read_folder(at, model, file) : NULL;

    if (at >= 0 && !s && is_config && is_main)
        s = read_alone(at, model);
    if (at >= 0 && !s && is_config && is_main)
        s = read_flat(at, model);
    if (at >= 0)
        (void)close(at);
    return s ? s : hf_cache_read(dir, model, revision, file, &absent);
}
