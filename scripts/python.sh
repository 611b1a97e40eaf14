#!/bin/sh
# Runs the newest Python >= 3.11 of this machine that can make virtual environments.
set -eu
for candidate in "${PYTHON3:-python3}" python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$candidate" "$@"
    fi
done
echo "missing: Python >= 3.11 with venv; install it with:  apt-get install -y python3 python3-venv" >&2
exit 2
