#!/bin/sh
# What deploy/ and docs/operations.md say, held against the daemon.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1
exec python3 tests/tools/deploy.py
