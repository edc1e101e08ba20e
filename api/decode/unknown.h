/*
 * unknown.h - members that no table has.
 *
 * Purpose   a name that was probably meant otherwise is refused with the name that was meant, since an answer without it would be
 *           another question's; any other is listed in `ignored`, or refused under ?strict=true.
 * Errors    ERR_UNKNOWN_MEMBER with `did_you_mean`.
 */
#ifndef API_DECODE_UNKNOWN_H
#define API_DECODE_UNKNOWN_H

#include "api/decode/decode.h"
#include "api/decode/lexicon.h"

/* d->path ends in the member's name, its first `parent` bytes are the object's. near: known names of that object. */
MUST_CHECK enum err_code unknown_member(struct decoding *d, size_t parent, const char *name, const struct lexicon *near);

/* Refuses it: `meant` is what it was probably meant to be, or NULL. */
MUST_CHECK enum err_code unknown_refuse(struct decoding *d, const char *name, const char *meant);

/* What other tools call a member: its JSON Pointer, or NULL. */
const char *alias_of(const char *name);

#endif
