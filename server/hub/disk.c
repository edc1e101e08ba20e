#include "server/hub/disk.h"

#include "server/hub/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 2048, ABANDONED_S = 3600 };

static const char magic[] = "llmemd config 1";
static const char unfinished[] = "new-";

struct disk {
    int dir;
    size_t files;
    unsigned serial;
    bool told;
};

/* --- the directory ------------------------------------------------------------------------------------------------------------------ */

static bool make_dirs(const char *dir)
{
    char path[4096];
    size_t n = strlen(dir);

    if (!n || n >= sizeof path)
        return false;
    for (size_t i = 1; i <= n; i++) {
        if (dir[i] != '/' && dir[i])
            continue;
        memcpy(path, dir, i);
        path[i] = 0;
        if (mkdir(path, 0700) && errno != EEXIST)
            return false;
    }
    return true;
}

struct listing {
    char name[SHA256_HEX + 16];
    time_t written;
};

static int by_age(const void *a, const void *b)
{
    const struct listing *x = a, *y = b;

    return (x->written > y->written) - (x->written < y->written);
}

static bool is_ours(const char *name)
{
    return strlen(name) == SHA256_HEX - 1 && strspn(name, "0123456789abcdef") == SHA256_HEX - 1;
}

static void remove_abandoned(struct disk *d, const char *name)
{
    struct stat s;

    if (!fstatat(d->dir, name, &s, AT_SYMLINK_NOFOLLOW) && time(NULL) - s.st_mtime > ABANDONED_S)
        (void)unlinkat(d->dir, name, 0);
}

/* Counts our files, and lists them when `ret` has room. */
static size_t list(struct disk *d, struct listing *ret, size_t max)
{
    int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    struct stat s;
    size_t n = 0;

    while (dir && (e = readdir(dir))) {
        if (!strncmp(e->d_name, unfinished, strlen(unfinished)))
            remove_abandoned(d, e->d_name);
        if (!is_ours(e->d_name))
            continue;
        if (n < max && !fstatat(d->dir, e->d_name, &s, AT_SYMLINK_NOFOLLOW)) {
            ret[n].written = s.st_mtime;
            memcpy(ret[n].name, e->d_name, SHA256_HEX);
        }
        n += !max || n < max;
    }
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
    return n;
}

static void prune(struct disk *d)
{
    size_t max = d->files + 16, n;
    struct listing *all = calloc(max, sizeof *all);

    if (!all)
        return;
    n = list(d, all, max);
    qsort(all, n, sizeof *all, by_age);
    for (size_t i = 0; i < n / 4; i++)
        (void)unlinkat(d->dir, all[i].name, 0);
    d->files = n - n / 4;
    free(all);
}

struct disk *disk_new(const char *dir)
{
    struct disk *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->dir = make_dirs(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (d->dir < 0) {
        fprintf(stderr, "llmemd: cache directory %s: %s; nothing is kept on disk\n", dir, strerror(errno));
        free(d);
        return NULL;
    }
    d->files = list(d, NULL, 0);
    return d;
}

void disk_free(struct disk *d)
{
    if (!d)
        return;
    (void)close(d->dir);
    free(d);
}

/* --- reading -------------------------------------------------------------------------------------------------------------------------- */

bool disk_slurp(int fd, char **ret, size_t *ret_bytes)
{
    size_t cap = CONFIG_BYTES_MAX + HEAD_MAX, n = 0;
    struct stat s;
    ssize_t got = -1;
    char *text = NULL;

    if (!fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_size >= 0 && (size_t)s.st_size <= cap)
        text = malloc((size_t)s.st_size + 1);
    while (text && n < (size_t)s.st_size && (got = read(fd, text + n, (size_t)s.st_size - n)) > 0)
        n += (size_t)got;
    (void)close(fd);
    if (!text || n != (size_t)s.st_size) {
        free(text);
        return false;
    }
    text[n] = 0;
    *ret = text;
    *ret_bytes = n;
    return true;
}

/* The next line of the head, its end replaced by a zero; NULL: there is none. */
static char *line(char **at, const char *end)
{
    char *start = *at, *stop = memchr(start, '\n', (size_t)(end - start));

    if (!stop)
        return NULL;
    *stop = 0;
    *at = stop + 1;
    return start;
}

static bool line_is(char **at, const char *end, const char *text, size_t n)
{
    const char *l = line(at, end);

    return l && strlen(l) == n && !memcmp(l, text, n);
}

static bool line_text(char **at, const char *end, char *ret, size_t bytes)
{
    const char *l = line(at, end);

    return l && (size_t)snprintf(ret, bytes, "%s", l) < bytes;
}

static bool line_number(char **at, const char *end, uint64_t *ret)
{
    const char *l = line(at, end);
    char *stop;

    if (!l || *l < '0' || *l > '9')
        return false;
    errno = 0;
    *ret = strtoull(l, &stop, 10);
    return !*stop && !errno;
}

static bool key_matches(char **at, const char *end, const char *key)
{
    for (unsigned i = 0; i < 3; i++) {
        size_t n = strcspn(key, "\n");

        if (!line_is(at, end, key, n))
            return false;
        key += n + (key[n] == '\n');
    }
    return true;
}

static struct snapshot *unpack(char *text, size_t bytes, const char *key)
{
    struct snapshot_facts f = {.source = "hub"};
    uint64_t checked, counted, is_private, length;
    char sum[SHA256_HEX], *at = text;
    const char *end = text + bytes;

    if (!line_is(&at, end, magic, strlen(magic)) || !key_matches(&at, end, key) || !line_text(&at, end, f.commit, sizeof f.commit) ||
        !line_text(&at, end, f.etag, sizeof f.etag) || !line_number(&at, end, &checked) || !line_number(&at, end, &f.parameters) ||
        !line_number(&at, end, &counted) || !line_number(&at, end, &is_private) || !line_number(&at, end, &length) ||
        end - at < SHA256_HEX || length != (size_t)(end - at) - SHA256_HEX)
        return NULL;
    sha256_hex(at + SHA256_HEX, (size_t)length, sum);
    if (!line_is(&at, end, sum, SHA256_HEX - 1))
        return NULL;
    f.checked_s = (int64_t)checked;
    f.counted = counted;
    f.is_private = is_private;
    return snapshot_new(at, (size_t)length, &f);
}

struct snapshot *disk_read(struct disk *d, const char *key)
{
    char name[SHA256_HEX], *text;
    struct snapshot *s;
    size_t bytes;
    int fd;

    sha256_hex(key, strlen(key), name);
    fd = openat(d->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || !disk_slurp(fd, &text, &bytes))
        return NULL;
    s = bytes > SHA256_HEX + sizeof magic ? unpack(text, bytes, key) : NULL;
    free(text);
    return s;
}

/* --- writing -------------------------------------------------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t put = write(fd, data, bytes);

        if (put <= 0)
            return false;
        data += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* 0, or errno. Closes fd. */
static int write_file(int fd, const char *key, const struct snapshot *s)
{
    const struct snapshot_facts *f = &s->facts;
    char head[HEAD_MAX], sum[SHA256_HEX];
    int n, why = 0;

    sha256_hex(s->text, s->bytes, sum);
    n = snprintf(head, sizeof head, "%s\n%s\n%s\n%s\n%" PRId64 "\n%" PRIu64 "\n%d\n%d\n%zu\n%s\n", magic, key, f->commit, f->etag,
                 f->checked_s < 0 ? 0 : f->checked_s, f->parameters, f->counted, f->is_private, s->bytes, sum);
    errno = EINVAL;
    if (n <= 0 || n >= HEAD_MAX || !write_all(fd, head, (size_t)n) || !write_all(fd, s->text, s->bytes) || fsync(fd))
        why = errno;
    return close(fd) && !why ? errno : why;
}

static bool failed(struct disk *d, const char *temporary, int why)
{
    if (!d->told)
        fprintf(stderr, "llmemd: cache directory: %s; configs are kept in memory alone\n", strerror(why));
    d->told = true;
    if (temporary)
        (void)unlinkat(d->dir, temporary, 0);
    return false;
}

bool disk_write(struct disk *d, const char *key, const struct snapshot *s)
{
    char name[SHA256_HEX], temporary[64];
    uint64_t by_chance;
    bool is_new;
    int fd, why;

    sha256_hex(key, strlen(key), name);
    if (getrandom(&by_chance, sizeof by_chance, 0) != sizeof by_chance) /* in containers that share a directory every pid is 1 */
        by_chance = (uint64_t)getpid();
    (void)snprintf(temporary, sizeof temporary, "%s%016" PRIx64 "-%u", unfinished, by_chance, d->serial++);
    fd = openat(d->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(d, NULL, errno);
    why = write_file(fd, key, s);
    is_new = faccessat(d->dir, name, F_OK, 0) != 0;
    if (!why && renameat(d->dir, temporary, d->dir, name))
        why = errno;
    if (why)
        return failed(d, temporary, why);
    d->files += is_new;
    if (d->files > DISK_FILES_MAX)
        prune(d);
    return true;
}
