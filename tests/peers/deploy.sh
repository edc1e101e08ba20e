#!/bin/sh
# What deploy/ has for others, after their own tools: Docker Compose, the schemas of Kubernetes, hadolint.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r deploy/compose "$work"
: >"$work/compose/hf-token"
"$PEERS_BIN/docker-compose" -f "$work/compose/compose.yaml" config -q
for version in 1.28.0 1.31.0 1.34.0; do
    "$PEERS_BIN/kubernetes-validate" --strict --quiet -k "$version" deploy/kubernetes/*.yaml
done
"$PEERS_BIN/hadolint" --failure-threshold info Dockerfile
