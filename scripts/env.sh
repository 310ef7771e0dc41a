# Sourced by the other scripts: sets PATH and the target directory.
# The PATH of an ordinary user on Debian lacks sbin. A shell that has just installed Rust lacks rustup's directory.
PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
export PATH
# Cargo's target directory as an absolute path, as benchmarks and tests run in other directories.
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
