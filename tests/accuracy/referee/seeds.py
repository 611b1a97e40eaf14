"""Which runs there are, and what each draws: nobody chooses them."""

from __future__ import annotations

import hashlib

DEVELOPMENT, VALIDATION, TEST = SETS = ("development", "validation", "test")
#: Runs of one freeze (DESIGN 10, 11). Development has as many as anyone likes.
RUNS = {VALIDATION: 90, TEST: 560}


def digest(*parts: object) -> int:
    """SHA-256 of the parts, as a number."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest(), "big")


def seed(commit: str, of_set: str, row: str, number: int) -> int:
    """Seed of a run, 0 to 2^63 - 1. Test: SHA-256(commit of the freeze, row, number); the others never meet it."""
    parts: tuple[object, ...] = (commit, row, number) if of_set == TEST else (commit, of_set, row, number)
    return digest(*parts) >> 193


def held_out(program: int, fault: int) -> bool:
    """Whether a cell occurs in the test set only: a third of them, spread over programs and faults.

    Both are places in their registries, which grow at the end only: no cell that was developed on is ever held out.
    """
    return (program + fault) % 3 == 2
