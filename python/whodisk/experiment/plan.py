"""What an experiment file says: arms, settings, preparation, how often, when to stop. docs/how-to/experiments.md describes the keys."""

from __future__ import annotations

import copy
import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment import metrics
from whodisk.statistics.stopping import ROUNDS_MIN, Rule

#: What an arm may run; exactly one of them.
LOADS = ("workload", "spec", "fio", "command", "program", "scenario", "replay")
ARM_KEYS = {
    *LOADS,
    "engine",
    "set",
    "mount",
    "prepare",
    "setup",
    "teardown",
    "observe",
    "reads_only",
    "slowdisk",
}
ARM_KEYS |= {"against", "duration", "arguments", "cgroup", "part", "override", "speed", "target", "scale"}
EXPERIMENT_KEYS = {
    "name",
    "about",
    "metric",
    "metrics",
    "layer",
    "repetitions",
    "repetitions_max",
    "half_width",
}
EXPERIMENT_KEYS |= {"seed", "baseline", "settle", "order"}
TOP_KEYS = {"experiment", "common", "arm", "sweep", "slowdisk", "prepare", "setup", "teardown", "full"}
SLOWDISK_KEYS = {"size", "latency", "fault", "faults", "seed", "model", "backing"}
OBSERVED = ("full", "app")


@dataclass(frozen=True)
class Arm:
    """One way to run: everything of its table, defaults and sweep included."""

    name: str
    table: dict[str, Any]

    @property
    def load(self) -> tuple[str, Any]:
        """What it runs: one of `LOADS`, and its value."""
        return next((kind, self.table[kind]) for kind in LOADS if kind in self.table)

    def texts(self, key: str) -> list[str]:
        """Commands under a key: one string or several."""
        value = self.table.get(key, [])
        return [value] if isinstance(value, str) else list(value)


@dataclass(frozen=True)
class Plan:
    """An experiment, read and checked as far as that goes without looking at the machine."""

    path: Path
    name: str
    about: str
    arms: list[Arm]
    baseline: str
    metrics: list[str]
    layer: str | None
    rule: Rule
    seed: int
    settle: bool
    #: Block devices made for the experiment: name -> options; an arm may change them.
    slowdisks: dict[str, dict[str, Any]]
    prepare: list[dict[str, Any]]
    setup: list[str]
    teardown: list[str]
    #: The file's own text, for the record.
    text: str = field(repr=False, default="")

    def against(self, arm: Arm) -> str | None:
        """The arm that this one is compared with; None if with none."""
        name = str(arm.table.get("against", self.baseline))
        return name if name and name != arm.name else None


def read(path: Path, *, full: bool = False, seed: int | None = None, repetitions: int | None = None) -> Plan:
    """Reads an experiment file. Raises WhodiskError that names file, key, what was expected and found."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise WhodiskError(
            f"{path}: expected an experiment file (TOML), found nothing there; check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise WhodiskError(
            f"{path}: byte {error.start}: expected UTF-8 text, found something else; write it as TOML"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise WhodiskError(f"{path}: expected TOML, found: {error}; correct that line") from None
    if full and "full" not in table:
        raise WhodiskError(f"{path}: --full: expected a table [full] with what is different then, found none")
    if full:
        table = merged(table, table["full"])
    return plan_of(path, table, text, seed, repetitions)


def plan_of(
    path: Path, table: dict[str, Any], text: str = "", seed: int | None = None, repetitions: int | None = None
) -> Plan:
    """The plan behind a table."""
    _known(path, "", table, TOP_KEYS)
    about = _table(path, table, "experiment")
    _known(path, "experiment.", about, EXPERIMENT_KEYS)
    arms = _arms(path, table)
    baseline = str(about.get("baseline", arms[0].name))
    if baseline not in {arm.name for arm in arms}:
        raise WhodiskError(
            f"{path}: experiment.baseline: expected one of {', '.join(arm.name for arm in arms)}, found '{baseline}'"
        )
    for arm in arms:
        if (other := str(arm.table.get("against", ""))) and other not in {one.name for one in arms}:
            raise WhodiskError(
                f"{path}: arm '{arm.name}': against: expected the name of an arm, found '{other}'"
            )
    wanted = about.get("metrics", about.get("metric", []))
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in wanted:
        metrics.metric(name)
    slowdisks = {str(k): dict(v) for k, v in _table(path, table, "slowdisk").items()}
    for name, options in slowdisks.items():
        _known(path, f"slowdisk.{name}.", options, SLOWDISK_KEYS)
    return Plan(
        path,
        str(about.get("name", path.stem)),
        str(about.get("about", "")),
        arms,
        baseline,
        wanted,
        about.get("layer"),
        _rule(path, about, repetitions),
        int(seed if seed is not None else about.get("seed", 1)),
        bool(about.get("settle", False)),
        slowdisks,
        _steps(path, table.get("prepare", [])),
        _commands(path, "setup", table),
        _commands(path, "teardown", table),
        text,
    )


def _rule(path: Path, about: Mapping[str, Any], repetitions: int | None) -> Rule:
    least = repetitions if repetitions is not None else about.get("repetitions", ROUNDS_MIN)
    if not isinstance(least, int) or isinstance(least, bool) or not 1 <= least <= 1000:
        raise WhodiskError(f"{path}: experiment.repetitions: expected 1 to 1000, found {least!r}")
    half = about.get("half_width")
    if half is None or repetitions is not None:
        return Rule(None, least, least)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(half))
    if not match or float(match[1]) <= 0:
        raise WhodiskError(
            f"{path}: experiment.half_width: expected a part in percent such as '3%', found {half!r}"
        )
    most = about.get("repetitions_max", 4 * least)
    if not isinstance(most, int) or most < least:
        raise WhodiskError(f"{path}: experiment.repetitions_max: expected {least} or more, found {most!r}")
    return Rule(float(match[1]) / 100, least, most)


def _arms(path: Path, table: dict[str, Any]) -> list[Arm]:
    given = _table(path, table, "arm")
    common = _table(path, table, "common")
    sweep = _table(path, table, "sweep")
    if not given and sweep:
        given = {"": {}}
    if not given:
        raise WhodiskError(
            f"{path}: expected arms ([arm.NAME]), found none; an experiment compares two or more"
        )
    arms = []
    for name, own in given.items():
        if not isinstance(own, dict):
            raise WhodiskError(f"{path}: arm.{name}: expected a table, found {own!r}")
        for extra, swept in _swept(path, sweep):
            # What an arm runs itself stands instead of what all run.
            kept = {
                key: v
                for key, v in common.items()
                if key not in LOADS or key in own or not set(own) & set(LOADS)
            }
            whole = merged(merged(kept, own), swept)
            arm = Arm(" ".join(part for part in (name, extra) if part), whole)
            _check_arm(path, arm)
            arms.append(arm)
    if len(arms) < 2:
        raise WhodiskError(f"{path}: expected two arms or more, found {len(arms)}: {arms[0].name}")
    for name in (arm.name for arm in arms):
        if not re.fullmatch(r"[\w.,=%+\- ]{1,100}", name):
            raise WhodiskError(f"{path}: arm '{name}': expected letters, digits and .,=%+- in its name")
    return arms


def _swept(path: Path, sweep: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the values, as a name and a table to lay over an arm."""
    for key, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise WhodiskError(f"{path}: sweep.'{key}': expected a list of values, found {values!r}")
    found = []
    for choice in itertools.product(*sweep.values()):
        laid: dict[str, Any] = {}
        for key, value in zip(sweep, choice, strict=True):
            laid = merged(laid, _nested(key.split("."), value))
        named = [f"{key.split('.')[-1]}={value}" for key, value in zip(sweep, choice, strict=True)]
        found.append((" ".join(named), laid))
    return found


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    return {keys[0]: value if len(keys) == 1 else _nested(keys[1:], value)}


def _check_arm(path: Path, arm: Arm) -> None:
    where = f"{path}: arm '{arm.name}'"
    unknown = sorted(set(arm.table) - ARM_KEYS)
    if unknown:
        raise WhodiskError(f"{where}: expected {', '.join(sorted(ARM_KEYS))}; found '{unknown[0]}'")
    loads = [kind for kind in LOADS if kind in arm.table]
    if len(loads) != 1:
        raise WhodiskError(
            f"{where}: expected one of {', '.join(LOADS)}, found {' and '.join(loads) if loads else 'none'}"
        )
    if arm.table.get("observe", "full") not in OBSERVED:
        raise WhodiskError(
            f"{where}: observe: expected one of {', '.join(OBSERVED)}, found {arm.table['observe']!r}"
        )
    for name, options in arm.table.get("slowdisk", {}).items():
        _known(path, f"arm '{arm.name}' slowdisk.{name}.", options, SLOWDISK_KEYS)
    _steps(path, arm.table.get("prepare", []))


def _steps(path: Path, steps: Any) -> list[dict[str, Any]]:
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise WhodiskError(f"{path}: prepare: expected a list of tables ([[prepare]]), found {steps!r}")
    return steps


def _commands(path: Path, key: str, table: dict[str, Any]) -> list[str]:
    value = table.get(key, [])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise WhodiskError(f"{path}: {key}: expected a command or a list of commands, found {value!r}")
    return value


def _table(path: Path, table: dict[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise WhodiskError(f"{path}: {key}: expected a table, found {value!r}")
    return value


def _known(path: Path, prefix: str, table: Mapping[str, Any], keys: set[str]) -> None:
    for key in table:
        if key not in keys:
            raise WhodiskError(
                f"{path}: {prefix}{key}: expected one of {', '.join(sorted(keys))}, found '{key}'"
            )


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid over it, tables inside each other too."""
    result = copy.deepcopy(dict(base))
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with `{name}` replaced wherever it stands, in keys too. Other braces stay: shells use them."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, dict):
        return {filled(key, names): filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    return value
