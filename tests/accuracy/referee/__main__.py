"""`python -m tests.accuracy.referee`: the same as `python -m tests.accuracy programs`."""

import sys

from tests.accuracy.referee.command import main

sys.exit(main(sys.argv[1:]))
