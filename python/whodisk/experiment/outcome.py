"""An experiment's result as data and sentences."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from whodisk import words
from whodisk.experiment.comparison import SCHEMA_VERSION, sentence, side_to_dict, to_dict
from whodisk.experiment.conduct import Attempt, Result, machine

ENDS = {
    "enough": "the rule for its end was met",
    "failed": "too few arms are left that work",
    "stopped": "it was stopped",
}


def to_json(result: Result) -> str:
    """`experiment.json`, and what `whodisk experiment --json` prints."""
    plan = result.plan
    data: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "name": plan.name,
        "about": plan.about,
        "sentences": sentences(result),
        "ended_by": result.ended_by,
        "seed": plan.seed,
        "repetitions": {"least": plan.rule.least, "most": plan.rule.most, "half_width": plan.rule.half_width},
        "level": plan.rule.level,
        "baseline": plan.baseline,
        "machine": machine() | _versions(result),
        "prepared": result.prepared,
        "arms": [
            {**side_to_dict(side), "settings": arm.table}
            for arm in plan.arms
            if (side := result.side(arm.name)).runs
        ],
        "order": [_attempt(attempt) for attempt in result.attempts],
        "comparisons": [to_dict(comparison) for comparison in result.comparisons],
        "file": plan.text,
    }
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "round": attempt.round,
        "arm": attempt.arm,
        "started_utc": attempt.started_utc,
        "seconds": round(attempt.seconds, 3),
        "case": attempt.case or None,
        "failed": attempt.failed or None,
        "prepared": attempt.prepared,
    }


def _versions(result: Result) -> dict[str, Any]:
    """Versions of programs that arms run by name."""
    if not any("fio" in arm.table for arm in result.plan.arms) or not shutil.which("fio"):
        return {}
    return {
        "fio": subprocess.run(
            ["fio", "--version"], capture_output=True, text=True, check=False
        ).stdout.strip()
    }


def sentences(result: Result) -> list[str]:
    """What was found, one per comparison, and what went wrong."""
    said = [sentence(comparison) for comparison in result.comparisons]
    if not said:
        said.append("No two arms have a result: nothing can be compared.")
    for arm in result.plan.arms:
        failed = [attempt for attempt in result.attempts if attempt.arm == arm.name and attempt.failed]
        if failed:
            tried = sum(attempt.arm == arm.name for attempt in result.attempts)
            said.append(
                f"{arm.name} failed in {len(failed)} of {words.things(tried, 'run')}: {failed[-1].failed}"
            )
    if result.ended_by != "enough":
        said.append(f"The experiment ended early: {ENDS[result.ended_by]}.")
    return said
