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

# Programs in Python that scenarios use: VPP's client, gRPC, vppcfg and Ansible as clients of the router, and what checks and installs the
# router's own package. Scenarios are skipped without them.
python=${CARGO_TARGET_DIR:-target}/python
packages="grpcio==1.85.1 grpcio-tools==1.85.1 vpp-papi==2.4.2 vppcfg==1.2.4 ansible-core==2.19.14 mypy==2.4.1 setuptools==80.9.0"
installed='
import sys
from importlib.metadata import version
sys.exit(any(version(name) != wanted for name, wanted in (package.split("==") for package in sys.argv[1:])))'
# shellcheck disable=SC2086
if ! "$python/bin/python3" -c "$installed" $packages 2>/dev/null; then
    echo "setup: installing $packages in $python"
    python3 -m venv "$python" && "$python/bin/python3" -m pip install -q --disable-pip-version-check $packages ||
        echo "setup: these packages cannot be installed: scenarios that use them will be skipped" >&2
fi
