# Sourced: starts the daemon on a free port, offline; its address in $url; stops it in the end.
log=$(mktemp)
HF_HUB_OFFLINE=1 "$LLMEMD" serve --listen 127.0.0.1:0 --log none 2>"$log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; rm -f "$log"' EXIT
for _ in $(seq 100); do
    url=$(sed -n 's/^listening on \(http:.*\)/\1/p' "$log")
    [ -n "$url" ] && break
    sleep 0.1
done
[ -n "$url" ] || { cat "$log" >&2; exit 1; }
