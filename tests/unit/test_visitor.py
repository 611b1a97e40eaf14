"""A visit of another program is accused by its shape alone: slow from its begin to its end, and at no other time."""

from __future__ import annotations

import numpy as np
import pytest

from whodisk.detectors.visitor import Begun, Requests, Visit, _compared

SECOND = 1_000_000_000
BEGIN, END = 3 * SECOND, 6 * SECOND


def requests(
    slow: list[tuple[float, float]], seed: int = 1, often: float = 1.0, seconds: float = 10.0
) -> Requests:
    """Own reads of about 250 us, twelve times as long from one second to another; `often`: that many times as many begin during the visit."""
    rng = np.random.default_rng([seed, 5])
    start = np.sort(rng.uniform(0, seconds * SECOND, 6_000)).astype(np.int64)
    if often > 1.0:
        start = np.sort(np.concatenate((start, rng.integers(BEGIN, END, int(1_800 * (often - 1))))))
    late = np.zeros(len(start), np.bool_)
    for begin, end in slow:
        late |= (start >= begin * SECOND) & (start < end * SECOND)
    latency = 250_000 * np.exp(rng.normal(0, 0.3, len(start))) * np.where(late, 12.0, 1.0)
    return Requests(start, latency, np.full(len(start), 4096.0), np.zeros(len(start), np.int64))


def compared(own: Requests, begin: int = BEGIN, end: int = END) -> Visit | None:
    return _compared(own, Begun("dd", begin, end, 5_000, 16.0, begin))


def test_slow_in_all_of_a_visit_and_at_no_other_time() -> None:
    visit = compared(requests([(3.0, 6.0)]))
    assert visit is not None
    assert visit.during_ns == pytest.approx(12 * visit.before_ns, rel=0.1)
    assert visit.after_ns == pytest.approx(visit.before_ns, rel=0.1)


@pytest.mark.parametrize(
    "slow",
    [
        [],
        [(3.0, 4.5)],
        [(4.5, 6.0)],
        [(2.0, 6.0)],
        [(3.0, 7.0)],
        [(3.0, 10.0)],
        [(0.0, 6.0)],
        [(3.0, 6.0), (0.5, 2.0)],
    ],
)
def test_any_other_shape_accuses_nobody(slow: list[tuple[float, float]]) -> None:
    assert compared(requests(slow)) is None


def test_who_stays_has_no_time_after_it() -> None:
    end = 10 * SECOND
    visit = _compared(requests([(3.0, 10.0)]), Begun("dd", BEGIN, end, 5_000, 16.0, BEGIN), stays=True)
    assert visit is not None
    assert visit.after_ns is None
    assert visit.during_ns == pytest.approx(12 * visit.before_ns, rel=0.1)
    for slow in ([], [(2.0, 10.0)], [(3.0, 7.0)], [(3.4, 10.0)], [(5.0, 10.0)], [(0.0, 10.0)]):
        assert _compared(requests(slow), Begun("dd", BEGIN, end, 5_000, 16.0, BEGIN), stays=True) is None, (
            slow
        )


def test_who_asks_for_more_meanwhile_is_in_its_own_way() -> None:
    assert compared(requests([(3.0, 6.0)], often=1.2)) is not None
    assert compared(requests([(3.0, 6.0)], often=3.0)) is None


def test_slow_times_that_have_nothing_to_do_with_a_visit_hardly_ever_have_its_shape() -> None:
    rng = np.random.default_rng(77)
    accused = 0
    for seed in range(400):
        begins = rng.uniform(0, 9, rng.integers(1, 4))
        slow = [(float(begin), float(begin + rng.uniform(0.5, 4))) for begin in begins]
        begin = rng.uniform(1, 6)
        end = begin + rng.uniform(1, 9 - begin)
        accused += compared(requests(slow, seed), int(begin * SECOND), int(end * SECOND)) is not None
    assert accused <= 4, accused


def test_a_level_that_changes_by_itself_hardly_ever_changes_when_somebody_comes() -> None:
    rng = np.random.default_rng(78)
    accused = 0
    for seed in range(300):
        own, begin = requests([(float(rng.uniform(1, 8)), 10.0)], seed), rng.uniform(1, 8)
        accused += (
            _compared(
                own,
                Begun("dd", int(begin * SECOND), 10 * SECOND, 5_000, 16.0, int(begin * SECOND)),
                stays=True,
            )
            is not None
        )
    assert accused <= 9, accused


def few_operations(
    slow: list[tuple[float, float]], seed: int = 1, long_ms: float = 1_500, seconds: float = 10.0
) -> Requests:
    """A thread that syncs, 2 ms each time, one after the other; from one second to another each takes about 1.5 s."""
    rng = np.random.default_rng([seed, 6])
    start, latency, now = [], [], 0.0
    while now < seconds:
        late = any(begin <= now < end for begin, end in slow)
        took = float(rng.lognormal(np.log(long_ms * 1e-3 if late else 2e-3), 0.3))
        start.append(int(now * SECOND))
        latency.append(took * SECOND)
        now += took + 3e-3
    count = len(start)
    return Requests(np.array(start, np.int64), np.array(latency), np.zeros(count), np.zeros(count, np.int64))


def of_few(own: Requests, begin: float, end: float = 10.0) -> Visit | None:
    at = int(begin * SECOND)
    return _compared(own, Begun("dd", at, int(end * SECOND), 500, 30.0, at), stays=end >= 10.0, few=True)


def test_a_few_long_operations_fill_a_visit() -> None:
    """Of requests in a visit there are too few, as each takes a fifth of it."""
    own = few_operations([(3.0, 10.0)])
    theirs = Begun("dd", BEGIN, 10 * SECOND, 500, 30.0, BEGIN)
    assert _compared(own, theirs, stays=True) is None
    visit = of_few(own, 3.0)
    assert visit is not None and visit.of_operations
    assert visit.during_ns > 500 * visit.before_ns > 500e6
    for begin in (1.0, 2.0, 4.5, 6.0):
        assert of_few(own, begin) is None, begin
    assert of_few(few_operations([]), 3.0) is None
    assert of_few(few_operations([(3.0, 5.5)]), 3.0) is None


def test_long_operations_that_begin_by_themselves_hardly_ever_begin_when_somebody_comes() -> None:
    rng = np.random.default_rng(79)
    accused = 0
    for seed in range(300):
        own = few_operations([(float(rng.uniform(1, 8)), 10.0)], seed, float(rng.uniform(50, 2_000)))
        accused += of_few(own, float(rng.uniform(1, 8))) is not None
    assert accused <= 9, accused
