# File systems that are kernel modules: what their journals do is recorded, also if the module is loaded meanwhile.
mkdir -p /mnt
# By its path: busybox has an applet of that name.
/sbin/mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$(disk nvme0)"
cat >/tmp/late <<LATE
set -e
while read -r module; do
    [ -d "/sys/module/\$module" ] || insmod "/modules/\$module.ko"
done </modules/ext4
sleep 0.5
mount -t ext4 $(disk nvme0) /mnt
sh /guest/fsyncs /mnt/late 17
LATE
record late sh /tmp/late
record ext4 sh /guest/fsyncs /mnt/file 17
umount /mnt
