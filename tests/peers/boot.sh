#!/bin/sh
# Boots a real systemd as process 1 of namespaces of its own, over this machine's files, which it sees but cannot change: a network of its own,
# a tmpfs for all that it writes, a control group of its own. Ends with whoever started it. Wants root.
#
#   boot.sh WORK     an empty directory
set -eu

if [ "${1:-}" != inside ]; then
    work=$1 name=llmemd-boot-$$
    cd "$(dirname "$0")"
    # A group below ours in each hierarchy, so that systemd there is the lord of that one alone.
    for at in /sys/fs/cgroup /sys/fs/cgroup/*/; do
        [ -w "$at/cgroup.procs" ] || continue
        mkdir "$at/$name"
        for set in cpus mems; do
            [ ! -e "$at/cpuset.$set" ] || cat "$at/cpuset.$set" >"$at/$name/cpuset.$set"
        done
        echo $$ >"$at/$name/cgroup.procs"
    done
    exec unshare --mount --pid --fork --net --ipc --uts --cgroup --kill-child sh ./boot.sh inside "$work"
fi

work=$2 root=$work/root
mount --make-rprivate /
mount -t tmpfs tmpfs "$work"
mkdir "$work/changed" "$work/overlay" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/changed,workdir=$work/overlay" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
for at in run dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$at"; done

if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
    for at in $(cut -d: -f2 /proc/self/cgroup); do
        case $at in
        '') dir=unified type=cgroup2 how=nosuid ;;
        name=systemd) dir=systemd type=cgroup how=none,$at ;;
        *) dir=$at type=cgroup how=$at ;;
        esac
        mkdir "$root/sys/fs/cgroup/$dir"
        mount -t $type -o "$how" $type "$root/sys/fs/cgroup/$dir"
    done
fi

for at in null zero full random urandom tty; do
    : >"$root/dev/$at"
    mount --bind "/dev/$at" "$root/dev/$at"
done
mkdir "$root/dev/shm" "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# Nothing of the machine below: neither its services nor what they were set up with.
rm -rf "$root/etc/systemd/system"
mkdir -p "$root/etc/systemd/system"
: >"$root/etc/machine-id"
for unit in systemd-sysctl.service systemd-modules-load.service systemd-remount-fs.service systemd-udevd.service systemd-udev-trigger.service \
    systemd-logind.service systemd-networkd-wait-online.service tmp.mount dbus.socket dbus.service timers.target getty.target; do
    ln -s /dev/null "$root/etc/systemd/system/$unit"
done
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n' >"$root/etc/systemd/system/booted.target"
ip link set lo up

cd "$root"
mkdir -p mnt/old
pivot_root . mnt/old
umount -l /mnt/old
# As on a machine: what the manager mounts for a unit (its credentials) reaches the unit.
mount --make-rshared /
exec env -i container=llmemd PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=booted.target --log-target=journal --show-status=no </dev/null
