#!/bin/bash
# Every wall of tools/lint-* falls when it is broken: in a copy of the tree, one break at a time.
set -u

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failed=0

fresh() {
    rm -rf "$copy/tree"
    mkdir -p "$copy/tree/server/hub"
    cp -r core tools "$copy/tree/"
    [ -d api ] && cp -r api "$copy/tree/"
    cp --parents SECURITY.md tests/security.list tests/*/*.c tests/*/*.py tests/tools/*.sh "$copy/tree/"
    cd "$copy/tree" || exit 1
}

# breaks LINT SENTENCE FILE LINE: the lint passes, LINE is appended to FILE, and then it fails and says SENTENCE.
breaks() {
    (
        fresh
        if ! "tools/$1" >out 2>&1; then
            echo "$1 fails on the tree as it stands:"
            head -n 5 out
            exit 1
        fi
        mkdir -p "$(dirname "$3")"
        printf '%b\n' "$4" >>"$3"
        if "tools/$1" >out 2>&1 || ! grep -qF "$2" out; then
            echo "$1 does not say '$2' after '$4' in $3"
            head -n 5 out
            exit 1
        fi
    ) || failed=1
}

breaks lint-security 'no test is named for S99' SECURITY.md '- S99. Nothing ever goes wrong.'
breaks lint-security 'no test_of_nothing in' tests/security.list 'S1 tests/http/serve.py test_of_nothing'
breaks lint-arrows 'torch may not include plan/plan.h' core/torch/alloc.h '#include "plan/plan.h"'
breaks lint-arrows 'models may not include train/recipe.h' core/models/families/x.c '#include "train/recipe.h"'
breaks lint-arrows 'base may not include stack/device.h' core/base/buf.c '#include "stack/device.h"'
breaks lint-arrows 'only core/base/json.c includes cjson/cJSON.h' core/base/size.c '#include <cjson/cJSON.h>'
breaks lint-arrows 'only server/httpd.c includes microhttpd.h' server/main.c '#include <microhttpd.h>'
breaks lint-arrows 'only server/hub/transfer.c includes curl/curl.h' server/httpd.c '#include <curl/curl.h>'
breaks lint-arrows '<time.h> is no part of standard C' core/base/buf.c '#include <time.h>'
breaks lint-arrows 'does not begin with its room' core/base/buf.c '#include "buf.h"'
breaks lint-arrows 'no arrows are drawn for the room attic' core/attic/attic.c 'int x;'
breaks lint-versions 'reads the version of a package' core/torch/alloc.c 'bool f(struct stack s) { return s.transformers > x; }'
breaks lint-versions 'compares with a release' core/torch/alloc.c 'bool f(unsigned r) { return r >= 4040; }'
breaks lint-format 'a tab' core/base/buf.c '\tint x;'
breaks lint-format 'a blank at the end' core/base/buf.c 'int x; '
breaks lint-format 'the guard is not BASE_ATTIC_H' core/base/attic.h '#ifndef ATTIC_H'

# lint-pure reads an archive: one of a file that is pure, then the same with a call and a counter.
pure() { # pure SENTENCE TEXT
    printf '%b\n' "$2" >"$copy/a.c"
    # shellcheck disable=SC2086 # CC may be several words: ccache gcc
    ${CC:-cc} -c -o "$copy/a.o" "$copy/a.c" && rm -f "$copy/lib.a" && ar rcs "$copy/lib.a" "$copy/a.o" || exit 1
    tools/lint-pure "$copy/lib.a" >"$copy/out" 2>&1
    case $?:$1 in
    0:) return ;;
    0:*) echo "lint-pure passes '$2'" ;;
    *) [ -n "$1" ] && grep -qF "$1" "$copy/out" && return; cat "$copy/out" ;;
    esac
    failed=1
}

pure '' 'const int table[] = {1, 2}; const char *const names[] = {"a"};'
pure 'core/ calls time' '#include <time.h>\nlong f(void) { return (long)time(0); }'
pure 'data that can change' 'int f(void) { static int n; return n++; }'
pure 'data that can change' 'int n = 1;'
pure 'data that can change' '_Thread_local int n;'
pure 'data that can change' '_Thread_local int n = 1;'

exit $failed
