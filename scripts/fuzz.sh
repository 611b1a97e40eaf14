#!/usr/bin/env bash
# Fuzzes every target, importers format by format (those that most people have first), FUZZ_JOBS (1) at once: each until FUZZ_IDLE_SECONDS (300) pass without a new edge, at most
# FUZZ_SECONDS (1200). Seconds are the fuzzer's own CPU time: one that is stopped, or starved by others, does not count as idle.
# Seeds are in fuzz/seeds, those of importers are the samples in crates/import/tests/fixtures; what was learnt is in fuzz/corpus, where the next
# run goes on; an input that broke something is in fuzz/artifacts. How each target ended is a line of docs/reference/fuzz.md.
# The readers are safe Rust, so no sanitizer slows them down; their memory is limited instead.
# With names, only these targets or formats. FUZZ_SKIP=1 leaves out those with a line of the current code. Exit code 1: something broke.
set -euo pipefail
cd "$(dirname "$0")/.."
most_s=${FUZZ_SECONDS:-1200} idle_s=${FUZZ_IDLE_SECONDS:-300} jobs_max=${FUZZ_JOBS:-1} skip=${FUZZ_SKIP:-0}
binaries=fuzz/target/x86_64-unknown-linux-gnu/release
table=docs/reference/fuzz.md
# What a fuzzer may allocate.
memory_kib=$((4 << 20))
# A unit may take this much CPU time; libFuzzer's own limit counts the time that a fuzzer is stopped.
unit_s=10 unit_wall_s=30
ticks=$(getconf CLK_TCK)

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: no nightly tool chain with cargo-fuzz: importers get random damage without a look at what it reaches, other readers nothing" >&2
    echo "fuzz: for all of it: rustup toolchain install nightly && cargo +nightly install cargo-fuzz" >&2
    WHODISK_FUZZ_SECONDS=$idle_s exec cargo test --release --package whodisk-import --test all formats::damaged -- --nocapture
fi

cargo +nightly fuzz build --sanitizer none
commit=$(git rev-parse --short=8 HEAD)
git diff --quiet HEAD -- crates fuzz || commit+=-dirty
broken=$(mktemp) ended=$(mktemp)
trap 'jobs -p | xargs -r kill 2>/dev/null || true; rm -f "$broken" "$ended"' EXIT
trap 'exit 130' INT TERM

# What an importer reads with: its own file, those beside it that it uses, and what all share.
importer_files() {
    local file users uses
    users=$(grep -rlE "name: \"$1\"," crates/import/src)
    [[ $users == */mod.rs ]] && users=$(echo "$(dirname "$users")"/*.rs)
    while :; do
        # shellcheck disable=SC2086
        uses=$({ grep -hoE '\b(super|formats)::[a-z_0-9]+' $users || true; } | sed -E 's/.*:://' | sort -u | while read -r name; do
            file=crates/import/src/formats/$name.rs
            if [[ -f $file ]]; then echo "$file"; fi
        done)
        uses=$(printf '%s\n' $users $uses | sort -u)
        [[ $uses == "$(printf '%s\n' $users | sort -u)" ]] && break
        users=$uses
    done
    printf '%s\n' $uses crates/import/src/*.rs
}

# The words in a target's code, as libFuzzer's dictionary has them: keywords of a format, names of columns.
words_of() {
    local target=$1 name=$2 files=fuzz/fuzz_targets/$1.rs
    if [[ $target == import ]]; then
        files=$(importer_files "${name#import-}" | grep -vE '/src/[a-z_0-9]+\.rs$')
    fi
    echo "# words of $name"
    # shellcheck disable=SC2086
    sed '/^mod tests/,$d' $files | { grep -oE '"[A-Za-z0-9_ :=()./%#,<>{}[@-]{1,40}"' || true; } | sed '/{[a-z_:?]*}/d' | sort -u
}

# A hash over the target, and what it fuzzes: an importer's files, or the crate.
code_of() {
    local target=$1 name=$2 files
    files=fuzz/fuzz_targets/$target.rs
    if [[ $target == import ]]; then
        files+=" $(importer_files "${name#import-}")"
    else
        files+=" $(grep -oE '^use (case|lab|slowdisk|workload)\b' "$files" | sed 's/use //' | sort -u | while read -r crate; do
            find "crates/$crate/src" -name '*.rs' | sort
        done)"
    fi
    # shellcheck disable=SC2086
    cat $files | sha256sum | cut -c 1-12
}

wanted() {
    local name=$1
    shift
    [[ $# -eq 0 || " $* " == *" $name "* ]]
}

# The last of a figure that libFuzzer told so far.
told() { tail -c 65536 "$2" | grep -oE "$1:? +[0-9]+" | tail -n 1 | grep -oE '[0-9]+$' || echo 0; }

# CPU seconds of a process; nothing once it is gone.
cpu_s() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    echo $(((${12} + ${13}) / ticks))
}

write_line() {
    local name=$1 line=$2
    (
        flock 9
        {
            cat <<'HEAD'
# Fuzzing

`scripts/fuzz.sh` (`make fuzz`) writes a line as each target ends: the commit, a hash over the code (the target; of an importer, its own file,
those that it uses, and what all importers share; of another reader, its crate), CPU seconds of the fuzzer, inputs that it ran, edges that the
corpus reaches, and why it ended. The rule: until 300 CPU seconds pass without a new edge, at most 1200. A run begins with the corpus of
the one before.

| target | commit | code | CPU s | inputs | edges | ended by |
|---|---|---|---|---|---|---|
HEAD
            { { grep -E '^\| [a-z]' "$table" 2>/dev/null || true; } | grep -v -e "^| target " -e "^| $name " || true; echo "$line"; } | sort
        } >"$table.new"
        mv "$table.new" "$table"
    ) 9>"fuzz/target/table.lock"
}

run() {
    local target=$1 name=$2 seeds=$3 code_now=$4
    local corpus=fuzz/corpus/$name artifacts=fuzz/artifacts/$name log=fuzz/target/$name.log dictionary=fuzz/target/$name.dict
    mkdir -p "$corpus" "$artifacts"
    words_of "$target" "$name" >"$dictionary"
    local before_s=0 used_s=0 learnt_s=0 edges=0 inputs=0 end="" fuzzer=
    trap 'kill "$fuzzer" 2>/dev/null || true; exit 130' TERM INT
    while [[ -z $end ]]; do
        local code=0 now_s
        (
            ulimit -v "$memory_kib"
            exec "$binaries/$target" "$corpus" "$seeds" -artifact_prefix="$artifacts/" -report_slow_units=1000000 -dict="$dictionary" \
                -rss_limit_mb=2048 -timeout="$unit_wall_s" -print_final_stats=1 >"$log" 2>&1
        ) &
        fuzzer=$!
        while now_s=$(cpu_s "$fuzzer"); do
            used_s=$((before_s + now_s))
            local now
            now=$(told cov "$log")
            if ((now > edges)); then
                edges=$now learnt_s=$used_s
            elif ((used_s - learnt_s >= idle_s)); then
                end="no new edge for $idle_s s"
            elif ((used_s >= most_s)); then
                end="$most_s s"
            fi
            if [[ -n $end ]]; then
                kill -TERM "$fuzzer" 2>/dev/null || true
                break
            fi
            sleep 1
        done
        wait "$fuzzer" || code=$?
        before_s=$used_s inputs=$((inputs + $(told number_of_executed_units "$log")))
        # 72 is how libFuzzer ends when it is told to, 70 when a unit takes too long: stopped, or it is slow.
        if ((code == 70)) && was_stopped "$binaries/$target" "$artifacts"; then
            continue
        elif ((code != 0 && code != 72)); then
            end="**broken**, exit $code"
            echo "$name" >>"$broken"
            echo "fuzz: $name: exit $code: $log, $artifacts" >&2
        fi
    done
    write_line "$name" "| $name | $commit | $code_now | $used_s | $inputs | $edges | $end |"
    echo "$name" >>"$ended"
    printf '%-28s %6d CPU s  %10d inputs  %6d edges  %s\n' "$name" "$used_s" "$inputs" "$edges" "$end"
}

# Whether what took too long is done in time by itself; then it is no artifact.
was_stopped() {
    local binary=$1 artifacts=$2 unit
    for unit in "$artifacts"/timeout-*; do
        (ulimit -t "$unit_s" && exec "$binary" "$unit" -timeout=0 -rss_limit_mb=2048) >/dev/null 2>&1 || return 1
        rm "$unit"
    done
}

# Two bytes before a log's content say how it is read.
run_importer() {
    local format=$1 code_now=$2 seeds file name
    seeds=$(mktemp -d)
    for file in "crates/import/tests/fixtures/$format/"*; do
        name=$(basename "$file")
        if [[ $name != golden.txt && $name != map ]]; then
            { printf '\0\0'; cat "$file"; } >"$seeds/$name"
            { printf '\3\0'; cat "$file"; } >"$seeds/$name.twice"
        fi
    done
    WHODISK_FUZZ_FORMAT=$format run import "import-$format" "$seeds" "$code_now"
    rm -r "$seeds"
}

# The sources may change while this runs: the hashes are those of what was built.
queue=() begun=()
first="fio-lat blkparse blktrace iostat fio-json biosnoop strace trace-events ycsb pgbench netapp-sysstat sysstat-json series ops rocksdb-log diskspd"
for format in $first $(cd crates/import/tests/fixtures && ls -d -- * | grep -vxF "${first// /$'\n'}"); do
    if wanted "$format" "$@"; then
        queue+=("import import-$format $(code_of import "import-$format")")
    fi
done
for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
    if [[ $target != import ]] && wanted "$target" "$@"; then
        queue+=("$target $target $(code_of "$target" "$target")")
    fi
done
for one in "${queue[@]}"; do
    read -r target name code_now <<<"$one"
    if [[ $skip == 1 ]] && grep -qE "^\| $name \| [^|]+ \| $code_now \|.* \| (no new edge|[0-9]+ s)" "$table" 2>/dev/null; then
        echo "$name: there is a line of this code"
        continue
    fi
    while (($(jobs -rp | wc -l) >= jobs_max)); do
        wait -n || true
    done
    begun+=("$name")
    if [[ $target == import ]]; then
        run_importer "${name#import-}" "$code_now" &
    else
        run "$target" "$name" "fuzz/seeds/$target" "$code_now" &
    fi
done
wait
code=0
if [[ -s $broken ]]; then
    echo "fuzz: broken: $(tr '\n' ' ' <"$broken")" >&2
    code=1
fi
for name in "${begun[@]}"; do
    if ! grep -qxF "$name" "$ended"; then
        echo "fuzz: $name: ended without a result, which is an error of this script: look above" >&2
        code=1
    fi
done
exit "$code"

