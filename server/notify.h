/*
 * notify.h - tells systemd how the service stands: sd_notify(3), by hand.
 *
 * Why       the protocol is one datagram to $NOTIFY_SOCKET; libsystemd would bring a library of compressors along for it.
 * Threads   the one that waits for signals.
 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* "READY=1", "STOPPING=1"; lines. Nothing where nobody asked for it. */
void notify_say(const char *state);

/* RELOADING=1 with the time that Type=notify-reload compares. READY=1 ends it. */
void notify_reloading(void);

/* WATCHDOG=1 when half of the watchdog's time has passed since the last; ms until it is due again, UINT64_MAX: nobody watches. */
uint64_t notify_watchdog(bool is_alive);

#endif
