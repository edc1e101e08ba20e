#include "tests/support/unit.h"

#include <stdlib.h>

struct unit unit_begin(const char *name)
{
    struct unit u = {suite_create(name), tcase_create(name)};

    if (!getenv("CK_DEFAULT_TIMEOUT"))
        tcase_set_timeout(u.tcase, TEST_TIMEOUT_S); /* sanitizers are slow; check's own 4 s are not enough */
    suite_add_tcase(u.suite, u.tcase);
    return u;
}

int unit_run(struct unit u)
{
    SRunner *runner = srunner_create(u.suite);
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
