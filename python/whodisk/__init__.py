"""whodisk finds what makes storage slow, and proves it.

Everything here reads a case directory (Parquet, `case.json`, `system.json`); what writes one is the binary
`whodisk-agent`. `whodisk.open` is for programs and notebooks (docs/how-to/python.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from whodisk.api.opened import OpenCase

__version__ = "0.1.0"


def open(path: Path | str) -> OpenCase:
    """Opens a sealed case: `whodisk.open("slow.case").ops("block")` is an Arrow table. Raises whodisk.errors.CaseError."""
    from whodisk.api.opened import OpenCase

    return OpenCase(path)
