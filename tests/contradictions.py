"""What a verdict must not say of itself: sentences that contradict each other, or the verdict that they stand in."""

from __future__ import annotations

import re

from whodisk.evidence.recorder import USUAL
from whodisk.findings import Finding, Verdict

#: The smallest share of all latency that becomes a finding by itself, and sentences about shares (DESIGN 8).
SHARE_MIN = 0.05
_SHARE = r"([\d.]+(?:e-?\d+)?) % of all latency"
_TOO_LITTLE = re.compile(_SHARE + r"(?:[^%]{0,200}That is|,) under the 5 % that accuse")
_CHANCE = re.compile(r"\d[\d,]* (?:separate )?episodes? may be chance")
_TWICE = re.compile(_SHARE + r"\.[^%]{0,80} That is \1 % of all latency")


def contradictions(verdict: Verdict) -> list[str]:
    """Each contradiction in words; a verdict without any gives none."""
    return [
        *_cleared(verdict),
        *_said_of_shares(verdict),
        *_status(verdict),
        *_recorder(verdict),
        *_told_twice(verdict),
    ]


def _accused(finding: Finding) -> set[str]:
    """What a finding accuses, as `cleared` names things; requests that wait in front of a device do not accuse it."""
    culprit, because = finding.culprit, finding.culprit.because_of or ""
    if culprit.kind != "stage":
        return {f"{culprit.kind}:{culprit.name}", because}
    stages = set(culprit.name.split("+"))
    inside = {because} if stages & {"device", "interrupt", "unknown"} else set()
    return {f"stage:{stage}" for stage in (culprit.name, *stages)} | inside


def _cleared(verdict: Verdict) -> list[str]:
    accused = set().union(*(_accused(finding) for finding in verdict.findings))
    return [f"clears {item.what} and accuses it" for item in verdict.cleared if item.what in accused]


def _said_of_shares(verdict: Verdict) -> list[str]:
    """ "88.1 % of all latency", and too little; "200 episodes may be chance"."""
    wrong = []
    for line in [*verdict.summary, *verdict.minor]:
        for said in _TOO_LITTLE.findall(line):
            if float(said) / 100 >= SHARE_MIN:
                wrong.append(f"too little to accuse, and enough: {line}")
        if "less than a finding needs" in line:
            wrong.append(f"what a finding needs depends on the finding: {line}")
        if _CHANCE.search(line):
            wrong.append(f"many episodes that may be chance: {line}")
        if _TWICE.search(line):
            wrong.append(f"says one share twice: {line}")
    return wrong


def _status(verdict: Verdict) -> list[str]:
    text = " ".join(verdict.summary)
    well = verdict.status in ("healthy", "limited", "insufficient")
    wrong = []
    if well and verdict.findings:
        wrong.append(f"{verdict.status}, and accuses {verdict.findings[0].culprit.name}")
    if not well and not verdict.findings:
        wrong.append(f"{verdict.status}, and accuses nobody")
    if verdict.findings and ("Nothing is broken" in text or "no operation stands out" in text):
        wrong.append("nothing is broken, and there are findings")
    if verdict.status == "healthy" and any(slow.apart for slow in verdict.slowest):
        wrong.append("no operation stands out, and one stands apart")
    return wrong


def _recorder(verdict: Verdict) -> list[str]:
    """Without the recorder what it costs would not be."""
    names = [(f.culprit.name, (f.culprit.because_of or "").partition(":")[2]) for f in verdict.findings]
    return [f"accuses the recorder: {pair}" for pair in names if any(name.startswith(USUAL) for name in pair)]


def _told_twice(verdict: Verdict) -> list[str]:
    """One culprit in two findings, or in one and among what is too small to accuse."""
    culprits = [(f.culprit.kind, f.culprit.name, f.culprit.because_of) for f in verdict.findings]
    wrong = [f"accuses {one[1]} twice" for one in sorted(set(culprits), key=str) if culprits.count(one) > 1]
    claims = [finding.claim for finding in verdict.findings]
    wrong += [
        f"accused, and too small to accuse: {line}"
        for line in verdict.minor
        if any(c in line for c in claims)
    ]
    return wrong
