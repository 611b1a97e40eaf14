"""What every benchmark here needs: interleaved rounds, ratios with intervals, the machine.

A benchmark compares two or more arms (programs, settings) on one machine in one run:

    arms = {"ours": run_ours, "fio": run_fio}           # each: () -> one number
    samples = interleave(arms, rounds=10)               # arms alternate within every round
    print(ratio(samples, "ours", "fio").text("IOPS"))   # geometric mean ratio with its 95 % interval

A ratio is computed within each round (the arms of a round are neighbours in time, so slow drift of
the machine cancels), and its interval is Student's t on the logarithms of those ratios. The order of
the arms is reversed in every other round, so that no arm always runs first. Run a measured program
with `run_measured`, which also gives its CPU time (the whole process with its waited-for children,
all threads, user and system; interrupts that hit another process are not in it, for any arm).
"""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
ROUNDS_MIN = 10

Samples = dict[str, list[float]]

# Two-sided 95 % points of Student's t by degrees of freedom (1..30); beyond 30 the next lower entry
# is used, which makes the interval slightly too wide, never too narrow.
_T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class BenchError(Exception):
    """A benchmark could not be run; the message says what to do."""


def run_main(main: Callable[[], int]) -> NoReturn:
    """Runs a benchmark's `main` and ends with its exit code, or with 2 and one line if it could not be run."""
    try:
        sys.exit(main())
    except (BenchError, subprocess.SubprocessError) as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        sys.exit(2)


@dataclass(frozen=True)
class Measured:
    """One finished program."""

    stdout: str
    wall_s: float
    user_s: float
    system_s: float

    @property
    def cpu_s(self) -> float:
        """User and system time of the program and the children it waited for."""
        return self.user_s + self.system_s


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of the per-round ratios of two arms, with a 95 % interval."""

    numerator: str
    denominator: str
    value: float
    low: float
    high: float
    rounds: int

    def text(self, what: str) -> str:
        """One line for people."""
        return (
            f"{what}: {self.numerator} / {self.denominator} = {self.value:.3f} "
            f"[{self.low:.3f}, {self.high:.3f}] (95 %, {self.rounds} interleaved rounds)"
        )


def run_measured(command: Sequence[str], timeout_s: float = 600) -> Measured:
    """Run `command` to its end; raises BenchError with its stderr if it fails."""
    started_s = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError as error:
        raise BenchError(f"{command[0]} is not installed or not built: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{shlex.join(command)}: not done after {timeout_s} s") from error
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise BenchError(f"{shlex.join(command)}: exit {done.returncode}\n{done.stderr or done.stdout}")
    return Measured(
        stdout=done.stdout,
        wall_s=time.monotonic() - started_s,
        user_s=after.ru_utime - before.ru_utime,
        system_s=after.ru_stime - before.ru_stime,
    )


def interleave(arms: Mapping[str, Callable[[], float]], rounds: int = ROUNDS_MIN) -> Samples:
    """Run every arm once per round, in an order that reverses each round; progress on stderr."""
    samples: Samples = {name: [] for name in arms}
    for index in range(rounds):
        order = list(arms) if index % 2 == 0 else list(reversed(list(arms)))
        for name in order:
            samples[name].append(arms[name]())
        shown = ", ".join(f"{name} {values[-1]:,.4g}" for name, values in samples.items())
        print(f"round {index + 1}/{rounds}: {shown}", file=sys.stderr, flush=True)
    return samples


def ratio(samples: Mapping[str, Sequence[float]], numerator: str, denominator: str) -> Ratio:
    """Ratio of two arms of `interleave`; every sample must be > 0."""
    pairs = list(zip(samples[numerator], samples[denominator], strict=True))
    if len(pairs) < 2 or any(a <= 0 or b <= 0 for a, b in pairs):
        raise BenchError(f"a ratio needs at least 2 rounds of positive samples, found {pairs}")
    logs = [math.log(a / b) for a, b in pairs]
    mean = statistics.fmean(logs)
    freedom = len(logs) - 1
    t = _T_95[min(freedom, len(_T_95)) - 1]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(
        numerator, denominator, math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs)
    )


def summary_line(name: str, values: Sequence[float], unit: str) -> str:
    """Median and range of one arm, for people."""
    return (
        f"{name}: median {statistics.median(values):,.4g} {unit} "
        f"(lowest {min(values):,.4g}, highest {max(values):,.4g})"
    )


def print_verdict(result: Ratio, what: str, bar: float, at_least: bool = True, reaches: bool = False) -> bool:
    """Print a ratio beside its bar; True if the point estimate meets it (`reaches`: if its interval does)."""
    best = (result.high if at_least else result.low) if reaches else result.value
    met = best >= bar if at_least else best <= bar
    sign = ">=" if at_least else "<="
    told = "met" if not met or not reaches or result.value >= bar else "met, the interval reaches it"
    print(f"{result.text(what)}   bar {sign} {bar:g}: {told if met else 'NOT MET'}")
    return met


def print_parity(result: Ratio, what: str, within: float = 0.05) -> bool:
    """Print a ratio of arms that the same device limits; True if it is 1 or more as far as these rounds can tell.

    That is: the interval reaches 1, and does not reach below 1 - `within`.
    """
    met = result.high >= 1 and result.low >= 1 - within
    told = "met, no difference shown" if met and result.low < 1 else "met" if met else "NOT MET"
    print(f"{result.text(what)}   bar: as many, within {within:.0%}: {told}")
    return met


def machine(path: Path | None = None) -> str:
    """One line on this machine, and on the disk that holds `path`, if given."""
    parts = [
        f"{os.cpu_count()} x {_cpu_model()}",
        f"{_memory_gib():.0f} GiB",
        f"Linux {platform.release()}",
    ]
    if path is not None:
        parts.append(_file_system(path))
    return ", ".join(parts)


def tool_version(command: Sequence[str]) -> str:
    """First line a tool prints about its version; raises BenchError if it is absent."""
    return run_measured(command).stdout.strip().splitlines()[0]


def write_json(path: Path, value: object) -> None:
    """Keep raw samples and settings beside the printed lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, default=vars) + "\n", encoding="utf-8")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _file_system(path: Path) -> str:
    """Mount, type and block device settings behind `path`, as far as /proc and /sys tell."""
    where = path.resolve()
    best = ("", "unknown", "unknown")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        source, target, kind = line.split()[:3]
        if where.is_relative_to(target) and len(target) >= len(best[0]):
            best = (target, source, kind)
    target, source, kind = best
    device = (path if path.exists() else Path(target)).stat().st_dev
    queue = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue")
    scheduler = queue / "scheduler"
    known = f", scheduler {scheduler.read_text().strip()}" if scheduler.exists() else ""
    return f"{kind} on {source}{known}"
