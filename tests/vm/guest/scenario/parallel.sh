# Four drives behind virtio-blk, one reader each, all at once; twice.
drives="$(disk virtio0) $(disk virtio1) $(disk virtio2) $(disk virtio3)"
record parallel load -n 1009 $drives
record parallel-2 load -n 1009 $drives
