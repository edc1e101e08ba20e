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

static struct snapshot *read_file(int dir, const char *path)
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
    if (!snapshot_check(text, bytes, why, sizeof why))
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
    return read_file(dir, path);
}

struct snapshot *models_dir_read(const char *dir, const char *model)
{
    static const char *const tails[] = {"/config.json", ".json"};
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct snapshot *s = NULL;
    bool absent;

    for (size_t i = 0; at >= 0 && !s && i < sizeof tails / sizeof *tails; i++) {
        char path[512];

        (void)snprintf(path, sizeof path, "%s%s", model, tails[i]);
        s = read_file(at, path);
    }
    if (at >= 0 && !s)
        s = read_flat(at, model);
    if (at >= 0)
        (void)close(at);
    return s ? s : hf_cache_read(dir, model, "main", &absent);
}
