# Four NVMe drives on interrupt lines of their own; the first shares its line with a device whose handler is slow.
drives="$(disk nvme0) $(disk nvme1) $(disk nvme2) $(disk nvme3)"
cat /proc/interrupts
record healthy load -n 307 -p 2000 $drives
echo 40000 >/sys/module/slowisr/parameters/reads
record sick load -n 307 -p 2000 $drives
echo 0 >/sys/module/slowisr/parameters/reads
