"""Cases for programs and notebooks: what `whodisk.open` returns."""
