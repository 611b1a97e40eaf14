#!/usr/bin/env bash
# Fuzzes every target, importers format by format: each until FUZZ_IDLE_SECONDS (300) pass without a new edge, at most FUZZ_SECONDS (1200). Seeds are
# in fuzz/seeds, those of importers are the samples in crates/import/tests/fixtures; what was learnt is in fuzz/corpus, where the next run goes
# on; an input that broke something is in fuzz/artifacts. With names, only these targets or formats. Exit code 1: something broke.
set -euo pipefail
cd "$(dirname "$0")/.."
most_s=${FUZZ_SECONDS:-1200} idle_s=${FUZZ_IDLE_SECONDS:-300}
binaries=fuzz/target/x86_64-unknown-linux-gnu/release

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: no nightly tool chain with cargo-fuzz: importers get random damage without a look at what it reaches, other readers nothing" >&2
    echo "fuzz: for all of it: rustup toolchain install nightly && cargo +nightly install cargo-fuzz" >&2
    WHODISK_FUZZ_SECONDS=$idle_s exec cargo test --release --package whodisk-import --test formats damaged -- --nocapture
fi

cargo +nightly fuzz build
broken=()

wanted() {
    local name=$1
    shift
    [[ $# -eq 0 || " $* " == *" $name "* ]]
}

# The last of a figure that libFuzzer told so far.
told() { grep -oE "$1:? +[0-9]+" "$2" | tail -n 1 | grep -oE '[0-9]+$' || echo 0; }

run() {
    local target=$1 name=$2 seeds=$3
    local corpus=fuzz/corpus/$name artifacts=fuzz/artifacts/$name log=fuzz/target/$name.log
    mkdir -p "$corpus" "$artifacts"
    local begun_s=$SECONDS learnt_s=$SECONDS edges=0 code=0 end="at most ${most_s} s"
    # Without the sanitizer's leak check, which needs ptrace.
    ASAN_OPTIONS=detect_leaks=0 "$binaries/$target" "$corpus" "$seeds" -artifact_prefix="$artifacts/" -max_total_time="$most_s" \
        -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10 -print_final_stats=1 >"$log" 2>&1 &
    local fuzzer=$!
    while kill -0 "$fuzzer" 2>/dev/null; do
        sleep 1
        local now
        now=$(told cov "$log")
        if [[ $now != "$edges" ]]; then
            edges=$now learnt_s=$SECONDS
        elif ((SECONDS - learnt_s >= idle_s)); then
            end="no new edge for $idle_s s"
            kill -INT "$fuzzer" 2>/dev/null || true
            break
        fi
    done
    wait "$fuzzer" || code=$?
    # 72 is how libFuzzer ends when it is told to.
    if ((code != 0 && code != 72)); then
        end="BROKEN, exit $code: $log, $artifacts"
        broken+=("$name")
    fi
    printf '%-24s %6d s  %10d inputs  %6d edges  %s\n' \
        "$name" $((SECONDS - begun_s)) "$(told number_of_executed_units "$log")" "$edges" "$end"
}

for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
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
if ((${#broken[@]} > 0)); then
    echo "fuzz: broken: ${broken[*]}" >&2
    exit 1
fi
