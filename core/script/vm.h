/*
 * vm.h - what the machine's loop and its slower parts give each other.
 */
#ifndef SCRIPT_VM_H
#define SCRIPT_VM_H

#include "script/compile.h"

enum { CACHE_SLOTS = 1 << 16, CACHE_CLASS = CACHE_SLOTS, CACHE_MEMBER, CACHE_BOUND, CACHE_STATIC };

sv vm_attr(struct script *s, struct cache *k, sv of);
bool vm_set_attr(struct script *s, struct cache *k, sv of, sv value);
bool vm_method(struct script *s, struct cache *k, sv *stack); /* stack[0]: a value -> function, self; or nothing, function */
sv vm_global(struct script *s, struct cache *k, const struct module *m);
sv vm_name(struct script *s, struct frame *f, struct str *name);
bool vm_unpack(struct script *s, sv seq, uint32_t n, sv *to); /* to[n - 1] is the first */
bool vm_unpack_ex(struct script *s, sv seq, uint32_t before, uint32_t after, sv *to);
sv vm_make_function(struct script *s, struct frame *f, sv *sp, uint32_t flags); /* takes what lies above sp */
sv vm_call_ex(struct script *s, sv f, sv *args, sv kw);                         /* *args may become a tuple */
int vm_with(struct script *s, sv *top);                                         /* manager -> exit, and top[1] what __enter__ gave */
sv vm_import(struct script *s, struct frame *f, struct str *name, int64_t flags);
bool defaults_fill(const struct func *f, uint32_t n, sv *locals);
bool vm_unwind(struct script *s, struct frame *f); /* true: a handler goes on */
bool vm_unbound(struct script *s, const struct frame *f, uint32_t at);
sv vm_build_map(struct script *s, sv *at, uint32_t n);
sv vm_build_string(struct script *s, sv *at, uint32_t n);
sv vm_match_keys(struct script *s, sv map, sv keys);                        /* a tuple, or None */
sv vm_match_class(struct script *s, sv subject, sv cls, sv names, uint32_t n); /* a tuple, or None */
sv vm_super_method(struct script *s, sv of, struct str *name, sv *self);

#endif
