#!/bin/sh
# /estimate/snapshot in PyTorch's own tools, torch.cuda._memory_viz. torch is large: PEERS=all make test-peers installs it, or PARSERS_PYTHON names a Python that has it.
set -eu
python=${PARSERS_PYTHON:-$PEERS_BIN/python}
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: no torch (PEERS=all)"; exit 0; }
. tests/peers/daemon.sh
"$python" -P tests/peers/snapshot.py "$url"
