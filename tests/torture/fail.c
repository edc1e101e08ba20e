#define _GNU_SOURCE
#include "tests/torture/fail.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fail_control own;
struct fail_control *fail_control = &own;

static bool fails(enum fail_kind kind)
{
    uint64_t n = __atomic_add_fetch(&fail_control->of[kind].seen, 1, __ATOMIC_RELAXED);
    uint64_t at = __atomic_load_n(&fail_control->of[kind].at, __ATOMIC_RELAXED);

    return at && (n == at || (n > at && fail_control->of[kind].forever));
}

/* libcurl 7.88.1 goes on with a connection that it has freed when the memory for an address fails: nothing that we could mend. */
static bool is_curls(void)
{
    void *callers[4]; /* this one, malloc, perhaps strdup */
    int n = backtrace(callers, 4);
    Dl_info of;

    for (int i = 0; i < n; i++)
        if (dladdr(callers[i], &of) && of.dli_fname && strstr(of.dli_fname, "libcurl"))
            return true;
    return false;
}

#define NO_MEMORY() (fails(FAIL_MEMORY) && !is_curls())

static void held(int64_t n)
{
    __atomic_add_fetch(&fail_control->blocks, n, __ATOMIC_RELAXED);
}

/* The function that is called so behind us. */
#define REAL(name) ((__typeof__(&name))(uintptr_t)real(&real_##name, #name))
static void *real(void **at, const char *name)
{
    void *found = __atomic_load_n(at, __ATOMIC_RELAXED);

    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        if (!found)
            abort();
        __atomic_store_n(at, found, __ATOMIC_RELAXED);
    }
    return found;
}

/* --- memory ------------------------------------------------------------------------------------------------------------------------ */

static void *real_malloc, *real_calloc, *real_realloc, *real_free, *real_posix_memalign, *real_aligned_alloc;

/* What is asked for before this library's own beginning, and by dlsym(). Never given back. */
static _Alignas(16) unsigned char early[1 << 20];
static bool has_begun;
static size_t early_bytes;
static __thread bool looking;

static void *take_early(size_t bytes)
{
    size_t at = __atomic_fetch_add(&early_bytes, (bytes + 15) & ~(size_t)15, __ATOMIC_RELAXED);

    return at + bytes <= sizeof early ? early + at : NULL;
}

static bool is_early(const void *p)
{
    return (const unsigned char *)p >= early && (const unsigned char *)p < early + sizeof early;
}

static bool look(void)
{
    if (!has_begun || looking)
        return false;
    looking = true;
    (void)REAL(malloc), (void)REAL(calloc), (void)REAL(realloc), (void)REAL(free);
    looking = false;
    return true;
}

static void *counted(void *p)
{
    held(p ? 1 : 0);
    return p;
}

void *malloc(size_t bytes)
{
    if (!real_free && !look())
        return take_early(bytes);
    if (NO_MEMORY()) {
        errno = ENOMEM;
        return NULL;
    }
    return counted(REAL(malloc)(bytes));
}

void *calloc(size_t n, size_t bytes)
{
    if (!real_free && !look())
        return take_early(n * bytes);
    if (NO_MEMORY()) {
        errno = ENOMEM;
        return NULL;
    }
    return counted(REAL(calloc)(n, bytes));
}

void *realloc(void *p, size_t bytes)
{
    void *q;

    if (!real_free && !look())
        return take_early(bytes);
    if (is_early(p)) {
        q = malloc(bytes);
        return q ? memcpy(q, p, bytes < (size_t)(early + sizeof early - (unsigned char *)p) ? bytes : 0) : NULL;
    }
    if (NO_MEMORY()) {
        errno = ENOMEM;
        return NULL;
    }
    q = REAL(realloc)(p, bytes);
    held(!p && q ? 1 : p && !q && !bytes ? -1 : 0);
    return q;
}

int posix_memalign(void **ret, size_t alignment, size_t bytes)
{
    int rc;

    if (NO_MEMORY())
        return ENOMEM;
    rc = REAL(posix_memalign)(ret, alignment, bytes);
    held(rc ? 0 : 1);
    return rc;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (NO_MEMORY()) {
        errno = ENOMEM;
        return NULL;
    }
    return counted(REAL(aligned_alloc)(alignment, bytes));
}

/* A sanitizer's own would allocate past this library, and free() count what malloc() has not. */
char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

void free(void *p)
{
    if (!p || is_early(p))
        return;
    held(-1);
    REAL(free)(p);
}

/* --- files and sockets ------------------------------------------------------------------------------------------------------------- */

static int no_file(void)
{
    errno = EMFILE;
    return -1;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

static void *real_open, *real_open64, *real_openat, *real_socket, *real_accept4, *real_accept, *real_pipe2, *real_eventfd, *real_epoll_create1, *real_fopen;

int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return fails(FAIL_FILES) ? no_file() : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return fails(FAIL_FILES) ? no_file() : REAL(open64)(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = mode_of(flags, args);
    va_end(args);
    return fails(FAIL_FILES) ? no_file() : REAL(openat)(dir, path, flags, mode);
}

int socket(int domain, int type, int protocol)
{
    return fails(FAIL_FILES) ? no_file() : REAL(socket)(domain, type, protocol);
}

int accept4(int fd, struct sockaddr *a, socklen_t *bytes, int flags)
{
    return fails(FAIL_FILES) ? no_file() : REAL(accept4)(fd, a, bytes, flags);
}

int accept(int fd, struct sockaddr *a, socklen_t *bytes)
{
    return fails(FAIL_FILES) ? no_file() : REAL(accept)(fd, a, bytes);
}

int pipe2(int ret[2], int flags)
{
    return fails(FAIL_FILES) ? no_file() : REAL(pipe2)(ret, flags);
}

int eventfd(unsigned n, int flags)
{
    return fails(FAIL_FILES) ? no_file() : REAL(eventfd)(n, flags);
}

int epoll_create1(int flags)
{
    return fails(FAIL_FILES) ? no_file() : REAL(epoll_create1)(flags);
}

FILE *fopen(const char *path, const char *mode)
{
    if (fails(FAIL_FILES)) {
        errno = EMFILE;
        return NULL;
    }
    return REAL(fopen)(path, mode);
}

/* --- writing ------------------------------------------------------------------------------------------------------------------------ */

static void *real_write, *real_fsync, *real_renameat;

static bool is_file(int fd)
{
    struct stat s;

    return !fstat(fd, &s) && S_ISREG(s.st_mode);
}

static int no_space(void)
{
    errno = ENOSPC;
    return -1;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    return is_file(fd) && fails(FAIL_WRITES) ? no_space() : REAL(write)(fd, data, bytes);
}

int fsync(int fd)
{
    return fails(FAIL_WRITES) ? no_space() : REAL(fsync)(fd);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return fails(FAIL_WRITES) ? no_space() : REAL(renameat)(from_dir, from, to_dir, to);
}

/* --- threads and maps -------------------------------------------------------------------------------------------------------------- */

static void *real_pthread_create, *real_mmap;

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return fails(FAIL_THREADS) ? EAGAIN : REAL(pthread_create)(ret, attr, run, arg);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fails(FAIL_MAPS)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return REAL(mmap)(at, bytes, protection, flags, fd, offset);
}

/* --- a control that the test shares ------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void share(void)
{
    const char *path = getenv("FAIL_CONTROL");
    int fd;
    void *map;

    has_begun = true;
    (void)backtrace(&map, 1); /* loads what it needs */
    fd = path ? REAL(open)(path, O_RDWR | O_CLOEXEC, 0) : -1;
    map = fd < 0 ? MAP_FAILED : REAL(mmap)(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd >= 0)
        (void)close(fd);
    if (map == MAP_FAILED)
        return;
    ((struct fail_control *)map)->blocks += own.blocks;
    fail_control = map;
}
