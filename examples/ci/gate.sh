#!/bin/sh
# A gate for a pipeline: gate.sh QUESTION.json exits 0 when it fits, 1 when it does not, 2 when nobody can tell, and says why. QUESTION.json: POST /estimate.
set -eu
answer=$(curl -fsS --max-time 60 "${LLMEMD_URL:-http://127.0.0.1:8080}/estimate" -H 'Content-Type: application/json' -d "@${1:?"gate.sh QUESTION.json"}") || exit 2
printf '%s' "$answer" | jq -r .summary
printf '%s' "$answer" | jq -e '.fits != null' >/dev/null || exit 2
printf '%s' "$answer" | jq -e .fits >/dev/null
