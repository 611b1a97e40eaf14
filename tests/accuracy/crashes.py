"""One run: kill the recorder or a seal at a random moment, then read the case it leaves."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AGENT = Path(os.environ.get("WHODISK_AGENT", Path(sys.executable).parent / "whodisk-agent"))
#: What is killed.
ROWS = ("killed/recording", "killed/sealing")
#: A recorder is killed within this many seconds of its first instruction or, every other time, of its first stream.
MOMENT_SECONDS = 1.5
#: A busy host may need so long to attach.
ATTACH_SECONDS_MAX = 30.0
#: A seal is killed within this many times of what an undisturbed one took.
SEAL_SHARE = 1.1

SPEC = """[workload]
targets = ["{target}"]
file_size = "4MiB"
allow_overwrite = true
block_sizes = "4KiB"
read = "60%"
random = "55%"
workers = 2
queue_depth = 4
duration = "{seconds}s"
seed = {seed}
"""


@dataclass(frozen=True)
class Outcome:
    """What a kill left."""

    #: Readable up to the last batch, or not begun and said to be so.
    readable: bool
    #: The moment, and what was found.
    said: str


def run_once(row: str, seed: int, work: Path) -> Outcome:
    """Kills once, in the directory `work`; what it needs for that is kept there from run to run.

    Raises subprocess.CalledProcessError if a command that nobody killed fails.
    """
    work.mkdir(parents=True, exist_ok=True)
    case = work / "killed.case"
    shutil.rmtree(case, ignore_errors=True)
    kill = _kill_recording if row == "killed/recording" else _kill_sealing
    try:
        return kill(random.Random(seed), seed, case, work)
    finally:
        shutil.rmtree(case, ignore_errors=True)


def _kill_recording(chance: random.Random, seed: int, case: Path, work: Path) -> Outcome:
    moment = chance.uniform(0.0, MOMENT_SECONDS)
    spec = _spec(work, seed, 60)
    late = seed % 2 == 0
    _kill_after(["run", str(spec), "-o", str(case)], moment, case / "raw" if late else None)
    place = f"killed {moment:.3f} s after its {'first stream' if late else 'begin'}"
    if not (case / "case.json").exists():
        return Outcome(True, f"{place}: no case yet")
    pid = _meta(case)["command_pid"]
    if pid is not None and not _ends(pid):
        return Outcome(False, f"{place}: the workload outlived its recorder")
    if not any((case / "raw").rglob("*.arrows")):
        done = _agent("seal", str(case))
        return Outcome(done.returncode == 2 and "nothing" in done.stderr, f"{place}: nothing recorded yet")
    return _read(case, place)


def _kill_sealing(chance: random.Random, seed: int, case: Path, work: Path) -> Outcome:
    template, seconds, tables = _template(seed, work)
    shutil.copytree(template, case)
    moment = chance.uniform(0.0, seconds * SEAL_SHARE)
    _kill_after(["seal", str(case)], moment)
    state = _meta(case)["state"]
    place = f"seal killed after {moment * 1e3:.0f} of {seconds * 1e3:.0f} ms, then {state}"
    if (damage := _problems(case)) is not None:
        return Outcome(False, f"{place}: {damage}")
    outcome = _read(case, place)
    if outcome.readable and _meta(case)["tables"] != tables:
        return Outcome(False, f"{place}: a second seal gave other tables than an undisturbed one")
    return outcome


def _read(case: Path, place: str) -> Outcome:
    """Seals and verifies what is left."""
    sealed = _agent("seal", str(case))
    if sealed.returncode != 0:
        return Outcome(False, f"{place}: cannot be sealed: {sealed.stderr.strip()}")
    if (damage := _problems(case)) is not None:
        return Outcome(False, f"{place}: {damage}")
    rows = {layer: facts["rows"] for layer, facts in _meta(case)["layers"].items()}
    return Outcome(True, f"{place}: {rows}")


def _problems(case: Path) -> str | None:
    """What `verify` finds wrong; None if nothing. What it says to be missing is no damage."""
    done = _agent("verify", str(case), "--json")
    if done.returncode not in (0, 1):
        return f"cannot be verified: {done.stderr.strip()}"
    problems = json.loads(done.stdout)["problems"]
    return f"{len(problems)} problems, the first: {problems[0]}" if problems else None


def _template(seed: int, work: Path) -> tuple[Path, float, dict[str, Any]]:
    """An unsealed recording, how long its seal takes, and the tables that come out; made once in `work`."""
    template, facts = work / "template.case", work / "template.json"
    if not facts.exists():
        shutil.rmtree(template, ignore_errors=True)
        _agent("run", str(_spec(work, seed, 1)), "-o", str(template), "--no-seal", check=True)
        sealed = work / "sealed.case"
        shutil.rmtree(sealed, ignore_errors=True)
        shutil.copytree(template, sealed)
        begin = time.monotonic()
        _agent("seal", str(sealed), check=True)
        seconds = time.monotonic() - begin
        facts.write_text(json.dumps([seconds, _meta(sealed)["tables"]]), encoding="utf-8")
        shutil.rmtree(sealed)
    seconds, tables = json.loads(facts.read_text(encoding="utf-8"))
    return template, seconds, tables


def _spec(work: Path, seed: int, seconds: int) -> Path:
    path = work / "spec.toml"
    text = SPEC.format(target=work / "data.bin", seconds=seconds, seed=seed)
    path.write_text(text, encoding="utf-8")
    return path


def _kill_after(arguments: list[str], seconds: float, streams: Path | None = None) -> None:
    """With `streams`, the seconds count from the first stream in that folder on."""
    command = [str(AGENT), *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        latest = time.monotonic() + ATTACH_SECONDS_MAX
        while streams is not None and time.monotonic() < latest and not any(streams.rglob("*.arrows")):
            time.sleep(0.005)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()


def _agent(*arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run([AGENT, *arguments], capture_output=True, text=True, check=check)


def _meta(case: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((case / "case.json").read_text(encoding="utf-8"))
    return content


def _ends(pid: int) -> bool:
    """Whether the process is gone, or a zombie, within a second."""
    for _ in range(100):
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"):
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
