#!/bin/sh
# install.sh BINARY: makes `whodisk` of this tree runnable in .venv, the Python sources in place (editable).
# `make wheel` builds what is handed to others; this only avoids a second run of cargo.
set -eu
cd "$(dirname "$0")/.."
venv=$PWD/.venv
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/python" >"$site/whodisk.pth"
sed "1s|.*|#!$venv/bin/python|" scripts/wheel/scripts/whodisk >"$venv/bin/whodisk.new"
cp "$1" "$venv/bin/whodisk-agent.new"
chmod 755 "$venv/bin/whodisk.new" "$venv/bin/whodisk-agent.new"
# Renamed, so that a program that runs meanwhile is not torn.
mv "$venv/bin/whodisk.new" "$venv/bin/whodisk"
mv "$venv/bin/whodisk-agent.new" "$venv/bin/whodisk-agent"
