#!/bin/sh
# Real HTTP against the built daemon: serve.py starts it on a free port, asks, and stops it. Python's standard library only.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/serve.py openapi.yaml
