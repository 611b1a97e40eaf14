"""Files that are written whole or not at all, nobody else's on the way, and as private as the case."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str, case: Path) -> None:
    """Replaces `path` at once: a reader sees the old or the new content, never a part. Raises OSError, which names `path`.

    The draft beside it has a random name and is made anew, so that no file or link that stands there is written to.
    Who may read `case.json` of `case` may read it, nobody else, whatever the umask: it reveals the same paths and command lines.
    """
    mode = (case / "case.json").stat().st_mode & 0o666
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        # The draft's name is nothing that the reader knows.
        raise OSError(error.errno, error.strerror, str(path)) from error
