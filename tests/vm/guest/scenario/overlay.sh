# Files on overlayfs over ext4, both as kernel modules: 61 files are read, three of them are written and synced.
modules ext4
modules overlay
mkdir -p /mnt /merged
/sbin/mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$(disk nvme3)"
mount -t ext4 "$(disk nvme3)" /mnt
mkdir /mnt/lower /mnt/upper /mnt/work
for number in $(seq 61); do dd if=/dev/zero of=/mnt/lower/$number bs=4k count=3 2>/dev/null; done
umount /mnt
mount -t ext4 "$(disk nvme3)" /mnt
mount -t overlay overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work /merged
cat >/tmp/overlay <<'SCRIPT'
set -e
for number in $(seq 61); do dd if=/merged/$number of=/dev/null bs=12k count=1 2>/dev/null; done
for number in 1 2 3; do dd if=/dev/zero of=/merged/$number bs=4k count=1 conv=notrunc,fsync 2>/dev/null; done
SCRIPT
record overlay sh /tmp/overlay
umount /merged
umount /mnt
