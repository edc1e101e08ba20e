#!/bin/sh
# POST /estimate with modelling files of the request's own. Python's standard library only.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/modeling.py
