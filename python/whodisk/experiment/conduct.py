"""Runs an experiment: checks everything first, then rounds of all arms in random order, settings put back after every run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment import loads, preparation, safety, settings
from whodisk.experiment.comparison import Comparison, Side, compared
from whodisk.experiment.journal import Journal
from whodisk.experiment.measure import Measured, common_layer, layers_of, measure
from whodisk.experiment.plan import Arm, Plan, filled
from whodisk.experiment.preparation import Tools, shell
from whodisk.statistics.stopping import enough

#: An arm that failed so often in a row is not tried again.
FAILURES_MAX = 2
#: Joins a control group, then becomes the program.
_JOIN = 'echo $$ > "$1" && shift && exec "$@"'


@dataclass
class Attempt:
    """One run of one arm."""

    round: int
    arm: str
    started_utc: str
    seconds: float = 0.0
    case: str = ""
    #: Why there is no result; empty if there is one.
    failed: str = ""
    prepared: list[dict[str, Any]] = field(default_factory=list)
    measured: Measured | None = None


@dataclass
class Result:
    """What an experiment found, complete or not."""

    plan: Plan
    folder: Path
    attempts: list[Attempt]
    #: Preparation before the first run.
    prepared: list[dict[str, Any]]
    #: `enough` (the rule said so), `failed` (no two arms are left) or `stopped` (by the user).
    ended_by: str = "enough"
    comparisons: list[Comparison] = field(default_factory=list)

    def side(self, arm: str, rounds: set[int] | None = None) -> Side:
        """The runs of an arm that have a result."""
        runs = [
            a for a in self.attempts if a.arm == arm and a.measured and (rounds is None or a.round in rounds)
        ]
        return Side(arm, [a.measured for a in runs if a.measured])

    def rounds(self, arm: str) -> set[int]:
        """Rounds in which an arm has a result."""
        return {a.round for a in self.attempts if a.arm == arm and a.measured}


@dataclass
class Conductor:
    """One experiment on this machine."""

    plan: Plan
    #: The binary `whodisk-agent`.
    agent: Path
    folder: Path
    journal_path: Path
    #: Devices that may be destroyed.
    allowed: list[str]
    #: Tells the user what goes on.
    say: Callable[[str], None]
    #: The layer that is compared; known after the first round.
    layer: str = ""

    def check(self) -> None:
        """Everything that can be known before anything runs. Raises WhodiskError; changes nothing that lasts."""
        targets = preparation.check(self._static(self.plan.prepare), "prepare")
        for arm in self.plan.arms:
            loads.check(arm)
            kind, value = arm.load
            if (table := loads.foreign_table(arm)) is not None:
                kind, value = "workload", table
            if kind == "replay" and safety.is_block(str(arm.table["target"])) and loads.replay_writes(arm):
                targets.append(safety.Target(str(arm.table["target"]), f"arm '{arm.name}'"))
            targets += safety.targets_of_load(
                arm.name,
                kind,
                value,
                reads_only=bool(arm.table.get("reads_only")),
                arguments=arm.table.get("arguments", []),
            )
            targets += preparation.check(self._static(arm.table.get("prepare", [])), f"arm '{arm.name}'")
        safety.refuse(targets, self.allowed)
        self._check_specifications()
        for arm in self.plan.arms:
            if self.plan.slowdisks or arm.table.get("slowdisk"):
                continue
            for setting in settings.settings_of(arm.table):
                setting.check()

    def _check_specifications(self) -> None:
        """Access specifications of arms, as the engine reads them. Raises WhodiskError with its words."""
        seen: set[str] = set()
        for arm in self.plan.arms:
            text = loads.engine_text(arm)
            if text is None or text in seen:
                continue
            seen.add(text)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "specification.toml"
                path.write_text(text, encoding="utf-8")
                done = subprocess.run(
                    [self.agent, "run", str(path), "--check"], capture_output=True, text=True, check=False
                )
            if done.returncode != 0:
                said = done.stderr.strip().removeprefix("whodisk: ").replace(str(path), "workload")
                raise WhodiskError(f"arm '{arm.name}': {said[-600:]}")

    def _static(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Steps that can be checked now: those on devices that do not exist yet, or files that set-up makes, cannot."""
        made = ["{" + name for name in self.plan.slowdisks]
        later = bool(self.plan.setup or self.plan.slowdisks)
        return [
            s
            for s in steps
            if not any(text in str(s) for text in made) and not (later and "command" not in s)
        ]

    def run(self) -> Result:
        """Runs until the rule says enough, or Ctrl-C; then compares. Raises WhodiskError only before the first run."""
        self.check()
        journal = Journal.begin(self.journal_path)
        self.folder.mkdir(parents=True, exist_ok=False)
        result = Result(self.plan, self.folder, [], [])
        with _ends_by_signal():
            try:
                self._whole(journal, result)
            except KeyboardInterrupt:
                result.ended_by = "stopped"
            finally:
                with _undisturbed():
                    self._undo(journal)
                    journal.close()
        self._measure(result)
        result.comparisons = self.compare(result)
        return result

    def _whole(self, journal: Journal, result: Result) -> None:
        for command in self.plan.teardown:
            journal.add("command", "teardown", "", command)
        for command in self.plan.setup:
            shell(command)
        self._check_late(journal)
        result.prepared = preparation.do(self.plan.prepare, "prepare", self._tools(journal))
        order = random.Random(self.plan.seed)
        failures = dict.fromkeys((arm.name for arm in self.plan.arms), 0)
        for number in range(1, self.plan.rule.most + 1):
            arms = [arm for arm in self.plan.arms if failures[arm.name] < FAILURES_MAX]
            if len(arms) < 2 or self.plan.baseline not in {arm.name for arm in arms}:
                result.ended_by = "failed"
                return
            order.shuffle(arms)
            for arm in arms:
                result.attempts.append(self._attempt(arm, number, journal))
            self._measure(result)
            for attempt in result.attempts[-len(arms) :]:
                failures[attempt.arm] = failures[attempt.arm] + 1 if attempt.failed else 0
            if self._is_enough(result, number):
                return

    def _check_late(self, journal: Journal) -> None:
        """Settings of devices that exist only while an arm runs, and of what set-up made."""
        for arm in self.plan.arms:
            with self._slowdisks(arm, journal) as names:
                here = Arm(arm.name, filled(arm.table, names))
                for setting in settings.settings_of(here.table):
                    setting.check()
        preparation.check([s for s in self.plan.prepare if "{" not in str(s)], "prepare")

    def _attempt(self, arm: Arm, number: int, journal: Journal) -> Attempt:
        begin = time.monotonic()
        attempt = Attempt(number, arm.name, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        case = self.folder / arm.name / f"{number:02}.case"
        case.parent.mkdir(exist_ok=True)
        self.say(f"round {number}: {arm.name}")
        open_before = len(journal.open)
        try:
            with self._slowdisks(arm, journal) as names:
                here = Arm(arm.name, filled(arm.table, names))
                try:
                    self._prepared_run(here, case, number, journal, attempt)
                finally:
                    # Settings of a device go before the device does.
                    self._undo(journal, open_before + len(names) // 2)
            _check_command(case, arm)
            attempt.case = str(case.relative_to(self.folder))
        except (WhodiskError, OSError) as error:
            self._fail(attempt, error)
        attempt.seconds = time.monotonic() - begin
        return attempt

    def _prepared_run(self, arm: Arm, case: Path, number: int, journal: Journal, attempt: Attempt) -> None:
        for setting in settings.settings_of(arm.table):
            settings.change(setting, journal)
        for command in arm.texts("teardown"):
            journal.add("command", "teardown", "", command)
        environment = {"WHODISK_ARM": arm.name, "WHODISK_ROUND": str(number)}
        for command in arm.texts("setup"):
            shell(command, environment)
        attempt.prepared = preparation.do(
            arm.table.get("prepare", []), f"arm '{arm.name}'", self._tools(journal)
        )
        words = loads.command_line(arm, case, case.parent, self.plan.seed + number)
        self._call(words, journal, log=case.with_suffix(".log"), group=arm.table.get("cgroup"))
        attempt.prepared += preparation.after(arm.table.get("prepare", []), self._tools(journal))

    def _measure(self, result: Result) -> None:
        """Reads the cases of the last runs, all in the same layer: the one asked for, or the topmost that all of the first round have."""
        new = [a for a in result.attempts if a.case and not a.failed and a.measured is None]
        if not self.layer:
            new = self._choose_layer(new)
        for attempt in new:
            try:
                attempt.measured = measure(self.folder / attempt.case, self.layer, settle=self.plan.settle)
            except WhodiskError as error:
                self._fail(attempt, error)

    def _choose_layer(self, new: list[Attempt]) -> list[Attempt]:
        """Chooses the layer; attempts with cases that can be read in it. A case that cannot be read does not spoil the others."""
        readable = []
        for attempt in new:
            try:
                layers_of(self.folder / attempt.case)
                readable.append(attempt)
            except WhodiskError as error:
                self._fail(attempt, error)
        if not readable:
            return []
        try:
            self.layer = common_layer([self.folder / a.case for a in readable], self.plan.layer)
        except WhodiskError as error:
            for attempt in readable:
                self._fail(attempt, error)
            return []
        return readable

    def _fail(self, attempt: Attempt, error: Exception) -> None:
        attempt.failed = str(error)
        self.say(f"round {attempt.round}: {attempt.arm} failed: {error}")

    def _tools(self, journal: Journal) -> Tools:
        return Tools(journal, lambda words: self._call(words, journal), self.folder, self.plan.seed)

    def _call(
        self, words: list[str], journal: Journal, log: Path | None = None, group: str | None = None
    ) -> str:
        """Runs the binary to its end, in a control group if one is given; Ctrl-C reaches it, too, and it closes its case.

        Raises WhodiskError with its last words.
        """
        line, program = ["whodisk", *words], str(self.agent)
        if loads.is_of_python(words):
            program, words = sys.executable, ["-c", "from whodisk.cli.main import run; run()", *words]
            line = [program, *words]
        if group is not None:
            line, program = (
                ["bash", "-c", _JOIN, "whodisk", f"{group}/cgroup.procs", program, *words],
                "/bin/bash",
            )
        with subprocess.Popen(
            line, executable=program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            change = journal.add("process", str(process.pid), settings.start_of(process.pid), "")
            try:
                text, _ = process.communicate()
            except KeyboardInterrupt:
                with _undisturbed():
                    process.send_signal(signal.SIGINT)
                    process.communicate()
                raise
            finally:
                journal.undone(change)
        if log is not None:
            log.write_text(f"whodisk {' '.join(words)}\n{text}", encoding="utf-8")
        if process.returncode != 0:
            raise WhodiskError(
                f"whodisk {' '.join(words[:2])}: expected exit code 0, found {process.returncode}: {' '.join(text.split())[-400:]}"
            )
        return text

    @contextmanager
    def _slowdisks(self, arm: Arm, journal: Journal) -> Iterator[dict[str, str]]:
        """Devices of the experiment as this arm wants them; gives names to fill in: `{disk}` is the device, `{disk:name}` its name."""
        from whodisk.experiment.plan import merged

        wanted = merged(self.plan.slowdisks, arm.table.get("slowdisk", {}))
        running: list[tuple[subprocess.Popen[str], Any]] = []
        names: dict[str, str] = {}
        try:
            for name, options in wanted.items():
                words = ["slowdisk", "--size", _size_of(options)]
                for key in ("latency", "seed", "model", "backing"):
                    words += [f"--{key}", str(options[key])] if key in options else []
                faults = options.get("faults", options.get("fault", []))
                for fault in [faults] if isinstance(faults, str) else faults:
                    words += ["--fault", str(fault)]
                # In a session of its own: Ctrl-C is for the run that uses it, which must end first.
                process = subprocess.Popen(
                    ["whodisk", *words],
                    executable=self.agent,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
                running.append(
                    (process, journal.add("process", str(process.pid), settings.start_of(process.pid), ""))
                )
                device = process.stdout.readline().strip() if process.stdout else ""
                if not device.startswith("/dev/"):
                    said = process.stderr.read() if process.stderr else ""
                    raise WhodiskError(
                        f"slowdisk.{name}: expected a device, found: {said.strip()[-400:] or 'nothing'}"
                    )
                names |= {name: device, f"{name}:name": Path(device).name}
            yield names
        finally:
            with _undisturbed():
                for process, change in reversed(running):
                    process.send_signal(signal.SIGINT)
                    process.communicate()
                    journal.undone(change)

    def _undo(self, journal: Journal, keep: int = 0) -> None:
        """Puts back what was changed, the newest first, but the oldest `keep` changes; reports what could not be."""
        for change in reversed(journal.open[keep:]):
            try:
                settings.undo(change)
                journal.undone(change)
            except (WhodiskError, OSError) as error:
                self.say(
                    f"could not be put back: {error}; it stays in {journal.path}: `whodisk experiment --restore` tries again"
                )

    # -- what was found -------------------------------------------------------------------------

    def _is_enough(self, result: Result, number: int) -> bool:
        rule = self.plan.rule
        if number >= rule.most:
            return True
        if rule.half_width is None or number < rule.least:
            return number >= rule.most
        ratios = [comparison.primary for comparison in self.compare(result)]
        return bool(ratios) and enough(rule, number, ratios)

    def compare(self, result: Result) -> list[Comparison]:
        """Every other arm against the one it is compared with, over the rounds in which both have a result."""
        found = []
        for arm in self.plan.arms:
            against = self.plan.against(arm)
            if against is None:
                continue
            rounds = result.rounds(arm.name) & result.rounds(against)
            if rounds:
                base, other = result.side(against, rounds), result.side(arm.name, rounds)
                found.append(
                    compared(base, other, self.plan.metrics, paired=True, level=self.plan.rule.level)
                )
        return found


@contextmanager
def _ends_by_signal() -> Iterator[None]:
    """SIGTERM ends an experiment as Ctrl-C does: everything is put back."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Putting back is not interrupted by a second Ctrl-C."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _size_of(options: dict[str, Any]) -> str:
    """Of a slow disk: what is asked for, else its backing file's."""
    backing = Path(str(options.get("backing", "")))
    usual = f"{backing.stat().st_size}B" if backing.is_file() else "1GiB"
    return str(options.get("size", usual))


def _check_command(case: Path, arm: Arm) -> None:
    """A command that was recorded and failed is no result. Raises WhodiskError."""
    status = json.loads((case / "case.json").read_text(encoding="utf-8")).get("command_status")
    if status not in (None, "exit 0") and not (
        arm.table.get("duration") and str(status).startswith("signal")
    ):
        raise WhodiskError(
            f"the command of arm '{arm.name}': expected exit 0, found {status}; its output is in {case.with_suffix('.log')}"
        )


def machine() -> dict[str, Any]:
    """Versions that stand beside every number."""
    from whodisk import __version__

    return {
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "whodisk": __version__,
        "cpus": os.cpu_count(),
    }
