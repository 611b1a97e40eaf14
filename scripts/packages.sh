#!/bin/sh
# packages.sh TARGET: installs the Debian packages that `make TARGET` needs and that are missing.
# As root it installs them, else it prints the command; what needs them is then skipped by name.
set -eu
cd "$(dirname "$0")"
missing=""
while read -r package program targets _; do
    case "$package" in "" | "#"*) continue ;; esac
    case ",$targets," in *",$1,"*) ;; *) continue ;; esac
    if [ "$program" = - ]; then
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok' || missing="$missing $package"
    else
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing="$missing $package"
    fi
done <debian-packages.txt
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo "not found, tests that need them are skipped:$missing" >&2
elif [ "$(id -u)" = 0 ]; then
    echo "installing:$missing" >&2
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "not found, what needs them is skipped; install with:  sudo apt-get install -y$missing" >&2
fi
