"""`whodisk demo`: the main job on this machine, by public commands only, each printed before it runs."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from whodisk import words
from whodisk.cli import agent
from whodisk.errors import WhodiskError

HELP = """Show the whole walk on this machine in about a minute.

A real workload on your own disk; the same with a submitter that is stopped for 100 ms now and then; the same on
a disk in which 1 of 1,000 reads takes 30 ms. whodisk records each, solves it, and at the end what was injected
stands beside what was named. Cases go to a new directory, ./whodisk-demo (or -2, -3, ...); the data of the workload to
a new one on a disk, which is removed at the end. Nothing that exists is opened, replaced or removed. The exit code
is 1 if a culprit was not named.
"""

#: Directories of earlier demos that may stand beside a new one.
DEMOS_MAX = 1000
SPEC = """# The IOmeter "VM server" pattern, short and with fewer workers and a shallower queue.
[workload]
targets = [{target}]
file_size = "256MiB"{overwrite}
block_sizes = "4KiB"
read = "60%"
random = "55%"
workers = 2
queue_depth = 4
ramp = "500ms"
duration = "{seconds}s"
seed = 20
"""
PREFIX = "whodisk-demo-data-"
#: Acts on the own disk, and what each one's workload is given.
OWN_DISK, STOPPED = "1-own-disk", "2-stopped"
DATA_FILES = (f"{OWN_DISK}.bin", f"{STOPPED}.bin")
STOP_SECONDS = 0.1
TAIL_FAULT = "read tail 0.001 30ms"


@dataclass(frozen=True)
class Act:
    """One part of the demo and how it went."""

    injected: str
    #: Claims of the verdict, most important first.
    named: list[str]
    #: What decides: None where nothing was injected.
    right: bool | None
    note: str = ""


def demo(
    seconds: Annotated[int, typer.Option(min=2, max=600, help="Length of each measurement.")] = 3,
    directory: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where the cases go; must not exist [default: ./whodisk-demo, or the first free -2, -3, ...]",
        ),
    ] = None,
) -> None:
    """Runs the three acts and compares."""
    stage = Stage(_new_directory(directory), seconds)
    with _place_for_data(stage.directory) as stage.data:
        stage.prepare()
        acts = [stage.own_disk(), stage.stopped_submitter(), stage.slow_disk()]
    _summary(acts, stage)
    if any(act.right is False for act in acts):
        raise typer.Exit(1)


class Stage:
    """Files and facts that the acts share."""

    def __init__(self, directory: Path, seconds: int) -> None:
        self.directory = directory
        self.seconds = seconds
        self.whodisk = sys.argv[0]
        self.unseen: dict[str, str] = {}
        #: Whether block requests can be recorded.
        self.sees_block = False
        #: A folder of ours on a real disk, for what the workload reads and writes.
        self.data = directory

    def prepare(self) -> None:
        """Says what this host does not let us see."""
        self._say("First: what can be observed here?")
        checks = agent.call_json(["doctor", "--json"])["checks"]
        self._command(["doctor"])
        missing = [check for check in checks if not check["ok"]]
        self.unseen = {check["name"]: check["found"] for check in missing}
        self.sees_block = not any(check["needed_for"] == "layer block" for check in missing)

    def own_disk(self) -> Act:
        """The workload as it is."""
        self._say(f"1. A real workload on your own disk ({self.data.resolve()}).")
        # What was written before (a build, say) would go to the same disk meanwhile.
        print("$ sync", flush=True)
        os.sync()
        case = self._recorded(OWN_DISK)
        return Act("nothing", self._claims(case), None)

    def stopped_submitter(self) -> Act:
        """The same, and now and then somebody stops the process that submits."""
        self._say("2. The same, but its process is stopped for 100 ms now and then. The disk is innocent.")
        stops: list[float] = []
        case = self._recorded(STOPPED, meddle=lambda case: stops.extend(_stop_now_and_then(case)))
        findings = self._findings(case)
        right = any(finding["detector"] == "submitter_gap" for finding in findings)
        injected = f"submitter stopped {len(stops)} times for {STOP_SECONDS * 1000:.0f} ms"
        return Act(injected, self._claims(case), right)

    def slow_disk(self) -> Act:
        """The same on a disk with a slow tail."""
        injected = "1 of 1,000 reads takes 30 ms longer"
        missing = [
            self.unseen[name] for name in ("privileges", "FUSE", "loop devices") if name in self.unseen
        ]
        self._say("3. The same on a disk in which 1 of 1,000 reads takes 30 ms longer.")
        if missing:
            print(f"   left out: a slow disk needs root, FUSE and loop devices here ({'; '.join(missing)})")
            return Act(injected, [], None, "left out, see above")
        with self._slowdisk() as device:
            case = self._recorded("3-slow-disk", device)
            name = Path(device).name
        findings = self._findings(case)
        return Act(injected, self._claims(case), any(_blames_device(finding, name) for finding in findings))

    def _recorded(
        self, name: str, device: str | None = None, meddle: Callable[[Path], None] | None = None
    ) -> Path:
        """Runs the workload on `device`, or on a new file; meddles with it meanwhile, and solves the case."""
        spec = self.directory / f"{name}.toml"
        # The engine makes the file, and refuses one that is there: only for a device of ours it needs to be told.
        target = json.dumps(device or str(self.data / f"{name}.bin"))
        overwrite = "\nallow_overwrite = true      # the device is the demo's own" if device else ""
        spec.write_text(
            SPEC.format(target=target, seconds=self.seconds, overwrite=overwrite), encoding="utf-8"
        )
        case = self.directory / f"{name}.case"
        run = [self.whodisk, "run", str(spec), "-o", str(case), "--drop-raw"]
        _show(run, " &" if meddle else "")
        with subprocess.Popen(run) as process:
            if meddle:
                meddle(case)
            _finish(process)
        self._command(["solve", str(case)])
        return case

    @contextmanager
    def _slowdisk(self) -> Iterator[str]:
        command = [self.whodisk, "slowdisk", "--size", "256MiB", "--fault", TAIL_FAULT]
        _show(command, " &")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            output: IO[str] | None = process.stdout
            assert output is not None
            device = output.readline().strip()
            if not device:
                _finish(process)
                raise WhodiskError(
                    "slowdisk: expected the path of a device, found nothing; see its message above"
                )
            print(f"   {device}")
            try:
                yield device
            finally:
                process.send_signal(signal.SIGINT)
                print("".join(f"   {line}" for line in output), end="")
                process.wait()

    def _command(self, arguments: list[str]) -> None:
        command = [self.whodisk, *arguments]
        _show(command)
        with subprocess.Popen(command) as process:
            _finish(process)

    def _findings(self, case: Path) -> list[dict[str, Any]]:
        verdict = json.loads((case / "findings.json").read_text(encoding="utf-8"))
        findings: list[dict[str, Any]] = verdict["findings"]
        return findings

    def _claims(self, case: Path) -> list[str]:
        verdict = json.loads((case / "findings.json").read_text(encoding="utf-8"))
        named = [_culprit(finding) for finding in verdict["findings"]]
        return named or [f"nobody: {verdict['status']}"]

    @staticmethod
    def _say(text: str) -> None:
        print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def _culprit(finding: dict[str, Any]) -> str:
    """Whom a finding names, with its part of all latency: `the device stage of loop0, 31.2 %`."""
    culprit = finding["culprit"]
    name = words.accused(culprit["kind"], culprit["name"], culprit["because_of"])
    return f"{name}, {words.percent(finding['share_of_latency'])}"


def _show(command: list[str], suffix: str = "") -> None:
    print(f"$ whodisk {shlex.join(command[1:])}{suffix}", flush=True)


def _finish(process: subprocess.Popen[Any]) -> None:
    code = process.wait()
    if code != 0:
        raise agent.AgentError(2)


def _stop_now_and_then(case: Path) -> list[float]:
    """Stops the workload of the case that is being recorded until it ends; returns when."""
    pid = _workload_pid(case)
    if pid is None:
        return []
    chance = random.Random(23)
    begin = time.monotonic()
    stops = []
    line = f"kill -STOP {pid}; sleep {STOP_SECONDS}; kill -CONT {pid}"
    time.sleep(1.0)
    while _alive(pid):
        print(f"$ {line}        # after {time.monotonic() - begin:.1f} s", flush=True)
        done = subprocess.run(["/bin/sh", "-c", line], stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            stops.append(time.monotonic() - begin)
        time.sleep(chance.uniform(0.3, 0.9))
    return stops


def _workload_pid(case: Path) -> int | None:
    """The workload's pid as the case says, as soon as it has logged its first operations."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        streams = list((case / "raw" / "app").glob("worker-*"))
        if any(stream.stat().st_size > 0 for stream in streams):
            meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
            pid: int | None = meta["command_pid"]
            return pid
        time.sleep(0.02)
    return None


def _alive(pid: int) -> bool:
    """Whether the process exists and has not ended (a process that nobody waited for yet has ended)."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False


def _blames_device(finding: dict[str, Any], device: str) -> bool:
    culprit = finding["culprit"]
    if culprit["kind"] == "device":
        return bool(culprit["name"] == device)
    # A boundary that could not be observed merges stages: "device+interrupt".
    return culprit["kind"] == "stage" and "device" in culprit["name"].split("+")


def _new_directory(wanted: Path | None) -> Path:
    """A directory that was not there before: the one asked for, else the first free name. Raises WhodiskError."""
    names = [wanted] if wanted else [Path("whodisk-demo")]
    names += [] if wanted else [Path(f"whodisk-demo-{number}") for number in range(2, DEMOS_MAX)]
    for name in names:
        try:
            name.mkdir(parents=True)
        except FileExistsError:
            continue
        return name
    raise WhodiskError(
        f"{names[0]}: expected the name of a new directory, found one that is there; "
        "choose another with -o, or remove it"
    )


@contextmanager
def _place_for_data(directory: Path) -> Iterator[Path]:
    """A new folder of ours on a real disk: below `directory`, else at home or in /var/tmp. Removed at the end with
    the files that the engine made there, and left where somebody put something else there."""
    folder = _private_folder(_places(directory)) or Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
    if _is_in_memory(folder):
        print(
            f"whodisk: no disk found: {directory.resolve()}, your home and /var/tmp are in memory, or nobody may write there",
            file=sys.stderr,
        )
    try:
        yield folder
    finally:
        for name in DATA_FILES:
            (folder / name).unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError as error:
            print(f"whodisk: {folder}: left: {error.strerror}", file=sys.stderr)


def _places(directory: Path) -> list[Path]:
    try:
        home = [Path.home()]
    except RuntimeError:
        home = []
    return [directory, *home, Path("/var/tmp")]


def _private_folder(places: Sequence[Path]) -> Path | None:
    """A folder that nobody else can enter, in the first of the places that is on a disk and may be written."""
    for place in places:
        if not place.is_dir() or _is_in_memory(place):
            continue
        try:
            # A random name that is made, never followed or taken over, with mode 0700.
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        except OSError:
            continue
    return None


def _is_in_memory(place: Path) -> bool:
    return _file_system(place) in ("tmpfs", "ramfs")


def _file_system(place: Path) -> str:
    """Type of the file system that `place` is on."""
    best, kind = "", ""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, target, file_system, *_rest = line.split()
        target = target.replace("\\040", " ")
        if place.resolve().is_relative_to(target) and len(target) >= len(best):
            best, kind = target, file_system
    return kind


def _summary(acts: list[Act], stage: Stage) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    table = Table(title="What was injected, and what whodisk named", title_justify="left")
    table.add_column("injected", ratio=2)
    table.add_column("whodisk named, with its part of all latency", ratio=3)
    table.add_column("")
    for act in acts:
        mark = {True: "named", False: "NOT NAMED", None: act.note}[act.right]
        table.add_row(act.injected, Text("\n".join(act.named) or "-"), mark)
    console.print()
    console.print(table)
    if not stage.sees_block:
        reasons = "; ".join(f"{name}: {found}" for name, found in stage.unseen.items())
        console.print(f"Only the workload's own layer was seen; what the disk did stayed hidden ({reasons}).")
    console.print(f"Reports: {stage.directory}/*.case/report.html")
    console.print("Next, on something of your own:  .venv/bin/whodisk solve -- COMMAND")
