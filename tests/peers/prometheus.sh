#!/bin/sh
# deploy/prometheus and deploy/grafana after promtool, and in a real Prometheus that scrapes the daemon.
set -eu
PATH=$PEERS_BIN/../debian/usr/bin:$PATH
command -v promtool prometheus >/dev/null || exit 77
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
(cd deploy/prometheus && promtool check config prometheus.yml && promtool test rules llmemd.rules.test.yml) >/dev/null
python3 tests/peers/prometheus.py "$(command -v prometheus)"
