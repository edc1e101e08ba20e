#!/bin/sh
# Every member of the contract and every name of other tools is answered for.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/silent.py
