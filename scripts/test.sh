#!/usr/bin/env bash
# Runs the checks and the tests, prints the time of each phase, and ends with one line: "N passed, N failed, N skipped".
# `test.sh lint` stops after the checks. The next phase runs even if a phase fails.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

failed=()
report=()
phase() { # phase NAME COMMAND…
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@" || failed+=("$name")
    report+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
}

documents() {
    # Private items are included, so that links to them work. The readers are Volley's own developers.
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items
}

log=$(mktemp)
loom_log=$(mktemp)
loom=
trap '[ -z "$loom" ] || kill -- "-$loom" "$loom" 2>/dev/null; rm -f "$log" "$loom_log"' EXIT
tests() {
    VOLLEY_BIN="$target_dir/debug/volley"
    export VOLLEY_BIN
    # The loom tests run beside the other tests with low priority, as most of those wait.
    (
        until grep -qE "^ *Running" "$log"; do [ -e "$log" ] && sleep 1 || exit; done
        # A process group of its own, so that the trap can end all of it.
        exec nice setsid make --no-print-directory loom >"$loom_log" 2>&1
    ) &
    loom=$!
    cargo test --workspace --no-fail-fast --config "target.'cfg(all())'.runner = '$PWD/scripts/run-tests'" 2>&1 | tee -a "$log"
    local ended=$?
    # Ends the wait above if no test ran.
    echo "Running has ended" >>"$log"
    return $ended
}
# Features are optional: the router is linted with each single feature and tested without any, with real neighbors, too. With --workspace,
# all crates but the router's own are those of the phases before, and need not be built again.
without_features() {
    local ended=0 folder
    for folder in crates/features/*/; do
        cargo clippy --quiet --workspace --bins --test metrics --no-default-features --features "volley/$(basename "$folder")" \
            -- -D warnings || ended=1
    done
    cargo test --quiet --workspace --no-default-features --test fuzz_graph --test metrics || ended=1
    cargo test --quiet --workspace --no-default-features --test patient -- ecmp:: link:: neighbor:: pmtu:: routes:: vlan:: vrf:: ||
        ended=1
    # Restores the program with all features in the target directory.
    cargo test --quiet --workspace --no-run --test metrics || ended=1
    return $ended
}
interleavings() {
    wait "$loom"
    local ended=$?
    loom=
    tee -a "$log" <"$loom_log"
    return $ended
}

phase "setup" scripts/setup.sh
phase "format" cargo fmt --all --check
phase "layers" scripts/check-layers
phase "reach" scripts/check-reach
phase "skips" scripts/check-skips
phase "links" scripts/check-docs
phase "lints" cargo clippy --quiet --workspace --all-targets -- -D warnings
phase "documentation" documents
if [ "${1:-all}" = all ]; then
    # Without benchmarks: the lints check them, and they do not run in this profile.
    phase "build" cargo test --workspace --no-run
    phase "tests" tests
    phase "without features" without_features
    phase "interleavings" interleavings
fi

printf '\n== summary\n'
printf '%s\n' "${report[@]}"
[ ${#failed[@]} = 0 ] || printf 'failed: %s\n' "${failed[@]}"
if [ "${1:-all}" = all ]; then
    scripts/count-tests "$log" || failed+=("the count of tests")
fi
[ ${#failed[@]} = 0 ]
