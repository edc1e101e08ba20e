/*
 * installed.h - releases of transformers that lie on this machine (--transformers DIR): read as text through DIR's own descriptor, never written.
 *
 * Purpose   installed_open() once, before anybody asks; then installed_all() is what api_request.installed takes. A file is read when it is first
 *           asked for and kept: whoever changes it later is not seen until the service starts anew.
 * Refuses   links that lead out of DIR, what is no regular file, more than 2 MiB, what is not UTF-8, all files beyond 64 MiB: the model's import says why.
 * Threads   installed_open() one; read() any.
 */
#ifndef SERVER_INSTALLED_H
#define SERVER_INSTALLED_H

#include <stdbool.h>

struct installed;

/* Folders joined by ':': .../site-packages/transformers, or a folder that holds one. false: a line on standard error says why. */
bool installed_open(const char *folders);
void installed_close(void);
const struct installed *const *installed_all(void); /* NULL ends; NULL: there are none */

#endif
