#!/bin/sh
# Where the daemon listens, whom it tells how it stands, and what it does when everything is full.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/door.py
