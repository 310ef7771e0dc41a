#!/usr/bin/env bash
# Builds the Debian packages of the router and of the tester: build-deb.sh [DIRECTORY] (default: target/debian).
# $VOLLEY_BIN names an existing binary of the router, with the tester's binary beside it. $DEBFULLNAME and $DEBEMAIL name
# the maintainer. Uses plain dpkg-deb: the packages contain exactly the files that are listed here.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

out=${1:-$target_dir/debian}
if [ -z "${VOLLEY_BIN:-}" ]; then
    cargo build --release --package volley --package bench
fi
volley=${VOLLEY_BIN:-$target_dir/release/volley}
tester=$(dirname "$volley")/volley-bench
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
# The default address cannot receive mail (RFC 2606 section 2).
maintainer="${DEBFULLNAME:-The Volley authors} <${DEBEMAIL:-maintainers@volley.invalid}>"
# Reproducible builds: the same sources make the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
file() { # file MODE SOURCE DESTINATION
    install -D -m "$1" "$2" "$root/$3"
}
packed() { # packed DESTINATION: standard input, compressed
    mkdir -p "$(dirname "$root/$1")"
    gzip -9n >"$root/$1"
}
begin() { # begin PACKAGE BINARY: an empty root, with the binary and its manual pages and completions
    root=$work/$1 doc=usr/share/doc/$1
    file 755 "$2" "usr/bin/$1"
    strip --strip-unneeded "$root/usr/bin/$1"
    "$2" documents "$work/documents-$1"
    local page
    for page in "$work/documents-$1"/*.[1-9]; do
        packed "usr/share/man/man${page##*.}/$(basename "$page").gz" <"$page"
    done
    file 644 "$work/documents-$1/$1.bash" "usr/share/bash-completion/completions/$1"
    file 644 "$work/documents-$1/_$1" "usr/share/zsh/vendor-completions/_$1"
}
finish() { # finish PACKAGE CRATE: adds the common files and builds the package
    {
        cat packaging/debian/copyright
        printf 'License: MIT\n'
        sed 's/^[[:space:]]*$/./; s/^/ /' LICENSE-MIT
        printf '\nLicense: Apache-2.0\n On Debian systems its text is in /usr/share/common-licenses/Apache-2.0.\n'
    } >"$work/copyright"
    file 644 "$work/copyright" "$doc/copyright"
    cargo tree --package "$2" --edges normal --prefix none --format '{p}  {l}' |
        grep -v '(/' | sed 's/ (\*)$//' | sort -u | packed "$doc/crates.gz"
    printf '%s (%s) stable; urgency=medium\n\n  * See the history of the sources.\n\n -- %s  %s\n' \
        "$1" "$version" "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | packed "$doc/changelog.gz"

    # Dependencies on libraries, from the symbols that the binary uses.
    mkdir -p "$work/debian"
    printf 'Source: volley\n\nPackage: %s\nArchitecture: any\nDescription: x\n' "$1" >"$work/debian/control"
    local libraries size package
    libraries=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/$1" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    size=$(du -k -s --apparent-size "$root" | cut -f1)
    mkdir "$root/DEBIAN"
    sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/; s/@LIBRARIES@/$libraries/; s/@MAINTAINER@/$maintainer/" \
        "packaging/debian/$1.control.in" >"$root/DEBIAN/control"
    local extra
    for extra in conffiles postinst prerm postrm; do
        [ ! -e "packaging/debian/$1.$extra" ] || install -m 755 "packaging/debian/$1.$extra" "$root/DEBIAN/$extra"
    done
    [ ! -e "$root/DEBIAN/conffiles" ] || chmod 644 "$root/DEBIAN/conffiles"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
    mkdir -p "$out"
    package=$out/$1_${version}_$architecture.deb
    dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
    echo "$package"
}

begin volley-bench "$tester"
file 644 docs/reference/bench.md "$doc/bench.md"
finish volley-bench bench

begin volley "$volley"
mkdir -p "$root/usr/lib/volley"
ln -s ../../bin/volley "$root/usr/lib/volley/vppctl"

file 644 packaging/volley.service usr/lib/systemd/system/volley.service
file 644 packaging/sysusers.conf usr/lib/sysusers.d/volley.conf
file 644 packaging/tmpfiles.conf usr/lib/tmpfiles.d/volley.conf
file 644 packaging/sysctl.conf etc/sysctl.d/80-volley.conf
file 644 packaging/startup.conf etc/volley/startup.conf
file 644 packaging/volley.yaml etc/volley/volley.yaml

ln -s volley "$root/usr/share/bash-completion/completions/vppctl"
for function in packaging/completion/_volley_router packaging/completion/_vppctl; do
    file 644 "$function" "usr/share/zsh/vendor-completions/$(basename "$function")"
done
# All pages, at the paths that their links use.
for name in README.md $(git ls-files 'docs/*.md' || find docs -name '*.md'); do
    file 644 "$name" "$doc/$name"
done
ln -s ../examples "$root/$doc/docs/examples"
for example in docs/examples/*.yaml packaging/prometheus/volley.rules.yml packaging/grafana/volley.json; do
    file 644 "$example" "$doc/examples/$(basename "$example")"
done
finish volley volley
