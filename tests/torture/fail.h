/*
 * fail.h - what the system gives fails once, or from then on, when the test says so.
 *
 * Purpose   stands in front of malloc and its kin, of what opens files and sockets, of writing to files, of starting threads and mapping
 *           memory. Linked into a test, or preloaded into the daemon (LD_PRELOAD=fail.so), where a file that the test maps too says what
 *           fails: FAIL_CONTROL=path.
 * Counting  calls of a kind are counted while it is armed; the one numbered `at` fails.
 */
#ifndef TORTURE_FAIL_H
#define TORTURE_FAIL_H

#include <stdint.h>

enum fail_kind {
    FAIL_MEMORY, /* malloc, calloc, realloc, aligned: NULL, ENOMEM */
    FAIL_FILES,  /* open, openat, socket, accept4, pipe2, eventfd, epoll_create1, dup: -1, EMFILE */
    FAIL_WRITES, /* write to a file, fsync, rename: -1, ENOSPC */
    FAIL_THREADS, /* pthread_create: EAGAIN */
    FAIL_MAPS,   /* mmap: MAP_FAILED, ENOMEM */
    FAIL_KINDS
};

/* Layout known to tests/torture/daemon.py: rows of three numbers. */
struct fail_control {
    struct {
        uint64_t at;      /* which call fails, from 1; 0: none does */
        uint64_t forever; /* and all after it */
        uint64_t seen;    /* calls since it was set to 0 */
    } of[FAIL_KINDS];
    int64_t blocks; /* of memory that are held now */
};

extern struct fail_control *fail_control;

#endif
