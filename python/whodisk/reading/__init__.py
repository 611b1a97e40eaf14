"""The case as SQL: the lowest of the strata. It knows the case's format, and nothing of what is slow."""
