#include "server/lifecycle.h"

#include "server/clock.h"
#include "server/httpd.h"
#include "server/memory.h"
#include "server/notify.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TICK_NS = 10000000, HURRIED = 1 };

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

/* Until the time is over or the last answer is out. */
static void pass(struct httpd *h, const sigset_t *set, uint64_t until_ms)
{
    static const struct timespec tick = {.tv_nsec = TICK_NS};

    while (!httpd_has_ended(h) && clock_ms() < until_ms) {
        (void)notify_watchdog(httpd_is_alive(h));
        if (sigtimedwait(set, NULL, &tick) > 0)
            _exit(HURRIED);
    }
}

static void go_away(struct service *s, struct httpd *h, const sigset_t *set)
{
    atomic_store(&s->is_draining, true);
    notify_say("STOPPING=1");
    pass(h, set, clock_ms() + s->o->drain_wait_s * 1000ull);
    httpd_drain(h);
    pass(h, set, clock_ms() + s->o->drain_s * 1000ull);
    httpd_refuse(h);
    pass(h, set, UINT64_MAX);
}

/* The next signal. Meanwhile the watchdog hears of us as long as every event thread turns. */
static int next_signal(struct httpd *h, const sigset_t *set)
{
    int which;

    do {
        uint64_t ms = notify_watchdog(httpd_is_alive(h));
        struct timespec tick = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)};

        which = ms < UINT64_MAX ? sigtimedwait(set, NULL, &tick) : sigwaitinfo(set, NULL);
    } while (which < 0);
    return which;
}

static void reload(struct service *s)
{
    notify_reloading();
    service_reload(s);
    notify_say("READY=1");
}

static int serve(struct service *s, const sigset_t *set)
{
    struct httpd *h = httpd_start(s);
    sigset_t last = *set; /* on its way out a terminal that closes is none of its business */

    if (!h)
        return EXIT_FAILURE;
    notify_say("READY=1");
    while (next_signal(h, set) == SIGHUP)
        reload(s);
    sigdelset(&last, SIGHUP);
    go_away(s, h, &last);
    httpd_stop(h);
    return EXIT_SUCCESS;
}

/* What is in memory is callers' tokens too. */
static void leave_no_core(void)
{
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    (void)prctl(PR_SET_DUMPABLE, 0);
}

int lifecycle_serve(const struct options *o)
{
    sigset_t set = stop_signals();
    struct service s;
    int code;

    leave_no_core();
    memory_begin();
    (void)signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread begins: only this one takes them */
    code = service_open(&s, o) ? serve(&s, &set) : EXIT_FAILURE;
    service_close(&s);
    return code;
}
