# Drives with the I/O schedulers none, mq-deadline and bfq, and one as the kernel left it; all in one recording. What the
# kernel itself counts of each device, before and after: $OUT/stat.jsonl.
modules schedulers
drives=
: >"$OUT/schedulers.jsonl"
for kind in nvme virtio; do
    number=0
    for scheduler in none mq-deadline bfq left; do
        [ -e "/dev/disk-$kind$number" ] || continue
        drive=$(disk $kind$number)
        file=/sys/block/$(basename "$drive")/queue/scheduler
        [ $scheduler = left ] || echo $scheduler >"$file"
        used=$(sed 's/.*\[\(.*\)\].*/\1/' "$file")
        echo "{\"serial\": \"$kind$number\", \"scheduler\": \"$used\"}" >>"$OUT/schedulers.jsonl"
        drives="$drives $drive"
        number=$((number + 1))
    done
done
statistics() {
    for drive in $drives; do
        echo "{\"device\": \"$(basename "$drive")\", \"at\": \"$1\", \"fields\": \"$(cat "/sys/block/$(basename "$drive")/stat")\"}"
    done >>"$OUT/stat.jsonl"
}
# Two loads would have one output each: NAME.json is that of the reads.
cat >/tmp/each <<'EACH'
set -e
load -n 211 "$@"
load -w -n 31 "$@" >/dev/null
for drive in "$@"; do
    dd if=/dev/zero of=$drive bs=64k seek=16 count=7 conv=fsync 2>/dev/null
done
EACH
statistics before
record schedulers sh /tmp/each $drives
statistics after
