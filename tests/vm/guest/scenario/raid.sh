# Four NVMe drives as raid0, then as raid5; in mid-run one of them is throttled. Reads begin with any member: the emulator
# serves drives in the order of their requests, and would always be late with the last.
modules stacked
drives="$(disk nvme0) $(disk nvme1) $(disk nvme2) $(disk nvme3)"
for level in 0 5; do
    host "limit nvme2 0"
    mdadm --create /dev/md$level --run --assume-clean --metadata=1.2 --level=$level --chunk=64 \
        --raid-devices=4 $drives
    # Whoever opens it first also looks for partitions.
    blockdev --getsz /dev/md$level
    record raid$level-healthy load -n 101 -s 262144 -a 65536 /dev/md$level
    host "limit nvme2 100"
    record raid$level-sick load -n 101 -s 262144 -a 65536 /dev/md$level
    mdadm --stop /dev/md$level
    mdadm --zero-superblock $drives
done
