"""Every threshold is a row of one table, and is read where it is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from whodisk.detectors import base, thresholds
from whodisk.evidence import thresholds as middle
from whodisk.reading import thresholds as lower
from whodisk.reading.thresholds import CHOSEN, TABLE, row, scaled

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "whodisk"
FOLDERS = ("reading", "evidence", "machine", "detectors", "verdict")

#: Numbers that are no thresholds, by file: facts of a format or of the kernel, and what only has to be some number.
FACTS = {
    "detectors/burst.MOMENTS_SHOWN": "how much evidence is shown: it decides nothing",
    "detectors/over_represented.DIRECT": "a flag of the case format",
    "detectors/over_represented.SYNCED": "flags of the case format",
    "detectors/prefetch.DEFAULT_READ_AHEAD_KB": "Linux' own default",
    "detectors/saturation.DIRECT": "a flag of the case format",
    "detectors/silent_device.DEPTHS": "how two numbers are packed into one",
    "evidence/peer_comparison.MAD_EFFICIENCY": "a fact of statistics",
    "detectors/submitter_gap.FEW_THREADS": "which of two ways to the same answer is faster",
    "detectors/submitter_gap.SHORTEST_GAP_NS": "the shortest silence that a case keeps (DESIGN 5)",
    "detectors/throttle.BACKGROUND": "a flag of the case format",
    "detectors/throttle.DIRECT": "a flag of the case format",
    "detectors/uncached_tail.PAGE_BYTES": "the size of a page",
    "evidence/drive_counters.HOT": "a bit of NVMe's critical warning",
    "evidence/presence.LATE_ANYWAY": "what a 99th percentile is",
    "evidence/lookups.NOT_WAITED_FOR": "flags of the case format",
    "evidence/residents.NAMED_MAX": "how many names a sentence has: it decides nothing",
    "evidence/surroundings.PREFLUSH": "a flag of the case format",
    "evidence/survey._THIN": "a prime; any would do",
    "evidence/thread_time.SYNC": "a flag of the case format",
    "evidence/times_of_day.DAY_NS": "the length of a day",
    "machine/links._LONG_CODE_GT": "a fact of the bus",
    "machine/kernel_threads.COMM_MAX": "what the kernel keeps of a name",
    "reading/flush_waits.FLUSH": "a flag of the case format",
    "reading/flush_waits.KERNEL": "a flag of the case format",
    "reading/views.BINS_PER_OCTAVE": "how fine a histogram is (DESIGN 8)",
    "reading/views.FORMAT_VERSION": "of the case format",
    "reading/views.NO_COPY_ERRNOS": "numbers of the kernel",
    "reading/views.KEPT_VALUES_MAX": "what is kept in memory: it decides nothing",
    "reading/views.STORAGE_ERRNOS": "numbers of the kernel",
    "reading/views.UNFINISHED_ERRNOS": "numbers of the kernel",
    "reading/views.WBT": "a flag of the case format",
    "reading/weighted_rows.COPY_STEP": "beyond every op_id",
    "verdict/ended.TIME_IS_OVER": "an exit status of timeout(1)",
}


def files() -> Iterator[tuple[str, ast.Module]]:
    """Files of the strata that judge, with what is in them; not the tables themselves."""
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            if path.stem != "thresholds":
                text = path.read_text(encoding="utf-8")
                yield f"{folder}/{path.stem}", ast.parse(text, filename=str(path))


def is_number(node: ast.expr | None) -> bool:
    """Whether an expression is made of numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) and all(is_number(item) for item in node.elts)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and bool(node.args) and all(map(is_number, node.args))
    return False


def constants(tree: ast.Module) -> Iterator[str]:
    """Names at the top of a module, or of a class, that stand for numbers."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for node in (node for body in bodies for node in body):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if targets and is_number(getattr(node, "value", None)):
            yield from (
                name.id
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and name.id.isupper()
            )


def test_numbers_stand_in_the_table() -> None:
    found = {f"{place}.{name}" for place, tree in files() for name in constants(tree)}
    assert found - set(FACTS) == set(), "make it a row of thresholds.py, with its unit and its source"
    assert set(FACTS) - found == set(), "no longer there: take it off the list"


def test_rows_say_what_they_are() -> None:
    for name, threshold in TABLE.items():
        assert threshold.value in [getattr(table, name, None) for table in (lower, middle, thresholds)]
        assert threshold.name == name == name.upper()
        assert threshold.unit and threshold.what.endswith(("...", ".", ";"))
        assert threshold.source
    assert thresholds.TABLE is TABLE and len(TABLE) > 200


def test_a_name_stands_for_one_threshold() -> None:
    with pytest.raises(ValueError, match="twice"):
        row("SHARE_OF_LATENCY_MIN", 0.5, "share", CHOSEN, "Another one.")


def test_thresholds_are_read_by_their_name_when_they_are_used() -> None:
    """Or `scaled` would not reach them: not under another name, as a default, or in something made at import."""
    for place, tree in files():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(".thresholds"):
                assert all(alias.asname is None for alias in node.names), place
        early: list[ast.AST] = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
        for function in (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))):
            early += [*function.args.defaults, *(d for d in function.args.kw_defaults if d is not None)]
        for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            early += [node for node in cls.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
        names = {name.id for node in early for name in ast.walk(node) if isinstance(name, ast.Name)}
        assert not names & set(TABLE), f"{place} reads {sorted(names & set(TABLE))} once and for all"


def test_every_threshold_is_used() -> None:
    text = "\n".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py") if p.stem != "thresholds")
    used = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", text))
    assert set(TABLE) <= used, sorted(set(TABLE) - used)


def test_one_threshold_is_changed_everywhere_and_put_back() -> None:
    assert not base.large_enough(0.04, 0.0, 1.0, 1)
    with scaled("SHARE_OF_LATENCY_MIN", 0.5) as value:
        assert value == thresholds.SHARE_OF_LATENCY_MIN == 0.025
        assert base.large_enough(0.04, 0.0, 1.0, 1)
    assert not base.large_enough(0.04, 0.0, 1.0, 1)
    with scaled("OUTLIER_EPISODES_MIN", 0.1) as value:
        assert value == 1 and isinstance(value, int)
    with scaled("MEMBER_TAIL_DISTANCES", 2.0) as value:
        assert value == (2.0, 2.5, 3.0, 4.0, 8.0)
    with pytest.raises(KeyError), scaled("NO_SUCH_THRESHOLD", 2.0):
        pass
