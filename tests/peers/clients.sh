#!/bin/sh
# Clients that two generators make of openapi.yaml, against the running daemon: openapi-python-client's whole client, datamodel-code-generator's types.
set -eu
. tests/peers/daemon.sh
made=$(dirname "$PEERS_BIN")/clients
[ -x "$made/bin/openapi-python-client" ] || {
    python3 -m venv "$made"
    "$made/bin/pip" --quiet --disable-pip-version-check install 'openapi-python-client<1' 'datamodel-code-generator<1' ruff httpx pydantic
}
PATH=$made/bin:$PATH tools/make-client "$made/client" >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
"$made/bin/datamodel-codegen" --input openapi.yaml --input-file-type openapi --output "$made/llmemd_types.py" --output-model-type pydantic_v2.BaseModel \
    >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
PYTHONPATH=$made/client:$made "$made/bin/python" -P tests/peers/clients.py "$url"
LLMEMD_URL=$url sh examples/check
