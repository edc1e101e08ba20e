#!/bin/sh
# A TaskProlog: a job that exports LLMEMD_QUESTION (a query of GET /estimate, "model=Qwen/Qwen2.5-7B&tuning=lora") is told before its first step when that does
# not fit on the GPUs it got. It never stops a job because nobody answers. slurm.conf: TaskProlog=/etc/slurm/llmemd-prolog.sh
[ -n "${LLMEMD_QUESTION:-}" ] && [ "${SLURM_PROCID:-0}" = 0 ] || exit 0
gpu=${LLMEMD_GPU:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)}
free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits 2>/dev/null | sort -n | head -n 1)
query="$LLMEMD_QUESTION&gpus=${SLURM_GPUS_ON_NODE:-1}&nodes=${SLURM_NNODES:-1}${free:+&free_memory_bytes=${free}MiB}"
answer=$(curl -fsS --max-time 10 -G "${LLMEMD_URL:-http://127.0.0.1:8080}/estimate?$query" --data-urlencode "gpu=$gpu") || exit 0
printf '%s' "$answer" | jq -r '"print llmemd: " + .summary'   # a TaskProlog's "print" lines reach the job's output
[ "$(printf '%s' "$answer" | jq .fits)" != false ] || echo "export LLMEMD_FITS=false"
