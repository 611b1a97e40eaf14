#!/usr/bin/env bash
# Fuzzes every target for FUZZ_SECONDS (default 60) each. Seeds are in fuzz/seeds, what was learnt in
# fuzz/corpus, an input that broke something in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: expected a nightly tool chain and cargo-fuzz; run: rustup toolchain install nightly && cargo install cargo-fuzz" >&2
    exit 2
fi
for target in $(cargo +nightly fuzz list); do
    mkdir -p "fuzz/corpus/$target"
    echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10
done
