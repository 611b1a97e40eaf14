# What the agent can do on this kernel: doctor, its own engine joined to requests, and a stacked device.
whodisk-agent doctor --json >"$OUT/doctor.json" || true
cat >/tmp/engine.toml <<SPEC
[workload]
targets = ["$(disk nvme0)"]
allow_overwrite = true
block_sizes = "4KiB"
read = "60%"
random = "100%"
queue_depth = 8
operations = 1009
seed = 1
SPEC
whodisk-agent run -o "$OUT/engine.case" --drop-raw --json /tmp/engine.toml >"$OUT/engine.json"
modules stacked
drive=$(disk nvme1)
dmsetup create stacked --table "0 $(blockdev --getsz "$drive") linear $drive 0"
dmsetup mknodes
record stacked load -n 499 /dev/mapper/stacked
record stacked-buffered sh -c "load -b -n 101 /dev/mapper/stacked
dd if=/dev/zero of=/dev/mapper/stacked bs=64k count=31 conv=fsync 2>/dev/null"
sed "s|^targets.*|targets = [\"/dev/mapper/stacked\"]|; s|^operations.*|operations = 211|" /tmp/engine.toml >/tmp/stacked.toml
whodisk-agent run -o "$OUT/stacked-engine.case" --drop-raw --json /tmp/stacked.toml >"$OUT/stacked-engine.json"
dmsetup remove stacked
record writeback sh -c "dd if=/dev/zero of=$(disk nvme2) bs=64k count=31 conv=fsync 2>/dev/null"
