# A reader that also computes, without and with a limit on its CPU time.
drive=$(disk nvme0)
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/limited
record healthy load -t 1.5 -c 1000 "$drive"
echo "20000 100000" >/sys/fs/cgroup/limited/cpu.max
record sick sh -c "echo 0 >/sys/fs/cgroup/limited/cgroup.procs; exec load -t 1.5 -c 1000 $drive"
cat /sys/fs/cgroup/limited/cpu.stat
