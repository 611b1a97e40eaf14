"""The referee of DESIGN 11 over real programs: `python -m tests.accuracy programs --help`.

What it judges never calls it, and it calls nothing of the solver's: every rule is coded again here, on the program's own
log, the injector's log and the kernel's own account.
"""
