/*
 * gather_code.h - the files of code that one config names, and those that they import, asked of the hub as they become known.
 *
 * Rules     a file is of the config's own commit; where that is not known, and of another repository, the first is asked for alone and its commit is
 *           that of the rest. Beside a config of the owner's directory stands its code, and nowhere else. API_CODE_BYTES in all.
 * Threads   of the hub_loop, as gather.h.
 */
#ifndef SERVER_GATHER_CODE_H
#define SERVER_GATHER_CODE_H

#include "server/gather.h"

struct gather_code;

/* NULL: none is needed, or no memory (then f->no_memory). */
struct gather_code *gather_code_new(struct gather *f, const struct api_need *need, const struct hub_config *config);
void gather_code_ask(struct gather_code *c); /* what is known and was not asked for; f->open counts what is under way */
const struct api_code_found *gather_code_found(struct gather_code *c);
void gather_code_sum(const struct gather_code *c, struct gather_sum *sum);
void gather_code_free(struct gather_code *c);

/* --- gather.c */
void gather_arrived(struct gather *f); /* one that was under way */
void gather_add(struct gather_sum *sum, const struct hub_config *c);

#endif
