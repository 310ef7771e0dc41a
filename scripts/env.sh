# Sourced by the other scripts: where the programs are that they call.
# An ordinary user's PATH on Debian has no sbin; rustup's directory is new to the shell that has just installed it.
PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
export PATH
# Where cargo puts what it builds.
target_dir=${CARGO_TARGET_DIR:-target}
