#!/bin/sh
# Schemathesis asks the running daemon what openapi.yaml allows, and what it does not: no answer may be a 5xx, have a status, a content
# type or a body that the contract does not name. EXAMPLES=50 asks more of each operation.
set -eu
. tests/peers/daemon.sh
"$PEERS_BIN/schemathesis" run openapi.yaml --url "$url" --mode all --max-examples "${EXAMPLES:-15}" --generation-deterministic \
    --phases examples,coverage,fuzzing --suppress-health-check all --request-timeout 60 --no-color \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
