/*
 * resize_inside.h - inside resize.h: seen by resize.c and resize_classes.c, nobody else.
 */
#ifndef METERS_RESIZE_INSIDE_H
#define METERS_RESIZE_INSIDE_H

#include "meters/resize.h"

/* What a birth is, whatever its size and module. */
uint64_t resize_what(const struct birth *b);

#endif
