#!/usr/bin/env bash
# Makes the Debian package: build-deb.sh [DIRECTORY] (default: target/debian). $VOLLEY_BIN names a binary that is there already.
# Plain dpkg-deb: what is packed is what is listed here.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

out=${1:-$target_dir/debian}
if [ -z "${VOLLEY_BIN:-}" ]; then
    cargo build --release --package volley
fi
volley=${VOLLEY_BIN:-$target_dir/release/volley}
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
# The same sources make the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022
file() { # file MODE SOURCE DESTINATION
    install -D -m "$1" "$2" "$root/$3"
}
packed() { # packed DESTINATION: standard input, compressed
    mkdir -p "$(dirname "$root/$1")"
    gzip -9n >"$root/$1"
}

file 755 "$volley" usr/bin/volley
strip --strip-unneeded "$root/usr/bin/volley"
mkdir -p "$root/usr/lib/volley"
ln -s ../../bin/volley "$root/usr/lib/volley/vppctl"

file 644 packaging/volley.service usr/lib/systemd/system/volley.service
file 644 packaging/sysusers.conf usr/lib/sysusers.d/volley.conf
file 644 packaging/tmpfiles.conf usr/lib/tmpfiles.d/volley.conf
file 644 packaging/sysctl.conf etc/sysctl.d/80-volley.conf
file 644 packaging/startup.conf etc/volley/startup.conf
file 644 packaging/volley.yaml etc/volley/volley.yaml

"$volley" documents "$work/documents"
for page in "$work"/documents/*.[1-9]; do
    packed "usr/share/man/man${page##*.}/$(basename "$page").gz" <"$page"
done
file 644 "$work/documents/volley.bash" usr/share/bash-completion/completions/volley
ln -s volley "$root/usr/share/bash-completion/completions/vppctl"
for function in "$work/documents/_volley" packaging/completion/_volley_router packaging/completion/_vppctl; do
    file 644 "$function" usr/share/zsh/vendor-completions/"$(basename "$function")"
done

doc=usr/share/doc/volley
for name in README.md docs/configuration.md docs/metrics.md docs/startup-conf.md docs/cli.md; do
    file 644 $name $doc/"$(basename $name)"
done
for example in docs/examples/*.yaml packaging/prometheus/volley.rules.yml packaging/grafana/volley.json; do
    file 644 "$example" $doc/examples/"$(basename "$example")"
done
{
    cat packaging/debian/copyright
    printf 'License: MIT\n'
    sed 's/^[[:space:]]*$/./; s/^/ /' LICENSE-MIT
    printf '\nLicense: Apache-2.0\n On Debian systems its text is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$work/copyright"
file 644 "$work/copyright" $doc/copyright
cargo tree --package volley --edges normal --prefix none --format '{p}  {l}' |
    grep -v '(/' | sed 's/ (\*)$//' | sort -u | packed $doc/crates.gz
printf 'volley (%s) stable; urgency=medium\n\n  * See the history of the sources.\n\n -- The Volley authors <volley@localhost>  %s\n' \
    "$version" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | packed $doc/changelog.gz

# The libraries, by what the binary asks of them.
mkdir -p "$work/debian"
printf 'Source: volley\n\nPackage: volley\nArchitecture: any\nDescription: x\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/volley" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
size=$(du -k -s --apparent-size "$root" | cut -f1)
mkdir "$root/DEBIAN"
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/; s/@LIBRARIES@/$libraries/" \
    packaging/debian/control.in >"$root/DEBIAN/control"
install -m 644 packaging/debian/conffiles "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 packaging/debian/$script "$root/DEBIAN/$script"
done
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)

mkdir -p "$out"
package=$out/volley_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
