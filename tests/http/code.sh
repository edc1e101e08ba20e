#!/bin/sh
# Models whose code lies on the hub beside their config: llmemd serve with the look-alike as its hub. Python's standard library only.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD
exec python3 tests/http/code.py
