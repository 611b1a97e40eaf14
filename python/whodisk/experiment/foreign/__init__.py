"""Workloads that people have, as access specifications: one file per format. What our engine cannot do is refused by name, never left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.experiment.foreign import diskspd, fio_job, iometer

#: Ending of a file -> what reads it: (file, name of the part) -> access specification.
READERS: dict[str, Callable[[Path, str | None], dict[str, Any]]] = {
    ".icf": iometer.read,
    ".xml": diskspd.read,
    ".fio": fio_job.read,
}


def is_foreign(path: Path) -> bool:
    """Whether a file is in one of these formats, by its ending."""
    return path.suffix.lower() in READERS


def access_specification(path: Path, part: str | None, over: dict[str, Any]) -> dict[str, Any]:
    """The access specification of a file (of its job or access specification `part`, where it has several), with `over` laid over it.

    Raises WhodiskError that names the file, the option, and what to do.
    """
    table = READERS[path.suffix.lower()](path, part) | over
    if not table.get("targets"):
        raise WhodiskError(
            f'{path}: expected a target of this machine, found none; give one: override.targets = ["/mnt/test/file"]'
        )
    return table
