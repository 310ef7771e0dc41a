#!/bin/sh
# Installs missing programs for building, testing and demonstrating Volley (Debian 12; needs root or sudo).
# Takes a few milliseconds if everything is installed.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh

need=""
want() { # want PROGRAM PACKAGE
    command -v "$1" >/dev/null 2>&1 || need="$need $2"
}
want cc build-essential
want pcap-config libpcap-dev
want ip iproute2
want unshare util-linux
want ping iputils-ping
want tcpdump tcpdump
want traceroute traceroute
want iperf3 iperf3
want ethtool ethtool
want nft nftables
want conntrack conntrack
want python3 python3
python3 -c 'import ensurepip' 2>/dev/null || need="$need python3-venv"
want chromium "chromium fonts-dejavu-core"
want snmpd snmpd
want dpdk-testpmd "dpdk-dev librte-net-memif23"
rust_missing=no
command -v cargo >/dev/null 2>&1 || rust_missing=yes
[ $rust_missing = no ] || want curl "curl ca-certificates"

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

if [ -n "$need" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: missing:$need. This system has no apt-get: install them with its package manager." >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
        echo "setup: missing packages, which only root can install. Run as root:  apt-get install$need" >&2
        exit 1
    fi
    echo "setup: installing Debian packages:$need"
    # Package lists are updated only if the installation fails.
    # shellcheck disable=SC2086
    install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $need >/dev/null; }
    install 2>/dev/null || { as_root apt-get update -qq && install; }
fi

if [ $rust_missing = yes ]; then
    echo "setup: installing Rust (stable, minimal profile, for this user only) with rustup from https://sh.rustup.rs"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y --quiet --no-modify-path --profile minimal --component clippy,rustfmt
fi

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
have=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n1)" != "$wanted" ]; then
    echo "setup: Rust $wanted or newer is needed, this is $have. Run:  rustup update stable" >&2
    exit 1
fi

# Clients for Python of the binary API (vpp-papi) and of the native API (gRPC), for scenarios. These are skipped without them.
python=${CARGO_TARGET_DIR:-target}/python
packages="grpcio==1.85.1 grpcio-tools==1.85.1 vpp-papi==2.4.2"
# Prints the packages that have another version, or none.
missing='
import sys
from importlib.metadata import PackageNotFoundError, version
for wanted in sys.argv[1:]:
    name, _, number = wanted.partition("==")
    try:
        there = version(name) == number
    except PackageNotFoundError:
        there = False
    if not there:
        print(wanted)
'
# shellcheck disable=SC2086
if ! [ -x "$python/bin/python3" ] || [ -n "$("$python/bin/python3" -c "$missing" $packages)" ]; then
    echo "setup: installing $packages in $python"
    # shellcheck disable=SC2086
    python3 -m venv "$python" && "$python/bin/pip" install -q --disable-pip-version-check $packages ||
        echo "setup: $packages cannot be installed: scenarios of the APIs will be skipped" >&2
fi
