#!/bin/sh
# Checks what has to be there before anything can be built; names the one command for whatever is missing.
set -eu
cd "$(dirname "$0")/.."
missing=0

lacks() {
    echo "missing: $1; install it with:  $2" >&2
    missing=1
}

command -v git >/dev/null || lacks git "apt-get install -y git"
command -v make >/dev/null || lacks make "apt-get install -y make"
command -v cc >/dev/null || lacks "a C linker" "apt-get install -y build-essential"
scripts/python.sh -c '' || missing=1
if ! command -v rustup >/dev/null; then
    lacks rustup "curl --proto '=https' -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal"
fi
[ "$missing" = 0 ] || exit 2

# rustup may be set up not to install tool chains by itself; ask for the pinned one by name.
channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
if ! rustup run "$channel" cargo --version >/dev/null 2>&1; then
    rustup toolchain install "$channel" --profile minimal --component rustfmt --component clippy
fi
