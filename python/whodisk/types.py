"""Types that several modules share and that know nothing themselves."""

from __future__ import annotations

#: A value in a row of a query.
Cell = int | float | str | bool | None
