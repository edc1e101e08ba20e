/*
 * unit.h - what a test program needs: libcheck, and its main.
 *
 * A file tests/{unit,api,laws}/name.c is a program of its own. It ends with
 *
 *     UNIT_TESTS("base/size",
 *         unit_test(adds);
 *         unit_rows(parses, row);      one forked run a row; the test reads row[_i]
 *     )
 */
#ifndef SUPPORT_UNIT_H
#define SUPPORT_UNIT_H

#include <check.h>
#include <stddef.h>

enum { TEST_TIMEOUT_S = 60 }; /* of one run of a test; CK_DEFAULT_TIMEOUT sets another */

struct unit {
    Suite *suite;
    TCase *tcase;
};

struct unit unit_begin(const char *name);
int unit_run(struct unit u); /* main's exit status */

#define unit_test(test) tcase_add_test(unit_.tcase, test)
#define unit_rows(test, row) tcase_add_loop_test(unit_.tcase, test, 0, (int)(sizeof(row) / sizeof *(row)))

#define UNIT_TESTS(name, ...)                      \
    int main(void)                                 \
    {                                              \
        struct unit unit_ = unit_begin(name);      \
        __VA_ARGS__                                \
        return unit_run(unit_);                    \
    }

#endif
