# Sourced by the other scripts: where the programs are that they call.
# An ordinary user's PATH on Debian has no sbin; rustup's directory is new to the shell that has just installed it.
PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
export PATH
# Where cargo puts what it builds: the whole path, because benchmarks and tests run in directories of their own.
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
