#!/bin/sh
# deploy/nginx before two replicas: what is cached, what must not be, and that no answer is lost.
set -eu
nginx=$(PATH=$PEERS_BIN/../debian/usr/sbin:$PATH:/usr/sbin command -v nginx) || exit 77
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
exec python3 tests/peers/nginx.py "$nginx"
