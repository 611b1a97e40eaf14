"""What an arm runs, as a command line of the binary (or, for copies and programs, of Python) that leaves a case. A new kind of load is a function and a line of `BUILD`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whodisk.copies.specification import COMMAND, is_copy
from whodisk.errors import WhodiskError
from whodisk.experiment import replay
from whodisk.experiment.foreign import access_specification, is_foreign
from whodisk.experiment.plan import Arm
from whodisk.programs import ALIASES, PROGRAMS
from whodisk.reading.views import Case


def command_line(arm: Arm, case: Path, scratch: Path, seed: int) -> list[str]:
    """Arguments of the binary: observe this arm's load and write `case`. `scratch`: where a specification may be written.

    Raises WhodiskError for a load that is not there or not understood.
    """
    kind, value = arm.load
    return BUILD[kind](arm, value, case, scratch, seed)


def check(arm: Arm) -> None:
    """Raises WhodiskError for a load that could not be started."""
    kind, value = arm.load
    if kind in ("spec", "fio") and not Path(str(value)).is_file():
        raise WhodiskError(
            f"arm '{arm.name}': {kind}: expected a file, found none at {value}; check the path"
        )
    if kind == "fio" and arm.table.get("engine", "fio") not in ("fio", "whodisk"):
        raise WhodiskError(
            f"arm '{arm.name}': engine: expected fio or whodisk, found {arm.table['engine']!r}"
        )
    if kind == "fio" and arm.table.get("engine") == "whodisk" and not is_foreign(Path(str(value))):
        raise WhodiskError(
            f"arm '{arm.name}': fio: expected a file NAME.fio for engine = \"whodisk\", found {value}"
        )
    if kind == "replay":
        if not str(arm.table.get("target", "")):
            raise WhodiskError(
                f"arm '{arm.name}': replay: expected target, the file or device that it goes to, found none"
            )
        replay.times_of(str(arm.table.get("speed", "timed")), arm.name)
        scale = replay.scale_of(arm.table.get("scale", 1), arm.name)
        with Case(Path(str(value))) as case:
            replay.about(case, scale)
    foreign_table(arm)
    if kind == "program":
        _check_program(arm, value)
    if kind == "workload" and not isinstance(value, dict):
        raise WhodiskError(
            f"arm '{arm.name}': workload: expected a table of an access specification, found {value!r}"
        )
    if kind == "command" and not isinstance(value, (str, list)):
        raise WhodiskError(f"arm '{arm.name}': command: expected text or a list of words, found {value!r}")


#: Keys of a program beside its name, and what their values are; all are options of `whodisk run PROGRAM`.
PROGRAM_KEYS: dict[str, type | tuple[type, ...]] = {
    "path": str,
    "seconds": (int, float),
    "clients": int,
    "rate": (int, float),
    "scale": (int, float),
}


def engine_text(arm: Arm) -> str | None:
    """The access specification that our engine would run for an arm, as TOML; None if something else runs, or a copy."""
    kind, value = arm.load
    if kind == "spec" and not is_foreign(Path(str(value))):
        return None if is_copy(Path(str(value))) else Path(str(value)).read_text(encoding="utf-8")
    table = value if kind == "workload" else foreign_table(arm)
    return specification(table) if isinstance(table, dict) and "method" not in table else None


def _program_table(value: Any) -> dict[str, Any]:
    """`program = "sqlite"` is short for `program = { name = "sqlite" }`."""
    return {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {}


def _check_program(arm: Arm, value: Any) -> None:
    """Raises WhodiskError for a program that there is not, that is not installed, or that does not obey what is asked for."""
    table, where = _program_table(value), f"arm '{arm.name}': program"
    name = str(table.pop("name", ""))
    program = PROGRAMS.get(ALIASES.get(name, name))
    if program is None:
        raise WhodiskError(f"{where}: expected one of {', '.join(PROGRAMS)}; found {name or value!r}")
    for key, given in table.items():
        if key not in PROGRAM_KEYS or not isinstance(given, PROGRAM_KEYS[key]) or isinstance(given, bool):
            raise WhodiskError(
                f"{where}: expected name and {', '.join(PROGRAM_KEYS)} (a number, path a folder); found {key} = {given!r}"
            )
        if key not in ("path", "seconds", *program.takes):
            takes = ", ".join(program.takes) or "none of clients, rate and scale"
            raise WhodiskError(f"{where}: {key} says nothing to {program.name}; it takes {takes}")
    if (lacking := program.missing()) is not None:
        raise WhodiskError(f"{where}: {lacking}")
    if Path(name).is_file():
        raise WhodiskError(
            f"{where}: expected no file {name} here, which `whodisk run {name}` takes for a specification; run this elsewhere"
        )


def is_of_python(words: list[str]) -> bool:
    """Whether Python runs this command line, not the binary."""
    return words[0] == COMMAND or (words[0] == "run" and words[1] in {*PROGRAMS, *ALIASES})


def _program(arm: Arm, value: Any, case: Path, _scratch: Path, seed: int) -> list[str]:
    table = _program_table(value)
    words = ["run", str(table.pop("name")), "-o", str(case), "--drop-raw", "--seed", str(seed)]
    return words + [word for key, given in table.items() for word in (f"--{key}", str(given))]


def _run(arm: Arm, spec: str, case: Path, *more: str) -> list[str]:
    only = ["--app-only"] if arm.table.get("observe") == "app" else []
    command = COMMAND if is_copy(Path(spec)) else "run"
    return [command, spec, "-o", str(case), "--drop-raw", *only, *more]


def _record(arm: Arm, case: Path, words: list[str]) -> list[str]:
    duration = arm.table.get("duration")
    limit = ["--duration", str(duration)] if duration else []
    return ["record", "-o", str(case), "--drop-raw", *limit, "--", *words]


def _workload(arm: Arm, value: dict[str, Any], case: Path, scratch: Path, _seed: int) -> list[str]:
    path = scratch / f"{case.stem}.toml"
    path.write_text(specification(value), encoding="utf-8")
    return _run(arm, str(path), case)


def _spec(arm: Arm, value: str, case: Path, scratch: Path, seed: int) -> list[str]:
    table = foreign_table(arm)
    return _run(arm, str(value), case) if table is None else _workload(arm, table, case, scratch, seed)


def foreign_table(arm: Arm) -> dict[str, Any] | None:
    """The access specification of an arm with a file of another tool as its load; None if it is not, or if fio runs it itself."""
    kind, value = arm.load
    runs_it = kind == "spec" or (kind == "fio" and arm.table.get("engine", "fio") == "whodisk")
    if not runs_it or not is_foreign(Path(str(value))):
        return None
    return access_specification(Path(str(value)), arm.table.get("part"), arm.table.get("override", {}))


def _fio(arm: Arm, value: str, case: Path, scratch: Path, seed: int) -> list[str]:
    if arm.table.get("engine", "fio") == "whodisk":
        return _spec(arm, value, case, scratch, seed)
    return _record(arm, case, ["fio", str(value), *(str(word) for word in arm.table.get("arguments", []))])


def _command(arm: Arm, value: str | list[Any], case: Path, _scratch: Path, _seed: int) -> list[str]:
    return _record(
        arm, case, ["bash", "-c", value] if isinstance(value, str) else [str(word) for word in value]
    )


def _scenario(arm: Arm, value: str, case: Path, _scratch: Path, seed: int) -> list[str]:
    sets = [part for word in arm.table.get("arguments", []) for part in ("--set", str(word))]
    return ["lab", "run", str(value), "-o", str(case), "--seed", str(seed), *sets]


def _replay(arm: Arm, value: str, case: Path, scratch: Path, seed: int) -> list[str]:
    """The engine does again what a case recorded; its file of operations is written once for each arm."""
    table = replay.workload(
        arm.name,
        Path(value),
        scratch / "replay.operations",
        target=str(arm.table["target"]),
        speed=str(arm.table.get("speed", "timed")),
        scale=arm.table.get("scale", 1),
        override=arm.table.get("override", {}),
    )
    return _workload(arm, table, case, scratch, seed)


def replay_writes(arm: Arm) -> bool:
    """Whether the case that an arm replays holds anything but reads."""
    with Case(Path(str(arm.table["replay"]))) as case:
        return replay.about(case, 1.0).writes


BUILD: dict[str, Callable[[Arm, Any, Path, Path, int], list[str]]] = {
    "workload": _workload,
    "spec": _spec,
    "fio": _fio,
    "command": _command,
    "program": _program,
    "scenario": _scenario,
    "replay": _replay,
}


def specification(table: dict[str, Any]) -> str:
    """An access specification as TOML."""
    return "[workload]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())


def _toml(value: Any) -> str:
    """Strings, numbers, truth values and lists are written in TOML as in JSON; tables are not."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
        )
    return json.dumps(value)
