#!/bin/sh
# What an answer gives to start a job, loaded by those that it is for, and run: accelerate, transformers, deepspeed. They are large: PEERS=all make
# test-peers installs them, or PARSERS_PYTHON names a Python that has them.
set -eu
python=${PARSERS_PYTHON:-$PEERS_BIN/python}
"$python" -c 'import accelerate, transformers, deepspeed, yaml' 2>/dev/null || { echo "skipped: no accelerate, transformers, deepspeed (PEERS=all)"; exit 0; }
. tests/peers/daemon.sh
"$python" tests/peers/launch.py "$url"
