#!/usr/bin/env bash
# Boots systemd from a root directory in its own namespaces: boot-root.sh ROOT. It runs until this script is killed.
# The system has one Ethernet interface, eth1, whose other end is `far`. Needs root and cgroups of version 2.
set -euo pipefail
root=$1

if [ "${2:-}" != inside ]; then
    groups=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)
    [ -n "$groups" ] || { echo "boot-root: cgroups of version 2 are not mounted" >&2; exit 1; }
    # A group of its own, which the cgroup namespace shows as the root.
    group=$groups/volley-boot.$$
    mkdir "$group"
    give_back() {
        kill -KILL "$boot" 2>/dev/null || true
        wait "$boot" 2>/dev/null || true
        for _ in $(seq 50); do
            find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [ -d "$group" ] || break
            sleep 0.1
        done
    }
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec unshare --mount --net --pid --ipc --uts --cgroup --fork --kill-child --propagation private "$0" "$root" inside
    ) &
    boot=$!
    trap give_back EXIT
    trap 'exit 0' TERM INT
    wait "$boot"
    exit
fi

mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sys sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs sys/fs/cgroup && mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/net dev/shm dev/pts
for device in null zero full random urandom tty net/tun; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
ip link set lo up
ip link add eth1 type veth peer name far
ip link set far up
mkdir -p mnt/old
pivot_root . mnt/old
umount --lazy /mnt/old
exec env -i container=volley PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target
