#!/bin/sh
# openapi.yaml after the OpenAPI initiative's own schema; its examples after its schemas, and answered.
set -eu
. tests/peers/daemon.sh
"$PEERS_BIN/python" -P tests/peers/contract.py openapi.yaml "$url"
