"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes is a matter of who else uses the machine.
settings.register_profile("whodisk", deadline=None)
settings.load_profile("whodisk")
