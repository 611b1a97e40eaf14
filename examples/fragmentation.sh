#!/bin/bash
# What examples/fragmentation.toml needs: a file system per layout, each with one file, and a control group with 1 GiB of memory.
#   fragmentation.sh make PIECES [KIND]      images of a file of PIECES x 64 KiB: contiguous, fragmented, reallocated (KIND: ext4, xfs, btrfs)
#   fragmentation.sh mount IMAGE|DEVICE
#   fragmentation.sh unmount | remove
set -euo pipefail
work=build/fragmentation
mnt=$work/mnt
whodisk=${WHODISK:-.venv/bin/whodisk}

# As large as the modelled disk's real size, and the file system on its outermost part: were the disk as small as the file system, its arm would
# cross all of it, and each layout's place on it would count as much as the layout (random reads of a file in the middle: 10 % fewer).
disk_bytes=4000000000000

make() {
    local pieces=$1 kind=${2:-ext4} state image size
    mkdir -p "$mnt"
    group
    # Room for the file and two copies, so that the reallocated one finds long free runs (with less it lay in 39 all over the volume, and was 3 to
    # 5 % slower even under random reads); and fill levels of 50 and 90 % are above the file.
    size=$(((pieces / 16 * 33 / 10 + 512) * 1048576))
    for state in contiguous fragmented reallocated; do
        image=$work/$state.img
        truncate -s $disk_bytes "$image"
        # Reserved in one go: blocks that the host reserved as they are written would lie in the order of writing, and pieces be in order there.
        fallocate -l $size "$image"
        make_file_system "$kind" "$image" $size
        mount -o loop "$image" "$mnt"
        head -c $((pieces * 65536)) /dev/urandom >"$mnt/file"
        sync -f "$mnt"
        [ $state = contiguous ] || "$whodisk" layout fragment "$mnt/file" --pieces "$pieces" --piece 64KiB
        # By a copy, which any file system can; ext4 would exchange blocks in place.
        [ $state != reallocated ] || "$whodisk" layout reallocate "$mnt/file" --threshold 1 --rewrite
        "$whodisk" layout measure "$mnt/file"
        umount "$mnt"
    done
}

make_file_system() {
    case $1 in
    # Without discards, which would give back what is reserved.
    ext4) mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$2" $(($3 / 1024))k ;;
    xfs) mkfs.xfs -q -f -K -d size=$3 "$2" ;;
    btrfs) mkfs.btrfs -q -f -K -b $3 "$2" ;;
    *) echo "fragmentation.sh: expected ext4, xfs or btrfs, found '$1'" >&2 && exit 2 ;;
    esac
}

group() {
    local root=/sys/fs/cgroup limit=memory.max
    if [ ! -e $root/cgroup.controllers ]; then
        root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
    else
        echo +memory >$root/cgroup.subtree_control
    fi
    mkdir -p $root/whodisk-fragmentation
    echo $((1 << 30)) >$root/whodisk-fragmentation/$limit
    ln -sfn $root/whodisk-fragmentation "$work/group"
}

case $1 in
make) make "${@:2}" ;;
mount)
    device=$2
    # Direct, or the host's page cache would answer instead of the disk; a detached device goes with its mount.
    [ -b "$2" ] || device=$(losetup --find --show --direct-io=on "$2")
    mount "$device" "$mnt"
    [ -b "$2" ] || losetup -d "$device"
    ;;
unmount) ! mountpoint -q "$mnt" || umount "$mnt" ;;
remove)
    ! mountpoint -q "$mnt" || umount "$mnt"
    rmdir "$(readlink "$work/group")" || true
    rm -rf "$work"
    ;;
*) echo "fragmentation.sh: expected make, mount, unmount or remove, found '$1'" >&2 && exit 2 ;;
esac
