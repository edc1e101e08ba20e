#!/bin/sh
# The daemon while what the system gives fails.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
[ -e "${BUILD:=build}/tests/torture/fail.so" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/torture/daemon_torture.py "$BUILD/tests/torture/fail.so"
