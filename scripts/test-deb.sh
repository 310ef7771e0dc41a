#!/usr/bin/env bash
# Tests the Debian packages: builds them, checks their content, and installs them into a clean root. Runs the router there
# with the rights of its unit, then as a service of systemd. Removes and purges the packages.
#
# Needs root. The clean root comes from Debian's mirror (about 80 MB). $VOLLEY_BIN names an existing binary.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

[ "$(id -u)" = 0 ] || { echo "test-deb: needs root" >&2; exit 1; }
missing=$(for tool in debootstrap lintian; do command -v $tool >/dev/null || echo $tool; done)
# shellcheck disable=SC2086
[ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
fail() {
    echo "test-deb: $*" >&2
    exit 1
}

echo "== build"
package=$(scripts/build-deb.sh "$work/out" | tail -n 1)
again=$(scripts/build-deb.sh "$work/again" | tail -n 1)
tester=$(echo "$work"/out/volley-bench_*.deb)
cmp "$package" "$again" || fail "two builds of the router's package differ"
cmp "$tester" "$work/again/$(basename "$tester")" || fail "two builds of the tester's package differ"

echo "== contents"
contents=$(dpkg-deb --contents "$package" | awk '{ print $6 }')
for path in usr/bin/volley usr/lib/volley/vppctl usr/lib/systemd/system/volley.service usr/lib/sysusers.d/volley.conf \
    usr/lib/tmpfiles.d/volley.conf etc/sysctl.d/80-volley.conf etc/volley/startup.conf etc/volley/volley.yaml \
    usr/share/man/man1/volley.1.gz usr/share/man/man1/volley-ctl.1.gz usr/share/man/man8/volley.8.gz \
    usr/share/man/man7/volley-cli.7.gz usr/share/man/man5/volley-startup.conf.5.gz \
    usr/share/bash-completion/completions/volley usr/share/zsh/vendor-completions/_volley \
    usr/share/doc/volley/copyright usr/share/doc/volley/crates.gz usr/share/doc/volley/docs/guide/README.md usr/share/doc/volley/examples/edge-two-uplinks.yaml; do
    grep -qx "./$path" <<<"$contents" || fail "no $path in the package"
done
tests=$(dpkg-deb --contents "$tester" | awk '{ print $6 }')
for path in usr/bin/volley-bench usr/share/man/man1/volley-bench.1.gz usr/share/man/man1/volley-bench-compare.1.gz \
    usr/share/bash-completion/completions/volley-bench usr/share/zsh/vendor-completions/_volley-bench \
    usr/share/doc/volley-bench/copyright usr/share/doc/volley-bench/crates.gz usr/share/doc/volley-bench/bench.md; do
    grep -qx "./$path" <<<"$tests" || fail "no $path in the tester's package"
done
dpkg-deb --info "$package" conffiles | while read -r path; do
    grep -qx ".$path" <<<"$contents" || fail "the conffile $path is not in the package"
done
grep '^\./etc/.*[^/]$' <<<"$contents" | cut -c2- | diff - <(dpkg-deb --info "$package" conffiles) || fail "the list of conffiles differs from the files below /etc"
dpkg-deb --info "$package" | sed -n 's/^ \(Version\|Depends\|Installed-Size\)/  \1/p'
echo "  $(du -h "$package" | cut -f1) packed"

echo "== lintian"
lintian --allow-root --fail-on warning "$package" "$tester" || fail "lintian reports faults"

echo "== unit"
dpkg-deb --extract "$package" "$work/unpacked"
unit=$work/unpacked/usr/lib/systemd/system/volley.service
if command -v systemd-analyze >/dev/null; then
    # systemd-analyze checks that the unit's programs exist, and they are not installed on this machine.
    sed "s#/usr/bin/volley#$work/unpacked/usr/bin/volley#" "$unit" >"$work/volley.service"
    systemd-analyze verify --man=no "$work/volley.service" 2>&1 | tee "$work/verify"
    [ ! -s "$work/verify" ] || fail "the unit is faulty"
    systemd-analyze security --offline=yes "$work/volley.service" | tail -n 1
fi
capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | sed 's/CAP_/+/g; s/ /,/g' | tr '[:upper:]' '[:lower:]')

echo "== a clean root"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
root=$work/root
# The package's dependencies are part of the root, as it is installed without a network.
depends=$(dpkg-deb --field "$package" Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/[[:space:]]//g')
debootstrap --variant=minbase --include="systemd-sysv,iproute2,iputils-ping,$depends" "$suite" "$root" >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log"; fail "debootstrap"; }
in_root() { # in_root COMMAND…: with its own /proc and its own network with one interface
    unshare --mount --net --pid --fork --kill-child sh -c '
        mount -t proc proc "$1/proc" && ip link set lo up && ip link add eth1 type veth peer name far && root=$1 && shift &&
        exec chroot "$root" "$@"' sh "$root" "$@"
}
before=$(cd "$root" && find etc usr var/lib/dpkg/alternatives -type f -o -type l | grep -v -e '/cache/' -e 'dpkg/info' | sort)
cp "$package" "$root/tmp/volley.deb"
cp "$tester" "$root/tmp/volley-bench.deb"
in_root apt-get install -qq -y --no-install-recommends /tmp/volley.deb >"$work/install.log" 2>&1 ||
    { cat "$work/install.log"; fail "the package cannot be installed: see the log above"; }

echo "== installed"
in_root volley --version
in_root volley check /etc/volley/volley.yaml || fail "the packaged configuration is invalid"
in_root sh -c 'for f in /usr/share/doc/volley/examples/*.yaml; do volley check "$f" || exit 1; done' || fail "an example is invalid"
in_root sh -c 'echo "interfaces: { host-eth1: { mtu: 1 } }" >/tmp/bad.yaml; ! volley check /tmp/bad.yaml' || fail "volley check accepts an invalid file"
in_root getent group volley >/dev/null || fail "the group volley does not exist"
[ "$(in_root readlink -f /usr/bin/vppctl)" = /usr/bin/volley ] || fail "vppctl is not a link to volley"
in_root sh -c '! volley bench compare x y 2>/tmp/said' || fail "volley bench runs without its package"
grep -q volley-bench "$root/tmp/said" || { cat "$root/tmp/said"; fail "the error does not name the tester's package"; }
in_root apt-get install -qq -y --no-install-recommends /tmp/volley-bench.deb >>"$work/install.log" 2>&1 ||
    { cat "$work/install.log"; fail "the tester's package cannot be installed: see the log above"; }
in_root volley bench --version

echo "== the router with the rights of its unit"
cat >"$root/tmp/run" <<'END'
set -e
cat /etc/volley/startup.conf - <<'CONF' >/tmp/startup.conf
metrics { listen 127.0.0.1:9482 }
CONF
volley_here() { setpriv --bounding-set "-all,$1" --no-new-privs volley run -c /tmp/startup.conf 2>/tmp/log & }
printf 'interfaces:\n  host-eth1: { mtu: 1400, addresses: [ 192.0.2.1/24 ] }\n' >/etc/volley/volley.yaml
volley_here "$1"
pid=$!
for _ in $(seq 100); do grep -q 'volley: ready' /tmp/log && break; sleep 0.1; done
grep -q 'volley: ready' /tmp/log || { cat /tmp/log; exit 1; }
[ "$(stat -c %G:%a /run/volley/cli.sock)" = volley:660 ] || { stat /run/volley/cli.sock; exit 1; }
vppctl show interface | head -n 3
volley complete -- show inter | grep -qx interface
volley complete -- show interface host | grep -qx host-eth1
exec 3<>/dev/tcp/127.0.0.1/9482
printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
sed '1,/^\r$/d' <&3 >/tmp/samples
kill $pid
wait $pid
END
in_root bash /tmp/run "$capabilities" || fail "the router does not run"
# Only the program is extracted, as an installed package would start a server.
(cd "$work" && apt-get download -qq prometheus && dpkg-deb --extract prometheus_*.deb prometheus) 2>/dev/null
promtool=$work/prometheus/usr/bin/promtool
grep -q '^volley_interface_info{' "$root/tmp/samples" || fail "the router returned no metrics"
"$promtool" check metrics <"$root/tmp/samples" || fail "promtool reports faults in the metrics"
"$promtool" check rules packaging/prometheus/volley.rules.yml || fail "promtool reports faults in the alert rules"

echo "== the service, with systemd"
scripts/boot-root.sh "$root" >"$work/boot.log" 2>&1 &
boot=$!
trap 'kill $boot 2>/dev/null || true; wait $boot || true; rm -rf --one-file-system "$work"' EXIT
first() { # prints the first process in the namespaces of boot-root.sh, the child of its child
    pgrep -P "$(pgrep -P $boot | head -n 1)" | head -n 1
}
booted() { nsenter --target "$(first)" --all "$@"; }
patient() { # patient WHAT COMMAND…: repeats the command until it succeeds, for at most 30 s
    local what=$1 && shift
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
    cat "$work/boot.log" >&2
    booted journalctl --no-pager -u volley >&2 || true
    fail "timeout after 30 s: $what"
}
forwards() { booted ping -c 1 -W 1 192.0.2.1; }
patient "systemd runs" booted systemctl is-active multi-user.target
booted systemctl start volley || patient "the service starts" false
booted ip addr add 192.0.2.2/24 dev far
patient "the router answers pings" forwards
booted systemctl status volley | grep -q 'Status: "forwarding; 1 of 1 interfaces usable"' || fail "systemctl status does not show that the router forwards"
for file in /etc/volley/volley.yaml /tmp/saved.yaml; do
    booted volley ctl config save $file >/dev/null || fail "$file cannot be written"
done
sed -i 's/1400/1300/' "$root/etc/volley/volley.yaml"
booted systemctl reload volley || fail "the service cannot be reloaded"
booted vppctl show interface host-eth1 | grep -q '1300/' || fail "the reload did not apply the new MTU"
booted systemctl restart volley || fail "the service cannot be restarted"
patient "the router answers pings after a restart" forwards
# The unit's restrictions allow AF_XDP, including programs at interfaces.
printf 'interfaces:\n  xdp-eth1: { addresses: [ 192.0.2.1/24 ] }\n' >"$root/etc/volley/volley.yaml"
booted systemctl reload volley || fail "the service cannot be reloaded with an AF_XDP interface"
patient "the router answers pings with AF_XDP" forwards
booted vppctl show hardware-interfaces xdp-eth1 | grep -q 'in the driver (native)' || fail "the XDP program does not run in the driver (native)"
router() { booted systemctl show -p MainPID --value volley; }
replaced() { local now; now=$(router) && [ "$now" != 0 ] && [ "$now" != "$old" ] && forwards; }
old=$(router)
booted systemctl kill --kill-whom=main --signal=KILL volley
patient "systemd replaces a killed router" replaced
old=$(router)
booted systemctl kill --kill-whom=main --signal=STOP volley
patient "the watchdog replaces a router that hangs" replaced
booted systemctl stop volley || fail "the service cannot be stopped"
booted ip -br link show eth1 | grep -q DOWN || fail "eth1 is not restored"
[ "$(booted systemctl show -p Result --value volley)" = success ] || fail "the service did not end with success"
kill $boot
wait $boot || true
rm -f "$root/etc/volley/volley.yaml"

echo "== removed and purged"
in_root dpkg --purge volley-bench >/dev/null
in_root dpkg --remove volley >/dev/null
[ -e "$root/etc/volley/startup.conf" ] || fail "removing the package removed its configuration"
in_root dpkg --purge volley >/dev/null
in_root getent group volley && fail "the group volley still exists"
after=$(cd "$root" && find etc usr var/lib/dpkg/alternatives -type f -o -type l | grep -v -e '/cache/' -e 'dpkg/info' | sort)
# Backup copies of the lists of groups are expected to differ.
diff <(echo "$before") <(echo "$after") | grep '^[<>]' | grep -v -e 'etc/group-$' -e 'etc/gshadow-$' && fail "files remain after the purge"
echo "test-deb: passed"
