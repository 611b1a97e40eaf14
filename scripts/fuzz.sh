#!/usr/bin/env bash
# Fuzzes every target for FUZZ_SECONDS (default 60) each, importers format by format. Seeds are in fuzz/seeds, those of importers are the samples in
# crates/import/tests/fixtures; what was learnt is in fuzz/corpus, an input that broke something in fuzz/artifacts. With names, only these targets or formats.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: no nightly tool chain with cargo-fuzz: importers get random damage without a look at what it reaches, other readers nothing" >&2
    echo "fuzz: for all of it: rustup toolchain install nightly && cargo +nightly install cargo-fuzz" >&2
    WHODISK_FUZZ_SECONDS=${FUZZ_SECONDS:-60} exec cargo test --release --package whodisk-import --test formats damaged -- --nocapture
fi

wanted() {
    local name=$1
    shift
    [[ $# -eq 0 || " $* " == *" $name "* ]]
}

run() {
    local target=$1 corpus=fuzz/corpus/$2 seeds=$3
    mkdir -p "$corpus"
    echo "fuzz: $2 for ${FUZZ_SECONDS:-60} s"
    # Without the sanitizer's leak check, which needs ptrace.
    ASAN_OPTIONS=detect_leaks=0 cargo +nightly fuzz run "$target" "$corpus" "$seeds" -- \
        -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10 -print_final_stats=1
}

for target in $(cargo +nightly fuzz list); do
    if [[ $target != import ]] && wanted "$target" "$@"; then
        run "$target" "$target" "fuzz/seeds/$target"
    fi
done
for folder in crates/import/tests/fixtures/*/; do
    format=$(basename "$folder")
    wanted "$format" "$@" || continue
    # Two bytes before the content say how it is read.
    seeds=$(mktemp -d)
    for file in "$folder"*; do
        name=$(basename "$file")
        if [[ $name != golden.txt && $name != map ]]; then
            { printf '\0\0'; cat "$file"; } >"$seeds/$name"
            { printf '\3\0'; cat "$file"; } >"$seeds/$name.twice"
        fi
    done
    WHODISK_FUZZ_FORMAT=$format run import "import-$format" "$seeds"
    rm -r "$seeds"
done
