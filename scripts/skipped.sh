#!/bin/sh
# skipped.sh SKIPS RETRIES: sums up the tests that did not run, and those that passed only when run again, from lines
# "test<TAB>reason" as the test programs append them to $WHODISK_SKIPS and $WHODISK_RETRIES. No file: there was none.
set -eu
if [ -s "$1" ]; then
    echo "tests that were skipped: $(wc -l <"$1")"
    cut -f 2 "$1" | sort | uniq -c | sort -rn | sed -E 's/^( *[0-9]+) /\1 skipped: /'
else
    echo "no test was skipped"
fi
if [ -s "$2" ]; then
    echo "tests that failed at first and passed when run again: $(wc -l <"$2")"
    cut -f 1 "$2" | sort | sed 's/^/    /'
fi
