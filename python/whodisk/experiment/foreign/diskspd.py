"""diskspd's XML profiles (`diskspd -X`): one time span with one target. Elements that our engine has nothing for are refused by name."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment.foreign.base import chosen, percent, text_of

#: Elements that say nothing about the load.
SILENT = {
    "MeasureLatency",
    "CalculateIopsStdDev",
    "IoBucketDuration",
    "CompletionRoutines",
    "DisableAffinity",
    "Cooldown",
    "Targets",
}
SILENT |= {"ThreadCount", "RequestCount", "RandSeed", "Duration", "Warmup", "Affinity"}
OF_TARGET = {
    "Path",
    "BlockSize",
    "Random",
    "RandomRatio",
    "RequestCount",
    "WriteRatio",
    "DisableOSCache",
    "WriteThrough",
    "Throughput",
}
OF_TARGET |= {
    "ThreadsPerFile",
    "MaxFileSize",
    "FileSize",
    "StrideSize",
    "DisableAllCache",
    "SequentialScan",
    "RandomAccess",
    "TemporaryFile",
}
OF_TARGET |= {"BaseFileOffset", "InterlockedSequential", "ParallelAsyncIO", "Priority", "Weight"}
#: Elements that are written always and mean nothing at these values.
NOTHING = {
    "BaseFileOffset": "0",
    "InterlockedSequential": "false",
    "ParallelAsyncIO": "false",
    "Priority": "3",
    "Weight": "1",
}


def read(path: Path, part: str | None = None) -> dict[str, Any]:
    """The access specification of a time span (`1`, `2`, ... where there are several). Raises WhodiskError."""
    try:
        root = Xml.fromstring(text_of(path))
    except Xml.ParseError as error:
        raise WhodiskError(f"{path}: expected XML, found: {error}; correct it") from None
    spans = root.findall("./TimeSpans/TimeSpan")
    if root.tag != "Profile" or not spans:
        raise WhodiskError(
            f"{path}: expected a Profile with TimeSpans (diskspd's XML profile), found '{root.tag}'"
        )
    place = chosen(path, "time span", [str(i + 1) for i in range(len(spans))], part)
    span = spans[int(place) - 1]
    targets = span.findall("./Targets/Target")
    if len(targets) != 1:
        raise WhodiskError(
            f"{path}: time span {place}: expected one Target, found {len(targets)}; make a file of each"
        )
    _known(path, span, SILENT)
    _known(path, targets[0], OF_TARGET)
    return _specification(path, span, targets[0])


def _known(path: Path, element: Xml.Element, names: set[str]) -> None:
    for child in element:
        usual = NOTHING.get(child.tag)
        if child.tag not in names or (usual is not None and (child.text or "").strip().lower() != usual):
            raise WhodiskError(
                f"{path}: {element.tag}/{child.tag}: expected an element that our engine can do, found '{(child.text or '').strip()}'; leave it out"
            )


def _specification(path: Path, span: Xml.Element, target: Xml.Element) -> dict[str, Any]:
    block = _number(path, target, "BlockSize", 65536)
    random = _number(path, target, "Random", 0)
    ratio = _number(path, target, "RandomRatio", 100 if random else 0)
    stride = _number(path, target, "StrideSize", block)
    if not random and stride != block:
        raise WhodiskError(
            f"{path}: Target/StrideSize: expected the block size ({block}), found {stride}: our engine leaves no gaps"
        )
    table: dict[str, Any] = {
        "targets": []
        if (named := (target.findtext("Path") or "").strip()).startswith(("*", "#")) or ":" in named
        else [named],
        "block_sizes": f"{block}B",
        "align": f"{random or block}B",
        "read": percent(100 - _number(path, target, "WriteRatio", 0)),
        "random": percent(ratio),
        "io": "direct" if _flag(target, "DisableOSCache") or _flag(target, "DisableAllCache") else "buffered",
        "queue_depth": max(1, _number(path, target, "RequestCount", 2)),
        "workers": max(1, _number(path, target, "ThreadsPerFile", 1)),
        "duration": f"{_number(path, span, 'Duration', 10)}s",
        "ramp": f"{_number(path, span, 'Warmup', 5)}s",
    }
    if seed := _number(path, span, "RandSeed", 0):
        table["seed"] = seed
    if size := _number(path, target, "MaxFileSize", 0) or _number(path, target, "FileSize", 0):
        table["file_size"] = f"{size}B"
    if _flag(target, "WriteThrough") or _flag(target, "DisableAllCache"):
        table["sync_kind"] = "o_dsync"
    through = target.find("Throughput")
    if through is not None and (rate := _number(path, target, "Throughput", 0)):
        if (through.get("unit") or "").upper() != "IOPS":
            raise WhodiskError(
                f'{path}: Target/Throughput: expected unit="IOPS", found {through.get("unit")!r}: our rates are operations'
            )
        # It is the rate of each thread.
        table["rate"] = f"{rate * table['workers']}/s"
    return table


def _number(path: Path, element: Xml.Element, name: str, default: int) -> int:
    text = (element.findtext(name) or "").strip()
    if not text:
        return default
    if not text.isdigit():
        raise WhodiskError(f"{path}: {element.tag}/{name}: expected a whole number, found '{text}'")
    return int(text)


def _flag(element: Xml.Element, name: str) -> bool:
    return (element.findtext(name) or "").strip().lower() in ("true", "1")
