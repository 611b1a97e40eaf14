#!/bin/bash
# What examples/fragmentation.toml needs: a file system per layout, each with one file, and a control group with 1 GiB of memory.
#   fragmentation.sh make PIECES [KIND]      images of a file of PIECES x 64 KiB: contiguous, fragmented, reallocated (KIND: ext4, xfs, btrfs)
#   fragmentation.sh mount IMAGE|DEVICE
#   fragmentation.sh unmount | remove
set -euo pipefail
work=build/fragmentation
mnt=$work/mnt
whodisk=${WHODISK:-.venv/bin/whodisk}

make() {
    local pieces=$1 kind=${2:-ext4} state image
    mkdir -p "$mnt"
    group
    for state in contiguous fragmented reallocated; do
        image=$work/$state.img
        # A third of it is the file: `layout fragment` needs twice the file's length beside it, and fill levels of 50 and 90 % must be above that.
        truncate -s $((pieces / 16 * 33 / 10 + 512))M "$image"
        "mkfs.$kind" -q $([ "$kind" = ext4 ] && echo -F -E lazy_itable_init=0,lazy_journal_init=0 || echo -f) "$image"
        mount -o loop,discard "$image" "$mnt"
        head -c $((pieces * 65536)) /dev/urandom >"$mnt/file"
        sync -f "$mnt"
        [ $state = contiguous ] || "$whodisk" layout fragment "$mnt/file" --pieces "$pieces" --piece 64KiB
        # By a copy, which any file system can; ext4 would exchange blocks in place.
        [ $state != reallocated ] || "$whodisk" layout reallocate "$mnt/file" --threshold 1 --rewrite
        "$whodisk" layout measure "$mnt/file"
        fstrim "$mnt"
        umount "$mnt"
    done
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
