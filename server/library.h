/*
 * library.h - what modelling code imports, compiled once a process: the first request that needs it waits for it (some milliseconds).
 *
 * Threads   any may ask; what it is given is read only and lives as long as the process.
 */
#ifndef SERVER_LIBRARY_H
#define SERVER_LIBRARY_H

struct program_library;

const struct program_library *library_shared(void); /* NULL: no memory */

#endif
