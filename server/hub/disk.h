/*
 * disk.h - our own configs on disk, so that a restart asks the hub for nothing it has just said.
 *
 * Purpose   one file a key, named by the key's SHA-256: a head of lines (key, commit, ETag, when it was checked, what the hub counts)
 *           and the text, with its length and SHA-256. Written under another name, synced, renamed: a reader sees all of it or
 *           nothing, whoever else shares the directory. A file that is not whole, or not this key's, is as none.
 * Limits    DISK_FILES_MAX files; beyond, the quarter written longest ago goes. Mode 0600, since a token may have opened them.
 * Errors    a disk that is full or read-only keeps nothing; the first such failure is told on standard error.
 * Threads   the hub's helper alone.
 */
#ifndef SERVER_HUB_DISK_H
#define SERVER_HUB_DISK_H

#include "server/hub/snapshot.h"

enum { DISK_FILES_MAX = 20000 };

struct disk;

/* Makes the directory and its parents. NULL: it cannot be used; a line on standard error says why. */
struct disk *disk_new(const char *dir);
void disk_free(struct disk *d);

/* NULL: none. key: "model\nrevision\nwho". */
struct snapshot *disk_read(struct disk *d, const char *key);
bool disk_write(struct disk *d, const char *key, const struct snapshot *s);

/* Reads a regular file of at most CONFIG_BYTES_MAX and some more bytes; *ret is malloc'd. Closes fd. */
bool disk_slurp(int fd, char **ret, size_t *ret_bytes);

#endif
