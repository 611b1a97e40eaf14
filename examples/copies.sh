#!/bin/bash
# What examples/copies.toml and examples/copies-tail.toml need: a file system with one file in an image, and an SMB server on it.
#   copies.sh make SIZE_MIB [KIND]               the image (KIND: ext4, xfs) with a.bin of this size
#   copies.sh start DEVICE SERVER [DELAY] [...]  mounts it and serves it by samba or odx_server, through a proxy; the rest goes to odx_server
#   copies.sh stop | remove
set -euo pipefail
work=build/copies
mnt=$work/mnt
python=${PYTHON:-.venv/bin/python}

make() {
    local size=$1 kind=${2:-ext4}
    mkdir -p "$mnt"
    truncate -s $((size * 5 / 2 + 512))M "$work/disk.img"
    if [ "$kind" = ext4 ]; then
        mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$work/disk.img"
    else
        mkfs.xfs -q -f -s size=4096 "$work/disk.img"
    fi
    mount -o loop "$work/disk.img" "$mnt"
    head -c "${size}M" /dev/urandom >"$mnt/a.bin"
    umount "$mnt"
}

# Runs a server behind our back until its first line is there. A server that ends before says why in its log.
serve() {
    local name=$1
    shift
    setsid "$@" >"$work/$name.out" 2>"$work/$name.log" </dev/null &
    echo $! >>"$work/pids"
    for _ in $(seq 200); do
        [ ! -s "$work/$name.out" ] || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/$name.log" >&2
    return 1
}

start() {
    local device=$1 server=$2 delay=${3:-0ms} port=4456
    mount "$device" "$mnt"
    # The copy of the run before: each begins in the same file system.
    rm -f "$mnt/b.bin"
    sync -f "$mnt"
    rm -f "$work"/pids "$work"/server.pid
    if [ "$server" = samba ]; then
        port=4455
        serve samba "$python" examples/copy_server/samba.py --state "$work/samba" --port $port --share "copies=$mnt"
        ln -sfn samba/credentials "$work/credentials"
        ln -sfn samba/smbd.pid "$work/server.pid"
    else
        PYTHONPATH=examples/odx serve odx "$python" -m odx_server --share "copies=$mnt" --port $port --credentials "$work/odx.credentials" \
            --pid-file "$work/server.pid" "${@:4}"
        ln -sfn odx.credentials "$work/credentials"
    fi
    # Without delay, too: what the proxy itself costs is then the same for all.
    serve proxy "$python" examples/copy_server/proxy.py --to 127.0.0.1:$port --listen 4460 --delay "$delay"
    echo 1 >/proc/sys/vm/drop_caches
}

stop() {
    [ ! -e $work/pids ] || xargs -r kill <$work/pids 2>/dev/null || true
    rm -f $work/pids
    for _ in $(seq 100); do
        mountpoint -q "$mnt" || return 0
        umount "$mnt" 2>/dev/null || sleep 0.1
    done
    umount "$mnt"
}

case $1 in
make) make "${@:2}" ;;
start) start "${@:2}" ;;
stop) stop ;;
remove)
    stop
    rm -rf "$work"
    ;;
*) echo "copies.sh: expected make, start, stop or remove, found '$1'" >&2 && exit 2 ;;
esac
