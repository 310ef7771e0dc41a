#!/usr/bin/env bash
# Runs ping, traceroute and iperf3 between two hosts in network namespaces, with Volley between them.
# Does not touch the machine's own network, and leaves nothing behind, even after Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

# Outside: install, build (unless $VOLLEY_BIN names a binary), and run this script again inside new namespaces.
if [ "${1:-}" != inside ]; then
    if [ -z "${VOLLEY_BIN:-}" ]; then
        scripts/setup.sh
        cargo build --release --package volley
    fi
    volley=$(realpath "${VOLLEY_BIN:-$target_dir/release/volley}")
    for kind in "" "--user --map-root-user"; do
        # shellcheck disable=SC2086
        if unshare $kind --mount --net true 2>/dev/null; then
            exec unshare $kind --mount --net "$PWD/scripts/demo.sh" inside "$volley"
        fi
    done
    echo "demo: run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)." >&2
    exit 1
fi

volley=$2
# A /run of its own: its content, including the names of the namespaces, is gone when the last process ends.
mount -t tmpfs demo /run
tmp=/run/demo
mkdir /run/netns $tmp
pids=()
finish() {
    trap - EXIT INT TERM
    # Stop in reverse order: the router stops after the programs that use it.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2>/dev/null || true
    done
    wait
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

heading() { printf '\n\033[1m=== %s\033[0m\n' "$*"; }
on() { # on HOST COMMAND…
    local host=$1
    shift
    ip netns exec "$host" "$@"
}
background() { # background HOST LOG COMMAND…; the command ends with this script in any case
    local host=$1 log=$2
    shift 2
    on "$host" setpriv --pdeathsig KILL -- "$@" >"$log" 2>&1 &
    pids+=($!)
}
wait_for() { # wait_for TEXT LOG
    for _ in $(seq 200); do
        grep -qs "$1" "$2" && return
        kill -0 "${pids[-1]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "demo: no \"$1\" in ten seconds; the output was:" >&2
    cat "$2" >&2
    exit 1
}
ctl() { "$volley" ctl -s "$tmp/cli.sock" "$@"; }

heading "Topology: h1 10.0.1.2 --- 10.0.1.1 volley 10.0.2.1 --- 10.0.2.2 h2   (veth, network namespaces)"
for host in h1 router h2; do
    ip netns add $host
    ip -n $host link set lo up
done
for n in 1 2; do
    ip -n h$n link add eth0 type veth peer name eth$n netns router
    ip -n router link set eth$n up
    ip -n h$n link set eth0 up
    ip -n h$n addr add 10.0.$n.2/24 dev eth0
    ip -n h$n route add default via 10.0.$n.1
done

cat >"$tmp/setup.cli" <<END
create host-interface name eth1
create host-interface name eth2
set interface state host-eth1 up
set interface state host-eth2 up
set interface ip address host-eth1 10.0.1.1/24
set interface ip address host-eth2 10.0.2.1/24
END
cat >"$tmp/startup.conf" <<END
unix {
  nodaemon
  cli-listen $tmp/cli.sock
  exec $tmp/setup.cli
}
END
sed 's/^/  volley# /' "$tmp/setup.cli"
background router "$tmp/volley.log" "$volley" run -c "$tmp/startup.conf"
wait_for "volley: ready" "$tmp/volley.log"

heading "ping h1 -> h2"
on h1 ping -n -c 3 -i 0.2 10.0.2.2
on h1 ping -n -q -c 200 -i 0.005 10.0.2.2 >"$tmp/ping"

heading "traceroute h1 -> h2"
on h1 traceroute -n -q 1 10.0.2.2

iperf() { # iperf NAME TITLE ARGUMENTS…
    local name=$1 title=$2
    shift 2
    heading "iperf3 $title"
    background h2 "$tmp/$name.server" iperf3 -s -1 --forceflush
    wait_for "Server listening" "$tmp/$name.server"
    on h1 iperf3 -c 10.0.2.2 -J "$@" >"$tmp/$name.json" || { cat "$tmp/$name.json"; exit 1; }
    python3 scripts/iperf-summary "$tmp/$name.json" | tee "$tmp/$name"
}
iperf tcp "TCP h1 -> h2, 3 s" -t 3
iperf back "TCP h2 -> h1, 3 s" -t 3 -R
iperf udp "UDP h1 -> h2, 100 Mbit/s, 3 s" -u -b 100M -l 1400 -t 3

ctl clear trace
ctl trace add af-packet-input 2
on h1 ping -n -q -c 1 10.0.2.2 >/dev/null

heading "Measured"
printf '  %-22s %s\n' \
    "ping, 200 times" "$(grep -E 'rtt|loss' "$tmp/ping" | sed 's/.*received, //; s/, time.*//' | paste -sd' ')" \
    "TCP h1 -> h2" "$(cat "$tmp/tcp")" \
    "TCP h2 -> h1" "$(cat "$tmp/back")" \
    "UDP h1 -> h2" "$(cat "$tmp/udp")"

for show in "show interface" "show runtime"; do
    heading "volley# $show"
    # shellcheck disable=SC2086
    ctl $show
done
heading "volley# show trace   (the first packet of a ping)"
ctl show trace | awk '/^Packet 2/ { exit } { print }'
heading "Done; taking everything down"
