"""fio job files: the subset of options that an access specification can express.

Random places are drawn anew each time, as with fio's `norandommap`. `ioengine` says only how deep a queue can be: ours is io_uring always.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment.foreign.base import chosen, percent, text_of

#: `rw` -> (reads, random), in percent; None: `rwmixread` and `percentage_random` say it.
PATTERNS: dict[str, tuple[float | None, float]] = {
    "read": (100, 0),
    "write": (0, 0),
    "randread": (100, 100),
    "randwrite": (0, 100),
    "rw": (None, 0),
    "readwrite": (None, 0),
    "randrw": (None, 100),
}
#: Engines of fio that have one operation in flight whatever `iodepth` says.
ONE_AT_A_TIME = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
ENGINES = (*ONE_AT_A_TIME, "libaio", "io_uring", "posixaio")
#: Options without a meaning for us: names, output, and how threads are made.
SILENT = {
    "name",
    "description",
    "group_reporting",
    "thread",
    "norandommap",
    "randrepeat",
    "gtod_reduce",
    "disable_lat",
    "disable_clat",
}
SILENT |= {
    "disable_slat",
    "disable_bw",
    "lat_percentiles",
    "clat_percentiles",
    "percentile_list",
    "write_lat_log",
    "write_iops_log",
}
SILENT |= {
    "write_bw_log",
    "log_avg_msec",
    "per_job_logs",
    "refill_buffers",
    "unlink",
    "fallocate",
    "create_on_open",
    "eta",
}
UNDERSTOOD = {
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bssplit",
    "rwmixread",
    "rwmixwrite",
    "percentage_random",
    "iodepth",
    "numjobs",
}
UNDERSTOOD |= {
    "direct",
    "buffered",
    "size",
    "filesize",
    "filename",
    "directory",
    "runtime",
    "time_based",
    "ramp_time",
    "rate_iops",
}
UNDERSTOOD |= {
    "rate_process",
    "fsync",
    "fdatasync",
    "ioengine",
    "randseed",
    "number_ios",
    "ba",
    "blockalign",
    "invalidate",
}


def read(path: Path, part: str | None = None) -> dict[str, Any]:
    """The access specification of a job. Raises WhodiskError for an option that is not understood, by name."""
    jobs = _jobs(path)
    name = chosen(path, "job", list(jobs), part)
    options = jobs[name]
    unknown = sorted(set(options) - UNDERSTOOD - SILENT)
    if unknown:
        raise WhodiskError(
            f"{path}: job {name}: option '{unknown[0]}': expected one that our engine can do ({', '.join(sorted(UNDERSTOOD))}); "
            'leave it out, or let fio run it: engine = "fio"'
        )
    return _specification(_Options(path, name, options))


class _Options:
    """Options of one job, with errors that name it."""

    def __init__(self, path: Path, job: str, values: dict[str, str]) -> None:
        self.path, self.job, self.values = path, job, values

    def get(self, *names: str) -> str | None:
        return next((self.values[name] for name in names if name in self.values), None)

    def wrong(self, name: str, expected: str) -> WhodiskError:
        return WhodiskError(
            f"{self.path}: job {self.job}: option '{name}': expected {expected}, found '{self.values.get(name)}'"
        )

    def number(self, default: float, *names: str) -> float:
        text = self.get(*names)
        if text is None:
            return default
        try:
            return float(text or 1)
        except ValueError:
            raise self.wrong(next(n for n in names if n in self.values), "a number") from None

    def flag(self, name: str) -> bool:
        return name in self.values and self.values[name] not in ("0", "false")


def _jobs(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(
        allow_no_value=True,
        interpolation=None,
        comment_prefixes=("#", ";"),
        delimiters=("=",),
        default_section="\0",
        strict=False,
    )
    try:
        parser.read_string(text_of(path))
    except configparser.Error as error:
        raise WhodiskError(
            f"{path}: expected a fio job file, found: {' '.join(str(error).split())}; correct it"
        ) from None
    every: dict[str, str] = {}
    jobs: dict[str, dict[str, str]] = {}
    for section in parser.sections():
        own = {key: value or "" for key, value in parser[section].items()}
        if section == "global":
            every |= own
        else:
            jobs[section] = every | own
    return jobs


def _specification(job: _Options) -> dict[str, Any]:
    pattern = job.get("rw", "readwrite") or "read"
    if pattern not in PATTERNS:
        raise job.wrong("rw" if "rw" in job.values else "readwrite", f"one of {', '.join(PATTERNS)}")
    reads, random = PATTERNS[pattern]
    if reads is None:
        reads = (
            100 - job.number(50, "rwmixwrite") if "rwmixwrite" in job.values else job.number(50, "rwmixread")
        )
    if random and "percentage_random" in job.values:
        random = job.number(100, "percentage_random")
    table: dict[str, Any] = {
        "targets": _targets(job),
        "block_sizes": _blocks(job),
        "read": percent(reads),
        "random": percent(random),
        "io": "direct" if job.flag("direct") or (job.get("buffered") == "0") else "buffered",
        "queue_depth": _depth(job),
        "workers": int(job.number(1, "numjobs")),
        "seed": int(job.number(1, "randseed")),
    }
    if (align := job.get("ba", "blockalign")) is not None:
        table["align"] = _size(job, align, "ba")
    if (size := job.get("filesize", "size")) is not None:
        table["file_size"] = _size(job, size, "size")
    for option, kind in (("fsync", "fsync"), ("fdatasync", "fdatasync")):
        if job.number(0, option) > 0:
            table |= {"sync_every_writes": int(job.number(0, option)), "sync_kind": kind}
    if "rate_iops" in job.values:
        per_job = job.number(0, "rate_iops")
        table["rate"] = f"{per_job * table['workers']:g}/s"
        table["arrival"] = "poisson" if job.get("rate_process") == "poisson" else "constant"
    return table | _length(job, table)


def _length(job: _Options, table: dict[str, Any]) -> dict[str, Any]:
    """When it ends: `runtime` if it is bound by time, else after as much data as `size` (of each job)."""
    found: dict[str, Any] = {}
    if "ramp_time" in job.values:
        found["ramp"] = _time(job, "ramp_time")
    if "runtime" in job.values:
        found["duration"] = _time(job, "runtime")
    if "number_ios" in job.values:
        found["operations"] = int(job.number(0, "number_ios")) * table["workers"]
    elif not job.flag("time_based"):
        if "file_size" not in table or len(table["block_sizes"]) != 1:
            raise WhodiskError(
                f"{job.path}: job {job.job}: expected time_based and runtime, or size and one block size: else nobody knows when it ends"
            )
        from whodisk.experiment.preparation import size_of

        block = size_of(next(iter(table["block_sizes"])), "bs")
        found["operations"] = size_of(table["file_size"], "size") // block * table["workers"]
    elif "duration" not in found:
        raise WhodiskError(
            f"{job.path}: job {job.job}: option 'time_based': expected runtime with it, found none"
        )
    return found


def _targets(job: _Options) -> list[str]:
    name, folder = job.get("filename"), job.get("directory")
    if name is None:
        return [f"{folder}/{job.job}.0.0"] if folder else [f"{job.job}.0.0"]
    return [f"{folder}/{part}" if folder and not part.startswith("/") else part for part in name.split(":")]


def _blocks(job: _Options) -> dict[str, str]:
    split = job.get("bssplit")
    if split is None:
        text = job.get("bs", "blocksize") or "4k"
        if "," in text:
            raise job.wrong("bs", "one size for reads and writes")
        return {_size(job, text, "bs"): "100%"}
    parts = [part.split("/") for part in split.split(":")]
    if "," in split or any(len(part) != 2 or not part[1] for part in parts):
        raise job.wrong(
            "bssplit", "sizes with their percentages (4k/60:64k/40), the same for reads and writes"
        )
    return {_size(job, size, "bssplit"): f"{share}%" for size, share in parts}


def _depth(job: _Options) -> int:
    engine = job.get("ioengine") or "psync"
    if engine not in ENGINES:
        raise job.wrong("ioengine", f"one of {', '.join(ENGINES)}")
    return 1 if engine in ONE_AT_A_TIME else int(job.number(1, "iodepth"))


def _size(job: _Options, text: str, option: str) -> str:
    """`4KiB` of fio's `4k`: powers of 1024 with one letter, and with KiB; powers of 1000 with KB are refused."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if not match or match[3] == "b":
        raise job.wrong(option, "a size in units of 1024 such as 4k")
    return f"{match[1]}{ {'': 'B', 'k': 'KiB', 'm': 'MiB', 'g': 'GiB', 't': 'TiB'}[match[2]] }"


def _time(job: _Options, option: str) -> str:
    match = re.fullmatch(r"(\d+)\s*(us|ms|s|m|h)?", job.values[option].strip().lower())
    if not match:
        raise job.wrong(option, "a time such as 30s")
    return f"{match[1]}{ {None: 's', 'm': 'min'}.get(match[2], match[2]) }"
