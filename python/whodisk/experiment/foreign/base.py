"""What readers of foreign workloads share."""

from __future__ import annotations

from pathlib import Path

from whodisk.errors import WhodiskError


def text_of(path: Path) -> str:
    """The file as text; old tools write other alphabets. Raises WhodiskError."""
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise WhodiskError(
            f"{path}: expected a file that can be read, found: {error.strerror}; check the path"
        ) from None


def chosen(path: Path, what: str, names: list[str], part: str | None) -> str:
    """The part that was asked for, or the only one. Raises WhodiskError."""
    if part is None and len(names) == 1:
        return names[0]
    if part in names and part is not None:
        return part
    found = "none given" if part is None else f"'{part}'"
    raise WhodiskError(
        f'{path}: expected one {what} of {", ".join(names) or "(it has none)"}, found {found}; say part = "NAME"'
    )


def percent(value: float) -> str:
    """``60%``."""
    return f"{value:g}%"
