# xfs and btrfs as kernel modules.
mkdir -p /mnt
modules xfs
# Half of what it thinks it needs is enough.
/sbin/mkfs.xfs -q --unsupported "$(disk nvme1)"
mount -t xfs "$(disk nvme1)" /mnt
record xfs sh /guest/fsyncs /mnt/file 17
umount /mnt
modules btrfs
/sbin/mkfs.btrfs -q "$(disk nvme2)"
mount -t btrfs "$(disk nvme2)" /mnt
record btrfs sh -c "sh /guest/fsyncs /mnt/file 17; sync"
umount /mnt
