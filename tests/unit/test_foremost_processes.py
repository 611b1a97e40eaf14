"""Which of several processes are named."""

from __future__ import annotations

from whodisk.evidence.foremost_processes import foremost_processes


def test_who_had_most_of_it_is_named_and_nobody_else() -> None:
    assert foremost_processes({7: 0.002, 40: 1.22, 41: 1.24, 42: 1.23}) == (41, 42, 40)
    assert foremost_processes({40: 9.5, 7: 0.5}) == (40,)
    assert foremost_processes(dict.fromkeys(range(5), 1.0)) == (0, 1, 2, 3, 4)
    assert foremost_processes({1: 9.0, 2: 0.95, 3: 0.9, 4: 0.1}) == (1, 2, 3)
    assert foremost_processes({}) == () and foremost_processes({4: 0.0, 3: 0.0}) == (3, 4)
