/*
 * memory.h - what malloc() does with what is given back. Answers, bodies and documents come and go in sizes from strangers' hands; glibc keeps what they leave
 * unless it is told otherwise. With another C library these do nothing.
 *
 * Threads   any.
 */
#ifndef SERVER_MEMORY_H
#define SERVER_MEMORY_H

#include <stdbool.h>

void memory_begin(void); /* before any thread */

/* Free pages go back to the system. Not at_once: not more often than every few seconds. */
void memory_trim(bool at_once);
void memory_trim_if_due(void); /* now and then: what was left out as too soon is made up for */

#endif
