# Two readers through the page cache of a seek-bound disk. They read 4 KiB more than the readahead. That alone costs
# nothing while one request may be as large (max_sectors_kb); otherwise the rest waits behind the other's seek.
disk=$(disk hdd)
queue=/sys/block/$(basename "$disk")/queue
echo 128 >"$queue/read_ahead_kb"
for kb in 1280 128; do
    echo $kb >"$queue/max_sectors_kb"
    echo 3 >/proc/sys/vm/drop_caches
    record max-sectors-$kb load -b -s 135168 -n 151 -r $kb "$disk" "$disk"
done
