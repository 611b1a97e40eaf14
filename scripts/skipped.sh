#!/bin/sh
# skipped.sh FILE: sums up the tests that did not run, from lines "test<TAB>reason" as the test programs append them to
# $WHODISK_SKIPS. No file: none was skipped.
set -eu
[ -s "$1" ] || { echo "no test was skipped"; exit 0; }
echo "tests that were skipped: $(wc -l <"$1")"
cut -f 2 "$1" | sort | uniq -c | sort -rn | sed -E 's/^( *[0-9]+) /\1 skipped: /'
