#!/bin/bash
# The walls of the built program: position-independent, bound before it runs, read-only afterwards, no stack that runs; canaries, checked copies and landing
# pads in every object that strangers' bytes reach.
set -u
: "${BUILD:=build}" "${LLMEMD:=build/llmemd}"
command -v readelf >/dev/null && command -v nm >/dev/null && [ -x "$LLMEMD" ] || exit 77
case $(nm -D -u "$LLMEMD") in *__asan_init* | *__tsan_init*) exit 77 ;; esac
failed=0

wants() { # wants WHAT PATTERN TEXT
    grep -qE -- "$2" <<<"$3" || {
        echo "$LLMEMD: no $1"
        failed=1
    }
}

head=$(readelf -hW "$LLMEMD") segments=$(readelf -lW "$LLMEMD") dynamic=$(readelf -dW "$LLMEMD") imports=$(nm -D -u "$LLMEMD")
wants 'addresses of its own at each start' 'Type: +DYN' "$head"
wants 'relocations that are read-only once it runs' 'GNU_RELRO' "$segments"
wants 'names bound at the start' 'BIND_NOW|Flags:.*NOW' "$dynamic"
wants 'stack without code' 'GNU_STACK .* RW +0x' "$segments"
wants 'canaries' '__stack_chk_fail' "$imports"
wants 'checked copies' '__memcpy_chk' "$imports"
! grep -q TEXTREL <<<"$dynamic" || { echo "$LLMEMD: code is written to"; failed=1; }
! grep -qE 'LOAD .* RWE ' <<<"$segments" || { echo "$LLMEMD: memory that is written and run"; failed=1; }

# An object, unless it holds data alone.
[ "$(uname -m)" = x86_64 ] || exit $failed
for o in "$BUILD"/server/*.o "$BUILD"/server/*/*.o "$BUILD"/api/*.o; do
    nm "$o" | grep -q ' [Tt] ' || continue
    grep -q 'IBT, SHSTK' <<<"$(readelf -nW "$o" 2>/dev/null)" || { echo "$o: no landing pads"; failed=1; }
done
n=$(nm "$BUILD"/server/*.o "$BUILD"/server/*/*.o 2>/dev/null | grep -c 'U __stack_chk_fail')
[ "$n" -ge 40 ] || { echo "$BUILD/server: canaries in $n objects only"; failed=1; }
exit $failed
