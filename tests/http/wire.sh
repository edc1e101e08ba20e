#!/bin/sh
# What arrives on the wire, sent by hand: bytes, pieces, floods.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/wire.py
