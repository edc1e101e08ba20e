/*
 * client.h - who is connected, and since when each does what: for deadlines that no byte starts anew.
 *
 * Threads   a list belongs to one.
 */
#ifndef SERVER_CLIENT_H
#define SERVER_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum client_phase { CLIENT_IDLE, CLIENT_READING, CLIENT_WAITING, CLIENT_SENDING };

struct client {
    struct client *next, **at;
    int fd; /* the adapter's */
    void *request;    /* the adapter's: what is under way; NULL */
    enum client_phase phase;
    bool is_cut, is_gone; /* by us; by its own will, while it waited */
    bool is_refused;      /* by bytes of our own, behind the library's back */
    bool is_counted;  /* among the open connections: one that was cut is no more (crowd.h) */
    bool is_exempt;   /* from the limit of one address */
    unsigned slot;    /* of its address */
    uint64_t since_ms;
    char address[INET6_ADDRSTRLEN]; /* "unix" of a unix socket */
};

/* Idle. NULL: no memory. */
struct client *client_new(struct client **list, int fd, const struct sockaddr *address, uint64_t now_ms);
void client_free(struct client *c);

/* c: may be NULL. */
void client_enter(struct client *c, enum client_phase phase, uint64_t now_ms);

/* Who has been idle longest, so that a newcomer finds room; of one slot, or of any (slot < 0). NULL: nobody is idle. */
struct client *clients_oldest_idle(struct client *list, int slot);
void client_cut(struct client *c);

/* The other side has ended it, and nothing is left to read. Who sends more meanwhile is there. */
bool client_has_left(int fd);

/* Cuts who has been idle, or at one request, for too long, and who left with the library none the wiser: an end that comes together with the last bytes is
   no event of its own. Who waits for an answer is not at fault. Once a second. */
void clients_cut(struct client *list, uint64_t now_ms, uint64_t idle_ms, uint64_t deadline_ms);

#endif
