#!/bin/sh
# docs/reading.md: what is read of three releases of transformers, each from its own files, beside what PyTorch does. The wheels are fetched once and
# unpacked, nothing of them runs; READING="DIR DIR .." names folders of site-packages instead.
set -eu
: "${READING:=}"
if [ -z "$READING" ]; then
    for release in 5.23.0 4.53.3 4.40.0; do
        to=$BUILD/peers/transformers-$release
        if [ ! -e "$to/transformers/__init__.py" ]; then
            mkdir -p "$to"
            "$PEERS_BIN/pip" --quiet --disable-pip-version-check download --no-deps --dest "$to" "transformers==$release" || exit 77
            "$PEERS_BIN/python" -m zipfile -e "$to"/transformers-*.whl "$to"
            rm -f "$to"/*.whl
        fi
        READING="$READING $to"
    done
fi
$MAKE --no-print-directory "$BUILD/reading"
# shellcheck disable=SC2086 # a list of folders
exec python3 tests/peers/reading.py "$BUILD/reading" docs/reading.md $READING
