#!/bin/sh
# llmemd estimate --transformers DIR over a small DIR of the test's own, whole and broken. Python's standard library only.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/installed.py
