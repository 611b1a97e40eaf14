"""Does whodisk name what was really wrong? Real faults on a real kernel, many times (`make accuracy`)."""
