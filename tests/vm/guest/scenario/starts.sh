# $STARTS recordings begin and end while all CPUs do I/O: the programs that are attached, chained and detached run meanwhile.
: >"$OUT/starts"
while :; do load -t 20 -p 2000 $(disk virtio0) $(disk virtio1) $(disk nvme0) $(disk nvme1) >/dev/null; done &
while [ "$(wc -l <"$OUT/starts")" -lt "$STARTS" ]; do
    whodisk-agent record -o /tmp/start.case --no-seal -- load -n 11 "$(disk virtio2)" >/dev/null
    rm -r /tmp/start.case
    cut -d' ' -f1 /proc/uptime >>"$OUT/starts"
done
# Fails if the load has ended.
kill $!
cat /proc/sys/kernel/tainted >"$OUT/tainted"
