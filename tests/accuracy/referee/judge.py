"""Is a verdict right? DESIGN 11: status right, first finding right, no finding that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.accuracy.referee.faults import Fault, Finding
from tests.accuracy.referee.truth import LIMITED, SLOW, Truth
from whodisk.programs.base import Program

#: Operations that take this part of the slowest one's time are as slow as it.
AS_SLOW = 0.99

#: Says why a finding about something that was not injected is true nevertheless; None if no independent record shows it.
Excuse = Callable[[Finding], str | None]


@dataclass
class Judgement:
    """What came out for one verdict."""

    right: bool
    status_right: bool
    #: None where nobody has to be named.
    first_right: bool | None
    #: Findings that are wrong, in words.
    wrong: list[str] = field(default_factory=list)
    #: Findings about something that was not injected, and the independent record that shows it.
    excuses: list[str] = field(default_factory=list)
    #: Whether the slowest operation that the fault hit is the first of the verdict's `slowest`; None where either is lacking.
    slowest_right: bool | None = None
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a plain object."""
        return asdict(self)


def judge(
    verdict: dict[str, Any],
    truth: Truth,
    fault: Fault | None,
    program: Program,
    device: str,
    excuse: Excuse,
    case_start_ns: int,
) -> Judgement:
    """Compares a verdict with the truth. `case_start_ns`: CLOCK_MONOTONIC at the case's zero."""
    names = fault.culprits if fault else ()
    consequences = fault.consequences if fault else ()
    wrong, excuses, ours = [], [], []
    for finding in verdict["findings"]:
        if any(each.name_it(finding, device, program) for each in names):
            ours.append(True)
        elif any(each.name_it(finding, device, program) for each in consequences):
            ours.append(False)
        elif finding["culprit"]["kind"] == "saturation":
            # A limit that is told as a finding accuses nobody; whether it is the right status is asked below.
            continue
        elif (reason := excuse(finding)) is not None:
            excuses.append(f"{words(finding)}: {reason}")
        else:
            ours.append(False)
            wrong.append(words(finding))
    limited = _as_limit(verdict, truth, fault)
    told = _told(verdict, fault, device)
    status_right = verdict["status"] in truth.statuses or limited or told
    first_right = (ours[:1] == [True] or limited or told) if truth.must_name else None
    return Judgement(
        right=status_right and first_right is not False and not wrong,
        status_right=status_right,
        first_right=first_right,
        wrong=wrong,
        excuses=excuses,
        slowest_right=_slowest(verdict, truth, case_start_ns),
        said=_said(verdict),
    )


def _told(verdict: dict[str, Any], fault: Fault | None, device: str) -> bool:
    """Whether what the verdict must tell stands in whatever sentence of it."""
    if fault is None or not fault.told:
        return False
    sentences = [
        *verdict["summary"],
        *verdict["minor"],
        *(finding["claim"] for finding in verdict["findings"]),
    ]
    wanted = [pattern.replace("{device}", re.escape(device)) for pattern in fault.told]
    return any(re.search(pattern, sentence) for pattern in wanted for sentence in sentences)


def words(finding: Finding) -> str:
    """A culprit in short."""
    culprit = finding["culprit"]
    return f"{culprit['kind']} {culprit['name']} ({culprit['because_of'] or '-'})"


def _as_limit(verdict: dict[str, Any], truth: Truth, fault: Fault | None) -> bool:
    """Whether a device that always takes no more than so much is told as the limit that binds."""
    if fault is None or not fault.limit_words or SLOW not in truth.statuses:
        return False
    limit = verdict["limit"] or ""
    return verdict["status"] == LIMITED and any(word in limit for word in fault.limit_words)


def _slowest(verdict: dict[str, Any], truth: Truth, case_start_ns: int) -> bool | None:
    """The slowest that stands apart must have been hit, else it says nothing of the fault. What was hit and is as long but for what clocks and
    logs of programs tell (to a millisecond, some) is as slow."""
    if "slowest" not in verdict or not truth.apart or not truth.apart[0]["hit"]:
        return None
    if not verdict["slowest"]:
        return False
    first = verdict["slowest"][0]
    begin = case_start_ns + first["start_ns"]
    for true in truth.apart:
        if not true["hit"] or true["latency_ns"] < AS_SLOW * truth.apart[0]["latency_ns"]:
            continue
        overlap = min(begin + first["latency_ns"], true["start_ns"] + true["latency_ns"]) - max(
            begin, true["start_ns"]
        )
        if overlap >= 0.5 * true["latency_ns"]:
            return True
    return False


def _said(verdict: dict[str, Any]) -> str:
    findings = [words(finding) for finding in verdict["findings"]]
    return "; ".join([verdict["status"], *findings, *([verdict["limit"]] if verdict["limit"] else [])])
