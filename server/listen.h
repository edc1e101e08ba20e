/*
 * listen.h - "127.0.0.1:8080" to a listening socket.
 */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include <stddef.h>

/* A socket that listens, or -1 after a line on standard error. Writes "127.0.0.1:41234" as it turned out. */
int listen_at(const char *where, char *ret_name, size_t bytes);

/* As many descriptors as may be open at once, `others` beside connections; the system may grant fewer, and then accept() waits. */
void listen_raise_files(unsigned connections, unsigned others);

#endif
