/*
 * listen.h - "127.0.0.1:8080" or "unix:/run/llmemd.sock" to a listening socket, or one that systemd opened.
 *
 * Unix      the file gets the mode that is asked; one that nobody listens on any more is replaced, and ours is removed at the end.
 * systemd   LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES (sd_listen_fds(3)): a socket named "admin" is the admin listener's, one more is the main one.
 */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include <stdbool.h>
#include <sys/stat.h>

struct listener {
    int fd;           /* -1: not open */
    bool is_loopback; /* this machine alone can reach it */
    bool is_shared;   /* it was handed over, and whoever did may listen on */
    char name[160];   /* "http://127.0.0.1:41234", as it turned out; "unix:/run/llmemd.sock" */
    char path[108];   /* of a file that we made; "": none */
    dev_t device;     /* and what it was then */
    ino_t inode;
};

/* false after a line on standard error, which names `flag`. */
bool listen_at(struct listener *ret, const char *flag, const char *where, unsigned mode);

/* What was handed over, if anything was; an fd of -1 is left to listen_at(). false: something was, and not as above. Once: the environment forgets it. */
bool listen_inherit(struct listener *main, struct listener *admin);

/* Nobody new gets as far as the queue, who stands in it stays: what is accepted until nobody waits leaves nobody there to be reset. */
void listen_refuse(const struct listener *l);

/* Somebody stands in the queue. */
bool listen_waits(int fd);

/* Nobody new; who wants to close it twice may. */
void listen_end(struct listener *l);

/* As many open files as `connections` and `others` need, if the system grants them; how many connections there are files for. */
unsigned listen_raise_files(unsigned connections, unsigned others);

#endif
