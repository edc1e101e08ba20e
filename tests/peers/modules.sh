#!/bin/sh
# Small random modules, birth by birth beside real PyTorch: tools/random-modules. TRACER is the folder of a tracer (trace.py), TRACER_PYTHON a Python
# that has its torch, transformers, peft and accelerate; MODULES how many (40), SEED which.
set -eu
: "${TRACER:=}" "${TRACER_PYTHON:=python3}" "${MODULES:=40}" "${SEED:=1}"
if [ ! -e "$TRACER/trace.py" ]; then
    echo "random modules: TRACER names no folder with trace.py, so PyTorch is not asked"
    exit 77
fi
if ! "$TRACER_PYTHON" -c 'import torch, transformers, peft, accelerate' 2>/dev/null; then
    echo "random modules: $TRACER_PYTHON (TRACER_PYTHON) has no torch, transformers, peft and accelerate"
    exit 77
fi
$MAKE --no-print-directory "$BUILD/modeling"
exec "$TRACER_PYTHON" tools/random-modules "$TRACER" "$BUILD/modeling" --n "$MODULES" --seed "$SEED"
