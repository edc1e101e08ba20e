#!/bin/sh
# The page in a real Chromium: what it shows, what it keeps in its link, how it is used without a mouse and on a phone, what axe-core finds. Needs node, npm
# and chromium; SHOTS=DIR keeps pictures.
set -eu
command -v node >/dev/null && command -v npm >/dev/null || { echo "skipped: no node and npm"; exit 77; }
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$CHROMIUM" ] || { echo "skipped: no chromium"; exit 77; }
modules=$(dirname "$PEERS_BIN")/page
[ -d "$modules/node_modules/axe-core" ] || npm --prefix "$modules" install --silent --no-save playwright-core@1 axe-core@4
. tests/peers/daemon.sh
CHROMIUM=$CHROMIUM NODE_PATH=$modules/node_modules node tests/peers/page.js "$url"
