#!/bin/sh
# Real HTTP beside a hub that takes its time: who waits, who does not, and how it all ends.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/wait.py
