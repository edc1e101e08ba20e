#!/bin/sh
# Batches: what is streamed, in which order, how much of it is computed and fetched, and who ends it.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/batch.py
