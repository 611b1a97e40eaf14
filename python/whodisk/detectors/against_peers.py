"""Sentences about a device, or a host, that is slower than its peers."""

from __future__ import annotations

import math
from datetime import timedelta

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.peer_comparison import SlowMember
from whodisk.evidence.times_of_day import DAY_NS, Daily

REFUTE = (
    "Exchange the device with one of its peers (or move its load to another): if the slowness does not move with "
    "it, the device is innocent and its place (slot, cable, port, interrupt vector) is not."
)
NULL_MODEL = (
    "A device changes places with its peers in any chunk of time; healthy devices differ by a robust spread with tails as heavy as Student's t; "
    "the largest of all devices is compared (max-T)."
)


def part_ns(context: Context) -> int:
    """Days, or tenths of a shorter recording."""
    span_ns = context.case.duration_ns or DAY_NS
    return DAY_NS if span_ns > 2 * DAY_NS else max(1, span_ns // 10)


def its_peers(number: int) -> str:
    return "its peer" if number == 1 else f"its {number} peers"


def how_slow(member: SlowMember, context: Context) -> str:
    if member.always:
        interval = f"(95 %: {words.significant(member.low)} to {words.significant(member.high)})"
        return f"{words.significant(member.ratio)} {interval} times as slow as"
    if when := member.daily:
        then, otherwise = (words.significant(math.exp(level)) for level in (when.then, when.otherwise))
        return (
            f"slower than its peers at the same time of every day ({then} times {_clock(context, when)}, {otherwise} times "
            f"otherwise), compared with"
        )
    return (
        f"at times slower than its peers ({words.significant(member.slow_ratio)} times in its slow third, "
        f"{words.significant(member.ratio)} times on average), compared with"
    )


def _clock(context: Context, when: Daily) -> str:
    """``from 13:00 to 14:00 UTC`` (or by its log); from the begin of the recording, if that is not known."""
    begin, end = (timedelta(microseconds=ns // 1000) for ns in (when.begin_ns, when.end_ns))
    start = context.case.start
    if start is None:
        return f"from {begin} to {end} of each day of the recording"
    return f"from {start + begin:%H:%M} to {start + end:%H:%M}{context.case.zone}"


def since(member: SlowMember) -> str:
    part = f"slow {words.percent(member.slow_share)} of the time"
    if member.onset_ns is None:
        return f"{part}, from the begin"
    days = member.onset_ns / DAY_NS
    when = f"day {words.significant(days, 2)}" if days >= 1 else f"{words.duration(member.onset_ns)}"
    return f"{part}, since {when} of the recording"
