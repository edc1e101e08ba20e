#!/bin/sh
# The hub client against a look-alike that misbehaves: hub.py starts both. Python's standard library only.
command -v python3 >/dev/null || exit 77
[ -x "${BUILD:=build}/tests/hub/hub_probe" ] || exit 77
exec python3 tests/hub/hub.py "$BUILD/tests/hub/hub_probe"
