"""The registry: a detector is one file and one line here.

The order matters: what an earlier detector explains is not blamed again by a later one, so the more
specific ones come first.
"""

from __future__ import annotations

from whodisk.detectors import saturation, stage_blame, submitter_gap
from whodisk.detectors.base import Detector

DETECTORS: tuple[Detector, ...] = (
    submitter_gap.DETECTOR,
    stage_blame.DETECTOR,
    saturation.DETECTOR,
)
