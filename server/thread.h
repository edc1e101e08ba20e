/*
 * thread.h - threads begin here.
 *
 * Signals   a new thread takes none that is sent to the process: they are for the thread that waits for them (lifecycle.c), whoever
 *           links the hub's client. What a fault of the thread's own raises stays open.
 */
#ifndef SERVER_THREAD_H
#define SERVER_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* false: the system grants no thread. */
static inline bool thread_start(pthread_t *ret, void *(*run)(void *), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t all, before;
    bool ok;

    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = !pthread_create(ret, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

#endif
