#!/bin/sh
# deploy/systemd under a real systemd, in namespaces of its own, as an operator would: installed, killed, reloaded, upgraded under load.
# Skipped where there is no root, no systemd 252, or nothing may be mounted.
set -u
: "${BUILD:=build}"
[ "$(id -u)" = 0 ] && [ -x /lib/systemd/systemd ] && command -v nsenter unshare journalctl >/dev/null || exit 77
unshare --mount --pid --fork --cgroup sh -c 'mount -t tmpfs tmpfs /mnt' 2>/dev/null || exit 77

work=$(mktemp -d) log=$(mktemp)
sh tests/peers/boot.sh "$work" >"$log" 2>&1 &
booter=$!
end() {
    kill -9 "$booter" 2>/dev/null # unshare takes its process 1 along, and that one everything else
    wait "$booter" 2>/dev/null
    for _ in $(seq 50); do
        find /sys/fs/cgroup -depth -type d -path "*/llmemd-boot-$booter*" -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
    done
    rm -rf "$work" "$log"
}
trap end EXIT
trap "exit 1" INT TERM
for _ in $(seq 400); do
    one=$(cut -d' ' -f1 "/proc/$booter/task/$booter/children" 2>/dev/null)
    [ -n "$one" ] && [ "$(nsenter -t "$one" -m -p systemctl is-system-running 2>/dev/null </dev/null)" = running ] && break
    one=
    sleep 0.2
done
[ -n "$one" ] || { cat "$log"; echo "systemd did not come up"; exit 1; }
# shellcheck disable=SC2016 # for the shell in there
nsenter -t "$one" -a sh -c 'cd "$0" && exec "$@"' "$PWD" env PYTHONDONTWRITEBYTECODE=1 python3 tests/peers/operator.py "${MAKE:-make}" BUILD="$BUILD" install
