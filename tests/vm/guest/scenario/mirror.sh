# Two NVMe drives as raid1: each durable write is one of data and a flush, of both members.
modules mirrors
mdadm --create /dev/md1 --run --assume-clean --metadata=1.2 --level=1 --raid-devices=2 "$(disk nvme1)" "$(disk nvme2)"
# Whoever opens it first also looks for partitions.
blockdev --getsz /dev/md1
record mirror load -w -n 53 /dev/md1
mdadm --stop /dev/md1
