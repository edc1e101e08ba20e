#!/bin/sh
# The program at a terminal (a pseudo one) and in pipes. Python's standard library only.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/terminal.py
