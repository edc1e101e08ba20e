#include "server/hub/hf_cache.h"

#include "server/hub/disk.h"
#include "server/hub/name.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* The directory that holds `path`, opened part by part; *ret_name: its last part. -1: none. */
static int open_parent(int from, const char *path, const char **ret_name)
{
    int at = fcntl(from, F_DUPFD_CLOEXEC, 0);

    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char part[256];
        int next = -1;

        if ((size_t)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path) < sizeof part)
            next = openat(at, part, DIR_FLAGS);
        (void)close(at);
        at = next;
    }
    *ret_name = path;
    return at;
}

static int open_within(int from, const char *path)
{
    const char *name;
    int parent = open_parent(from, path, &name), fd = -1;

    if (parent >= 0) {
        fd = openat(parent, name, FILE_FLAGS);
        (void)close(parent);
    }
    return fd;
}

static bool exists_within(int from, const char *path)
{
    const char *name;
    int parent = open_parent(from, path, &name);
    struct stat s;
    bool is = parent >= 0 && !fstatat(parent, name, &s, AT_SYMLINK_NOFOLLOW) && S_ISREG(s.st_mode);

    if (parent >= 0)
        (void)close(parent);
    return is;
}

static int open_model(const char *dir, const char *model)
{
    const char *slash = strchr(model, '/');
    char path[4096];
    int n;

    if (slash)
        n = snprintf(path, sizeof path, "%s/models--%.*s--%s", dir, (int)(slash - model), model, slash + 1);
    else
        n = snprintf(path, sizeof path, "%s/models--%s", dir, model);
    return n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1; /* the owner may have linked it here */
}

static bool commit_of(int repository, const char *revision, char ret[41])
{
    char path[300], *text;
    size_t bytes;
    int fd;

    if (is_commit(revision)) {
        memcpy(ret, revision, 41);
        return true;
    }
    (void)snprintf(path, sizeof path, "refs/%s", revision);
    fd = open_within(repository, path);
    if (fd < 0 || !disk_slurp(fd, &text, &bytes))
        return false;
    (void)snprintf(ret, 41, "%.*s", (int)strcspn(text, " \r\n"), text);
    free(text);
    return is_commit(ret);
}

/* "../../blobs/{etag}" of the link; false: it is none, or leads elsewhere. */
static bool blob_of(int snapshot, const char *file, char *ret, size_t bytes)
{
    static const char up[] = "../../blobs/";
    char target[300];
    ssize_t n = readlinkat(snapshot, file, target, sizeof target - 1);
    const char *etag = target + strlen(up);

    if (n <= (ssize_t)strlen(up))
        return false;
    target[n] = 0;
    if (strncmp(target, up, strlen(up)) != 0 || strchr(etag, '/') || etag[0] == '.' || strlen(etag) >= bytes)
        return false;
    memcpy(ret, etag, strlen(etag) + 1);
    return true;
}

static int open_file(int repository, const char *commit, const char *file, char *ret_etag, size_t etag_bytes)
{
    char path[400];
    const char *name;
    int snapshot, fd = -1;

    (void)snprintf(path, sizeof path, "snapshots/%s/%s", commit, file);
    snapshot = open_parent(repository, path, &name);
    if (snapshot < 0)
        return -1;
    if (blob_of(snapshot, file, ret_etag, etag_bytes)) {
        (void)snprintf(path, sizeof path, "blobs/%s", ret_etag);
        fd = open_within(repository, path);
    } else {
        ret_etag[0] = 0;
        fd = openat(snapshot, name, FILE_FLAGS);
    }
    (void)close(snapshot);
    return fd;
}

static struct snapshot *read_file(int repository, const char *commit, const char *file)
{
    struct snapshot_facts f = {.source = "hf_cache"};
    struct snapshot *s = NULL;
    char *text, why[160];
    size_t bytes;
    int fd = open_file(repository, commit, file, f.etag, sizeof f.etag);

    if (fd < 0 || !disk_slurp(fd, &text, &bytes))
        return NULL;
    memcpy(f.commit, commit, sizeof f.commit);
    if (!snapshot_check(file, text, bytes, why, sizeof why))
        s = snapshot_new(text, bytes, &f);
    free(text);
    return s;
}

struct snapshot *hf_cache_read(const char *dir, const char *model, const char *revision, const char *file, bool *ret_absent)
{
    int repository = open_model(dir, model);
    struct snapshot *s = NULL;
    char commit[41], absent[160];

    *ret_absent = false;
    if (repository < 0)
        return NULL;
    if (commit_of(repository, revision, commit)) {
        s = read_file(repository, commit, file);
        (void)snprintf(absent, sizeof absent, ".no_exist/%s/%s", commit, file);
        *ret_absent = !s && exists_within(repository, absent);
    }
    (void)close(repository);
    return s;
}
