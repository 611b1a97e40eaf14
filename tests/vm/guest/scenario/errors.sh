# A drive with two bad places: 4 MiB from its begin the first read fails, 8 MiB from it every one. Then it is reset.
drive=$(disk bad)
controller=/sys/block/$(basename "$drive")/device
record errors sh -c "
dd if=$drive of=/dev/null bs=4k count=101 iflag=direct 2>/dev/null
dd if=$drive of=/dev/null bs=4k skip=1024 count=1 iflag=direct 2>/dev/null
dd if=$drive of=/dev/null bs=4k skip=2048 count=1 iflag=direct 2>/dev/null && exit 1
echo 1 >$controller/reset_controller
dd if=$drive of=/dev/null bs=4k count=101 iflag=direct 2>/dev/null"
