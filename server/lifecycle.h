/*
 * lifecycle.h - from the first signal to the last answer.
 *
 * Course    SIGTERM or SIGINT: /readyz is red. After drain_wait_s nobody new is accepted. Answers under way go out; what is not
 *           ready after drain_s is refused as draining. A second signal ends the process at once.
 */
#ifndef SERVER_LIFECYCLE_H
#define SERVER_LIFECYCLE_H

#include "server/options.h"

/* Serves until it is told to stop; the process's exit status. */
int lifecycle_serve(const struct options *o);

#endif
