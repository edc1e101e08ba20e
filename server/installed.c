#include "server/installed.h"

#include "models/installed.h"
#include "server/block.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RELEASES = 8, FILE_MOST = 2 << 20, ALL_MOST = 64 << 20, IMAGE_ROOM = 64 << 20, NAME_ROOM = 192, SLOTS = 1024 };

struct file {
    struct file *next;
    char *text;       /* NULL: it is not there, or refused */
    const char *why;  /* it is refused */
    size_t bytes;
    char name[NAME_ROOM]; /* "transformers/models/.." */
};

struct folder {
    struct installed is;
    struct arena room;
    void *block;
    int fd;
    size_t bytes;
    char release[32];
    pthread_mutex_t lock;
    struct file *slots[SLOTS];
};

static const char package[] = "transformers/";
static struct folder *folders[RELEASES];
static const struct installed *all[RELEASES + 1];
static unsigned n_folders;

/* ------------------------------------------------------------------------------------------------------------- one file */
/* Names come from import statements of strangers' files. */
static bool is_plain(const char *path)
{
    size_t n = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.");

    return n && !path[n] && n < NAME_ROOM - sizeof package && *path != '/' && *path != '.' && !strstr(path, "..") && !strstr(path, "//");
}

/* Beneath the folder, links within it included; a kernel before 5.6 follows none. */
static int open_beneath(int at, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    char part[NAME_ROOM];
    const char *slash;
    int fd = (int)syscall(SYS_openat2, at, path, &how, sizeof how);

    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    fd = dup(at);
    for (; fd >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        int next;

        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    if (fd >= 0) {
        int last = openat(fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        close(fd);
        fd = last;
    }
    return fd;
}

/* Every byte that begins a character is followed by as many as it says; no NUL. */
static bool is_utf8(const char *text, size_t bytes)
{
    const unsigned char *c = (const unsigned char *)text, *end = c + bytes;

    while (c < end) {
        int more = *c < 0x80 ? 0 : *c < 0xC2 ? -1 : *c < 0xE0 ? 1 : *c < 0xF0 ? 2 : *c < 0xF5 ? 3 : -1;

        if (!*c || more < 0 || end - c <= more)
            return false;
        for (c++; more--; c++)
            if ((*c & 0xC0) != 0x80)
                return false;
    }
    return true;
}

static const char *slurp(int fd, size_t room, char **ret, size_t *ret_bytes)
{
    struct stat st;
    size_t n = 0;
    ssize_t got = 1;
    char *text;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return "no regular file";
    if (st.st_size > FILE_MOST)
        return "more than 2 MiB";
    if ((size_t)st.st_size > room)
        return "the files of this release take more than 64 MiB";
    text = malloc((size_t)st.st_size + 1);
    while (text && n < (size_t)st.st_size && (got = read(fd, text + n, (size_t)st.st_size - n)) != 0)
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            break;
    if (!text || got < 0) {
        free(text);
        return text ? "cannot be read" : "no memory for it";
    }
    text[n] = 0;
    if (!is_utf8(text, n)) {
        free(text);
        return "not UTF-8";
    }
    *ret = text;
    *ret_bytes = n;
    return NULL;
}

static void fill(struct folder *d, struct file *f, const char *path)
{
    int fd = is_plain(path) ? open_beneath(d->fd, path) : -1;

    if (fd >= 0) {
        f->why = slurp(fd, ALL_MOST - d->bytes, &f->text, &f->bytes);
        d->bytes += f->text ? f->bytes : 0;
        close(fd);
    } else if (is_plain(path) && (errno == ELOOP || errno == EXDEV)) {
        f->why = errno == ELOOP ? "a link that leads out of the folder, or round in a ring" : "a link that leads out of the folder";
    } else if (is_plain(path) && errno != ENOENT && errno != ENOTDIR) {
        f->why = "cannot be opened";
    }
}

static struct file **slot_of(struct folder *d, const char *path)
{
    uint32_t hash = 2166136261;

    for (const char *c = path; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619;
    return &d->slots[hash % SLOTS];
}

static struct file *file_of(struct folder *d, const char *path)
{
    struct file **slot = slot_of(d, path), *f;

    for (f = *slot; f; f = f->next)
        if (!strcmp(f->name + sizeof package - 1, path))
            return f;
    if (strlen(path) >= NAME_ROOM - sizeof package)
        return NULL;
    f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    (void)snprintf(f->name, sizeof f->name, "%s%s", package, path);
    fill(d, f, path);
    f->next = *slot;
    *slot = f;
    return f;
}

static enum installed_file read_file(void *of, const char *path, const char **ret_name, const char **ret_text, size_t *ret_bytes)
{
    struct folder *d = of;
    struct file *f;

    pthread_mutex_lock(&d->lock);
    f = file_of(d, path);
    pthread_mutex_unlock(&d->lock);
    if (!f || (!f->text && !f->why))
        return INSTALLED_ABSENT;
    *ret_name = f->name;
    *ret_text = f->text ? f->text : f->why;
    *ret_bytes = f->bytes;
    return f->text ? INSTALLED_READ : INSTALLED_REFUSED;
}

/* ----------------------------------------------------------------------------------------------------------- one folder */
static bool complain(const char *folder, const char *what)
{
    fprintf(stderr, "llmemd: --transformers: %.300s: %s\n", folder, what);
    return false;
}

/* .../transformers itself, or the one in it. */
static bool enter(struct folder *d, const char *folder)
{
    struct stat st;
    int fd;

    d->fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0)
        return complain(folder, errno == ENOTDIR ? "no folder" : "cannot be opened");
    if (!fstatat(d->fd, "modeling_utils.py", &st, 0))
        return true;
    fd = openat(d->fd, "transformers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(d->fd);
    d->fd = fd;
    return fd >= 0 || complain(folder, "no transformers: the folder has neither modeling_utils.py nor transformers/");
}

/* What cannot do without: NULL, and why is told. */
static const char *needed(struct folder *d, const char *folder, const char *path, size_t *ret_bytes)
{
    const char *name, *text = "it is not there";

    if (read_file(d, path, &name, &text, ret_bytes) == INSTALLED_READ)
        return text;
    fprintf(stderr, "llmemd: --transformers: %.300s/%s: %s\n", folder, path, text);
    return NULL;
}

static bool begin(struct folder *d, const char *folder)
{
    const char *text;
    struct err err;
    size_t bytes, table_bytes;

    if (!enter(d, folder))
        return false;
    text = needed(d, folder, "__init__.py", &bytes);
    if (!text || !needed(d, folder, "models/auto/modeling_auto.py", &table_bytes)) /* which class a type has */
        return false;
    if (!installed_version(text, bytes, d->release, sizeof d->release))
        return complain(folder, "__init__.py does not say a __version__ that is a release");
    d->block = block_new(IMAGE_ROOM);
    if (!d->block)
        return complain(folder, "no memory");
    arena_init(&d->room, d->block, IMAGE_ROOM);
    d->is = (struct installed){.read = read_file, .of = d, .release = d->release};
    if (installed_image(&d->room, d->release, &d->is.image, &err))
        return complain(folder, err.detail);
    block_forget(&d->room);
    return true;
}

static void end(struct folder *d)
{
    for (size_t i = 0; i < SLOTS; i++)
        for (struct file *f = d->slots[i], *next; f; f = next) {
            next = f->next;
            free(f->text);
            free(f);
        }
    if (d->fd >= 0)
        close(d->fd);
    block_free(d->block, IMAGE_ROOM);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

bool installed_open(const char *joined)
{
    while (joined && *joined) {
        size_t n = strcspn(joined, ":");
        struct folder *d = calloc(1, sizeof *d);
        char *one = strndup(joined, n);
        bool ok = d && one && n_folders < RELEASES;

        if (d) {
            d->fd = -1;
            pthread_mutex_init(&d->lock, NULL);
        }
        ok = ok ? begin(d, one) : complain(joined, "at most 8 releases, or no memory");
        free(one);
        if (!ok) {
            if (d)
                end(d);
            return false;
        }
        folders[n_folders] = d;
        all[n_folders++] = &d->is;
        joined += n + (joined[n] == ':');
    }
    return true;
}

void installed_close(void)
{
    while (n_folders) {
        end(folders[--n_folders]);
        all[n_folders] = NULL;
    }
}

const struct installed *const *installed_all(void)
{
    return n_folders ? all : NULL;
}
