#!/bin/sh
# What the step looks like inside: its timeline, and the memory snapshot that PyTorch's own tools open.
command -v python3 >/dev/null || exit 77
[ -x "${LLMEMD:=build/llmemd}" ] || exit 77
export LLMEMD HF_HUB_OFFLINE=1
exec python3 tests/http/inside.py
